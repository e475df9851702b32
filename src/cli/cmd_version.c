/*
 * version - names this build and what it is linked with.
 */
#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>

#include "cairn/cairn.h"
#include "cli/commands.h"
#include "engine/llama_load.h"

int cairn_cmd_version(int argc, const char **argv)
{
    (void)argc;
    (void)argv;
    printf("cairn %s\n%s\nlibmicrohttpd %s, jansson %s\n", cairn_version(), cairn_llama_build(),
           MHD_get_version(), JANSSON_VERSION);
    return 0;
}
