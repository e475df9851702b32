/*
 * prior_main - cairn-prior TRACE...: the core's table of chances on the standard output.
 */
#include <stdio.h>

#include "prior.h"
#include "trace_file.h"

static int fail(const cairn_error *error)
{
    char text[512];
    cairn_error_print(error, text, sizeof text);
    (void)fprintf(stderr, "%s\n", text);
    return 2;
}

int main(int argc, char **argv)
{
    cairn_prior prior = {0};
    cairn_error error = {0};
    if (argc < 2) {
        (void)fputs("usage: cairn-prior TRACE... > src/core/divergence_prior.inc\n", stderr);
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        cairn_workload w;
        cairn_status status = cairn_trace_file_read(cairn_mem_default(), argv[i], &w, &error);
        if (status == CAIRN_OK) {
            status = cairn_prior_count(&prior, &w, &error);
        }
        cairn_workload_release(&w);
        if (status != CAIRN_OK) {
            return fail(&error);
        }
    }
    cairn_buf out;
    cairn_buf_init(&out, cairn_mem_default(), 1 << 20);
    cairn_status status = cairn_prior_write(&prior, &out);
    if (status == CAIRN_OK && fwrite(cairn_buf_str(&out), 1, out.len_bytes, stdout) != out.len_bytes) {
        status = CAIRN_IO;
    }
    cairn_buf_release(&out);
    if (status != CAIRN_OK) {
        (void)cairn_error_set(&error, status, "cairn-prior", "output");
        return fail(&error);
    }
    return 0;
}
