/*
 * replay_main - runs a fuzz target over files, without libFuzzer: old findings stay fixed in every build.
 *
 *   fuzz_x FILE-OR-FOLDER...
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_BYTES_MAX ((size_t)1 << 24)

static unsigned inputs;

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_BYTES_MAX);
    if (file == NULL || data == NULL) {
        (void)fprintf(stderr, "%s can't be read\n", path);
        free(data);
        return 1;
    }
    size_t size = fread(data, 1, INPUT_BYTES_MAX, file);
    (void)fclose(file);
    /* A copy of the exact size, so that the address sanitizer sees a read behind it. */
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact != NULL) {
        memcpy(exact, data, size);
        (void)LLVMFuzzerTestOneInput(exact, size);
        inputs++;
    }
    free(exact);
    free(data);
    return exact != NULL ? 0 : 1;
}

static int run_path(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return run_file(path);
    }
    int failures = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char below[4096];
        if (entry->d_name[0] == '.') {
            continue;
        }
        int len = snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        failures += len < 0 || (size_t)len >= sizeof below ? 1 : run_path(below);
    }
    (void)closedir(folder);
    return failures;
}

int main(int argc, char **argv)
{
    int failures = 0;
    for (int i = 1; i < argc; i++) {
        failures += run_path(argv[i]);
    }
    printf("%u inputs replayed\n", inputs);
    return failures == 0 && inputs > 0 ? 0 : 1;
}
