/*
 * model - `cairn model synth`: model files with random weights.
 */
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/machine.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/term.h"
#include "engine/synth.h"

enum { CHOICES_MAX = 64, MODELS_DIR_BYTES = 4096 };

static bool show_progress(uint64_t done_bytes, uint64_t total_bytes, void *ctx)
{
    (void)ctx;
    cairn_term_progress("writing: %3.0f %%",
                        total_bytes > 0 ? 100.0 * (double)done_bytes / (double)total_bytes : 0.0);
    return true;
}

static void list_choices(void)
{
    cairn_synth_choice choices[CHOICES_MAX];
    size_t count = cairn_synth_list(choices, CHOICES_MAX);
    static const char *const heads[] = {"arch", "size", "about"};
    cairn_term_table table = {0};
    cairn_term_head(&table, heads, sizeof heads / sizeof heads[0]);
    for (size_t i = 0; i < count && i < CHOICES_MAX; i++) {
        cairn_term_row(&table);
        cairn_term_cell(&table, 0, "%s", choices[i].arch);
        cairn_term_cell(&table, 1, "%s", choices[i].size);
        cairn_term_cell(&table, 2, "%s", choices[i].about);
    }
    cairn_term_print(&table, stdout);
}

// NOLINTNEXTLINE(readability-function-size): a table of options
static int synth(int argc, const char **argv)
{
    const char *arch = "qwen35", *size = "tiny", *output = NULL;
    int64_t seed = 1;
    bool list = false;
    const cairn_option options[] = {
        {.kind = CAIRN_OPTION_TEXT,
         .name = "output",
         .letter = 'o',
         .value = &output,
         .arg = "FILE",
         .help = "the file to write"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "arch",
         .value = &arch,
         .arg = "NAME",
         .help = "architecture (qwen35)"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "size",
         .value = &size,
         .arg = "SIZE",
         .help = "tiny, small or 0.8b (tiny)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "seed",
         .value = &seed,
         .arg = "N",
         .min = 0,
         .max = INT64_MAX,
         .help = "other seeds give other weights (1)"},
        {.kind = CAIRN_OPTION_FLAG, .name = "list", .value = &list, .help = "what can be made"},
    };
    const cairn_option_set set = {
        .usage = "cairn model synth [--arch NAME] [--size SIZE] [--seed N] -o FILE",
        .about = "Writes a complete GGUF file of a real architecture with random weights. Its answers are\n"
                 "nonsense, but its caches and states behave as a trained model's do.",
        .options = options,
        .count = sizeof options / sizeof options[0],
        .tail = "example:\n  cairn model synth --arch qwen35 --size tiny -o tiny.gguf\n"};
    const char *rest[1];
    int code = cairn_options_take(&set, "model synth", argc, argv, rest, 1);
    if (code >= 0)
        return code;
    if (list) {
        list_choices();
        return 0;
    }
    if (output == NULL)
        return cairn_term_usage("model synth", "the file to write is missing: -o FILE");
    char models[MODELS_DIR_BYTES];
    bool installed = cairn_machine_beside("../share/cairn/models", models, sizeof models);
    cairn_synth_options what = {
        .arch = arch, .size = size, .seed = (uint64_t)seed, .models_dir = installed ? models : NULL};
    cairn_error error = {0};
    cairn_status status = cairn_synth_write(&what, output, show_progress, NULL, &error);
    cairn_term_progress("%s", "");
    if (status != CAIRN_OK) {
        cairn_term_fail("the model can't be written", &error,
                        status == CAIRN_INVALID ? "`cairn model synth --list` shows what can be made."
                                                : NULL);
        return status == CAIRN_INVALID ? 2 : 1;
    }
    cairn_io_stat stat = {0};
    char bytes[CAIRN_UNITS_TEXT] = "?";
    if (cairn_io_stat_path(cairn_io_posix(), output, &stat, NULL) == CAIRN_OK)
        cairn_units_print_bytes(stat.size_bytes, bytes);
    printf("wrote %s: %s %s, seed %llu, %s\n", output, arch, size, (unsigned long long)seed, bytes);
    return 0;
}

int cairn_cmd_model(int argc, const char **argv)
{
    if (argc > 1 && strcmp(argv[1], "synth") == 0)
        return synth(argc - 1, argv + 1);
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("usage: cairn model synth [options] -o FILE\n\n`cairn model synth --help` says more.\n");
        return 0;
    }
    return cairn_term_usage("model", "say what to do: cairn model synth");
}
