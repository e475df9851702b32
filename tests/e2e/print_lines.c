/*
 * print_lines - prints a text file, plain or compressed with zstd, for tests in other languages.
 */
#include <stdio.h>

#include "sim/line_file.h"

int main(int argc, char **argv)
{
    cairn_line_file *file = NULL;
    cairn_error error = {0};
    if (argc != 2 ||
        cairn_line_file_open(cairn_mem_default(), argv[1], (size_t)64 << 20, &file, &error) != CAIRN_OK) {
        fprintf(stderr, "print_lines: %s\n", argc == 2 ? error.detail : "usage: print_lines FILE");
        return 1;
    }
    const char *text = NULL;
    size_t size = 0;
    cairn_status status;
    while ((status = cairn_line_file_next(file, &text, &size, &error)) == CAIRN_OK && text != NULL)
        (void)puts(text);
    cairn_line_file_close(file);
    return status == CAIRN_OK ? 0 : 1;
}
