/*
 * Makes the model files that tests share, in the build folder: models/<arch>-<size>.gguf for each argument
 * "arch-size". A ctest fixture, so that it runs once before the tests that need them.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/llama_load.h"
#include "engine/synth.h"

int main(int argc, char **argv)
{
    mkdir(CAIRN_BUILD_DIR "/models", 0777);
    cairn_llama_log_set(NULL, NULL);
    for (int i = 1; i < argc; i++) {
        char arch[64], path[1024];
        const char *dash = strrchr(argv[i], '-');
        cairn_error error;
        if (!dash || (size_t)(dash - argv[i]) >= sizeof arch)
            return 2;
        memcpy(arch, argv[i], (size_t)(dash - argv[i]));
        arch[dash - argv[i]] = '\0';
        snprintf(path, sizeof path, "%s/models/%s.gguf", CAIRN_BUILD_DIR, argv[i]);
        cairn_synth_options options = {.arch = arch, .size = dash + 1, .seed = 1};
        if (cairn_synth_write(&options, path, NULL, NULL, &error) != CAIRN_OK) {
            char text[512];
            cairn_error_print(&error, text, sizeof text);
            fprintf(stderr, "%s: %s\n", path, text);
            return 1;
        }
        printf("%s\n", path);
    }
    return 0;
}
