/* synth: the file as a whole: its size, its bytes, its tokenizer, and what happens when something is wrong. */
#include "engine/synth.h"

#include <sys/stat.h>

#include "base/mem_test.h"
#include "engine/synth_support.h"
#include "gguf.h"
#include "llama.h"
#include "test_support.h"

static struct llama_model *tiny;
static const struct llama_vocab *vocab;

static int set_up(void **state)
{
    (void)state;
    synth_test_quiet(true);
    tiny = synth_test_load(synth_test_make("qwen35", "tiny", 1, "tiny.gguf"));
    vocab = llama_model_get_vocab(tiny);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    llama_model_free(tiny);
    synth_test_folder_remove();
    return 0;
}

static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

static void tiny_is_at_most_25_megabytes(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(stat(synth_test_path("tiny.gguf"), &info), 0);
    assert_true(info.st_size > 1000000);
    assert_true(info.st_size <= 25000000);
}

static void same_seed_gives_the_same_bytes(void **state)
{
    (void)state;
    size_t first_len, second_len, other_len;
    uint8_t *first = synth_test_read(synth_test_path("tiny.gguf"), &first_len);
    uint8_t *second = synth_test_read(synth_test_make("qwen35", "tiny", 1, "again.gguf"), &second_len);
    uint8_t *other = synth_test_read(synth_test_make("qwen35", "tiny", 2, "other.gguf"), &other_len);

    assert_int_equal(first_len, second_len);
    assert_memory_equal(first, second, first_len);
    assert_int_equal(first_len, other_len);
    assert_memory_not_equal(first, other, first_len);
    free(first);
    free(second);
    free(other);
}

/* "*.scale", "*.input_scale" and attention biases are optional to libllama and absent from converted models. */
static void optional_tensors_of_other_quantizations_are_left_out(void **state)
{
    (void)state;
    const struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
    struct gguf_context *file = gguf_init_from_file(synth_test_path("tiny.gguf"), params);

    assert_non_null(file);
    for (int64_t i = 0; i < gguf_get_n_tensors(file); i++) {
        const char *name = gguf_get_tensor_name(file, i);
        assert_null(strstr(name, "scale"));
        assert_true(strstr(name, ".bias") == NULL || strstr(name, "ssm_dt.bias") != NULL);
    }
    assert_true(gguf_find_tensor(file, "output.weight") < 0); /* tied, as in the 0.8B model */
    gguf_free(file);
}

static void list_names_what_can_be_made(void **state)
{
    (void)state;
    cairn_synth_choice choices[256];
    const size_t count = cairn_synth_list(choices, 256);
    unsigned found = 0;

    assert_true(count >= 3 && count <= 256);
    assert_int_equal(cairn_synth_list(NULL, 0), count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(choices[i].about);
        if (strcmp(choices[i].arch, "qwen35") == 0)
            found++;
    }
    assert_int_equal(found, 3); /* tiny, small, 0.8b */
}

/* ---- the tokenizer ---------------------------------------------------------------------------------------- */

static int tokens_of(const char *text, llama_token *tokens, int room)
{
    const int count = llama_tokenize(vocab, text, (int32_t)strlen(text), tokens, room, false, true);
    assert_true(count >= 0);
    return count;
}

static void texts_survive_the_tokenizer(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "The quick brown fox jumps over the lazy dog, and then it rests in the shade of an old tree.",
        "static int add(int a, int b)\n{\n\treturn a + b; /* 0x7f */\n}\n",
        "{\"role\": \"user\", \"content\": [1, 2.5e-3, null, true]}",
        ("Gr\xc3\xbc\xc3\x9f, \xe4\xbd\xa0\xe5\xa5\xbd, \xd0\xbf\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 "
         "\xf0\x9f\xaa\xa8!"),
        "  leading, trailing and   inner   spaces  \r\n\r\n\t\x01\x7f ",
        "<think>\nplain\n</think>\n<tool_call>{}</tool_call>",
    };
    llama_token tokens[512];
    char back[1024];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const int count = tokens_of(texts[i], tokens, 512);
        const int len = llama_detokenize(vocab, tokens, count, back, sizeof(back) - 1, false, true);
        assert_true(len >= 0);
        back[len] = '\0';
        assert_string_equal(back, texts[i]);
    }
}

static void english_takes_a_sensible_number_of_tokens(void **state)
{
    (void)state;
    static const char text[] =
        "A conversation whose history was edited is resumed, not read again. When the client "
        "changes a message, the server looks for the newest state before the change.";
    llama_token tokens[512];
    const int count = tokens_of(text, tokens, 512);

    assert_in_range(count, (sizeof(text) - 1) / 6, (sizeof(text) - 1) / 3);
}

static void every_byte_is_a_token_or_made_of_tokens(void **state)
{
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        const char text[2] = {(char)byte, '\0'};
        llama_token tokens[8];
        char back[32];
        const int count = tokens_of(text, tokens, 8);
        assert_true(count > 0);
        assert_true(llama_detokenize(vocab, tokens, count, back, sizeof(back), false, true) > 0);
    }
}

static void special_tokens_are_single_tokens_of_their_kind(void **state)
{
    (void)state;
    static const char *const control[] = {"<|endoftext|>",    "<|im_start|>",  "<|im_end|>",
                                          "<|vision_start|>", "<|image_pad|>", "<|fim_prefix|>"};
    static const char *const text[] = {"<think>", "</think>", "<tool_call>", "</tool_call>",
                                       "<tool_response>"};
    llama_token token;

    for (size_t i = 0; i < sizeof(control) / sizeof(control[0]); i++) {
        assert_int_equal(tokens_of(control[i], &token, 1), 1);
        assert_true(llama_vocab_is_control(vocab, token));
    }
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        assert_int_equal(tokens_of(text[i], &token, 1), 1);
        assert_false(llama_vocab_is_control(vocab, token));
    }
    assert_int_equal(tokens_of("<|im_end|>", &token, 1), 1);
    assert_int_equal(llama_vocab_eos(vocab), token);
    assert_true(llama_vocab_is_eog(vocab, token));
    assert_false(llama_vocab_get_add_bos(vocab));
}

static void template_is_the_real_one(void **state)
{
    (void)state;
    char path[1024];
    size_t len;
    const char *held = llama_model_chat_template(tiny, NULL);

    snprintf(path, sizeof(path), "%s/models/templates/Qwen3.5-4B.jinja", CAIRN_LLAMA_DATA_DIR_DEFAULT);
    uint8_t *real = synth_test_read(path, &len);
    assert_non_null(held);
    assert_int_equal(strlen(held), len);
    assert_memory_equal(held, real, len);
    free(real);
}

/* ---- bad input -------------------------------------------------------------------------------------------- */

static cairn_status write_with(cairn_synth_options options, const char *path, cairn_error *error)
{
    *error = (cairn_error){0};
    if (options.arch == NULL)
        options.arch = "qwen35";
    if (options.size == NULL)
        options.size = "tiny";
    return cairn_synth_write(&options, path, NULL, NULL, error);
}

static void unknown_names_are_answered_with_a_list(void **state)
{
    (void)state;
    const char *path = synth_test_path("none.gguf");
    cairn_error error;

    assert_status(write_with((cairn_synth_options){.arch = "qwen99"}, path, &error), CAIRN_INVALID);
    assert_non_null(strstr(error.detail, "qwen99"));
    assert_non_null(strstr(error.detail, "qwen35"));
    assert_status(write_with((cairn_synth_options){.size = "huge"}, path, &error), CAIRN_INVALID);
    assert_non_null(strstr(error.detail, "huge"));
    assert_non_null(strstr(error.detail, "tiny, small, 0.8b"));
    assert_status(write_with((cairn_synth_options){.arch = ""}, path, &error), CAIRN_INVALID);
    const cairn_synth_options nothing = {0};
    assert_status(cairn_synth_write(&nothing, path, NULL, NULL, NULL), CAIRN_INVALID);
    assert_false(exists(path));
}

static void paths_that_can_not_be_used_are_named(void **state)
{
    (void)state;
    const char *path = synth_test_path("none.gguf");
    const char *text = synth_test_path("tiny.txt");
    cairn_error error;
    FILE *file = fopen(text, "wb");

    assert_non_null(file);
    fputs("not a model", file);
    fclose(file);
    assert_status(write_with((cairn_synth_options){0}, synth_test_path("no/such/folder.gguf"), &error),
                  CAIRN_NOTFOUND);
    assert_non_null(strstr(error.detail, "no/such/folder.gguf"));
    assert_true(write_with((cairn_synth_options){0}, synth_test_folder(), &error) != CAIRN_OK);
    assert_status(write_with((cairn_synth_options){.vocab_path = "no-such-vocabulary"}, path, &error),
                  CAIRN_NOTFOUND);
    assert_non_null(strstr(error.detail, "no-such-vocabulary"));
    assert_status(write_with((cairn_synth_options){.template_path = "no-such-template"}, path, &error),
                  CAIRN_NOTFOUND);
    assert_non_null(strstr(error.detail, "no-such-template"));
    assert_status(write_with((cairn_synth_options){.models_dir = "no-such-folder"}, path, &error),
                  CAIRN_NOTFOUND);
    synth_test_quiet(false); /* ggml complains about the next one */
    assert_status(write_with((cairn_synth_options){.vocab_path = text}, path, &error), CAIRN_CORRUPT);
    synth_test_quiet(true);
    assert_non_null(strstr(error.detail, "tiny.txt"));
    assert_false(exists(path));
}

static bool stop_at_half(uint64_t done_bytes, uint64_t total_bytes, void *ctx)
{
    (*(unsigned *)ctx)++;
    return done_bytes < total_bytes / 2;
}

static void cancelled_writing_leaves_the_old_file(void **state)
{
    (void)state;
    const cairn_synth_options options = {.arch = "qwen35", .size = "tiny", .seed = 5};
    const char *path = synth_test_path("kept.gguf");
    unsigned calls = 0;
    cairn_error error = {0};
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    fputs("old", file);
    fclose(file);
    assert_status(cairn_synth_write(&options, path, stop_at_half, &calls, &error), CAIRN_CANCELLED);
    assert_true(calls > 1);
    size_t len;
    uint8_t *bytes = synth_test_read(path, &len);
    assert_int_equal(len, 3);
    assert_memory_equal(bytes, "old", 3);
    free(bytes);
    assert_false(exists(synth_test_path("kept.gguf.part")));
}

static bool never_backwards(uint64_t done_bytes, uint64_t total_bytes, void *ctx)
{
    uint64_t *last = ctx;
    assert_true(done_bytes > *last && done_bytes <= total_bytes);
    *last = done_bytes;
    return true;
}

static void progress_grows_to_the_total(void **state)
{
    (void)state;
    const cairn_synth_options options = {.arch = "qwen35", .size = "tiny", .seed = 1};
    uint64_t last = 0;

    assert_ok(cairn_synth_write(&options, synth_test_path("progress.gguf"), never_backwards, &last, NULL));
    assert_true(last > 5000000);
}

static void any_failed_allocation_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    const char *path = synth_test_path("starved.gguf");

    for (uint64_t n = 1;; n++) {
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, n);
        cairn_error error = {0};
        const cairn_synth_options options = {.arch = "qwen35", .size = "tiny", .mem = &heap.mem};
        const cairn_status status = cairn_synth_write(&options, path, NULL, NULL, &error);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
        if (heap.fails == 0) {
            assert_ok(status);
            assert_true(n > 5 && n < 40);
            return;
        }
        assert_status(status, CAIRN_NOMEM);
        assert_false(exists(path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_is_at_most_25_megabytes),
        cmocka_unit_test(same_seed_gives_the_same_bytes),
        cmocka_unit_test(optional_tensors_of_other_quantizations_are_left_out),
        cmocka_unit_test(list_names_what_can_be_made),
        cmocka_unit_test(texts_survive_the_tokenizer),
        cmocka_unit_test(english_takes_a_sensible_number_of_tokens),
        cmocka_unit_test(every_byte_is_a_token_or_made_of_tokens),
        cmocka_unit_test(special_tokens_are_single_tokens_of_their_kind),
        cmocka_unit_test(template_is_the_real_one),
        cmocka_unit_test(unknown_names_are_answered_with_a_list),
        cmocka_unit_test(paths_that_can_not_be_used_are_named),
        cmocka_unit_test(cancelled_writing_leaves_the_old_file),
        cmocka_unit_test(progress_grows_to_the_total),
        cmocka_unit_test(any_failed_allocation_is_reported_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
