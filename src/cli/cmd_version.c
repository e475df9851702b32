/*
 * version - names this build and what it is linked with.
 */
#include <stdio.h>

#include "cairn/cairn.h"
#include "cli/commands.h"
#include "engine/llama_load.h"
#include "serve/serve.h"

int cairn_cmd_version(int argc, const char **argv)
{
    (void)argc;
    (void)argv;
    printf("cairn %s\n%s\n%s\n", cairn_version(), cairn_llama_build(), cairn_serve_libraries());
    return 0;
}
