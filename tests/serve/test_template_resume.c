/*
 * A continued conversation resumes within 8 tokens of the end of the prompt before it, with every template of the
 * llama.cpp source: rendered, tokenized with the Qwen3.5 vocabulary, and read through the cache over the exact engine,
 * whose state is a hash of the path, so that a wrong resume would be another answer.
 */
#include "chat/chat_support.h"
#include "test_support.h"

#include "../chat/vocab_support.h"
#include "cairn/cairn.h"
#include "engine/engine_replica.h"
#include "engine/llama_vocab.h"
#include "serve/tokens.h"

enum { CONTEXT = 8192, NEAR = 8, LONG_WORDS = 400 };

static struct llama_model *model;
static cairn_llama_vocab vocab;
static const cairn_chat_options options = {.now_s = TEST_NOW};

typedef struct rendered {
    cairn_tokens tokens;
    cairn_boundary *boundaries;
    uint32_t count_boundaries;
    size_t room;
} rendered;

static void rendered_release(rendered *r)
{
    cairn_tokens_release(cairn_mem_default(), &r->tokens);
    free(r->boundaries);
}

/* A conversation, and with `continued` its next turn. Tools and a long first message: as agents have them. */
static bool render(const cairn_chat *chat, bool tools, bool continued, rendered *out)
{
    test_text text = {0};
    *out = (rendered){0};
    test_text_add(&text, "{\"messages\":[{\"role\":\"system\",\"content\":\"You are a helper named Fred.\"},"
                         "{\"role\":\"user\",\"content\":\"What is the weather in Paris?");
    for (int i = 0; i < LONG_WORDS; i++)
        test_text_add(&text, i % 3 == 0 ? " river" : i % 7 == 0 ? " light" : " house");
    test_text_add(&text, "\"}%s]%s}",
                  continued ? ",{\"role\":\"assistant\",\"content\":\"It is sunny there.\"},"
                              "{\"role\":\"user\",\"content\":\"And tomorrow?\"}"
                            : "",
                  tools ? ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\","
                          "\"description\":\"Weather.\",\"parameters\":{\"type\":\"object\",\"properties\":{"
                          "\"city\":{\"type\":\"string\"}}}}}]"
                        : "");
    cairn_chat_prompt *prompt = NULL;
    bool good = cairn_chat_render(chat, text.text, strlen(text.text), &options, &prompt, NULL) == CAIRN_OK;
    free(text.text);
    if (!good)
        return false;
    assert_ok(cairn_tokens_of(cairn_mem_default(), &vocab, prompt->text, prompt->text_bytes,
                              CAIRN_TOKENS_ADD_SPECIAL | CAIRN_TOKENS_PARSE_SPECIAL, &out->tokens));
    out->boundaries = calloc(prompt->count_boundaries + 1, sizeof *out->boundaries);
    assert_non_null(out->boundaries);
    assert_ok(cairn_tokens_boundaries(cairn_mem_default(), &vocab, prompt, &out->tokens, out->boundaries,
                                      &out->count_boundaries));
    cairn_chat_prompt_free(prompt);
    return true;
}

/* Read it, write `answer` tokens, end. Gives where it was resumed. */
static uint32_t run(cairn_cache *cache, const rendered *r, uint32_t answer)
{
    const cairn_prompt prompt = {.tokens = r->tokens.items,
                                 .count = r->tokens.count,
                                 .boundaries = r->boundaries,
                                 .count_boundaries = r->count_boundaries};
    cairn_request *request = NULL;
    cairn_error error;
    assert_ok(cairn_cache_begin(cache, &prompt, &request, &error));
    for (uint32_t i = 0; i <= answer; i++) {
        while (cairn_request_phase(request) != CAIRN_PHASE_READY) {
            assert_int_not_equal(cairn_request_phase(request), CAIRN_PHASE_FAILED);
            assert_ok(cairn_cache_step(cache, &request, 1, &error));
        }
        if (i < answer)
            assert_ok(cairn_request_push(request, (cairn_token)(7 + i)));
    }
    cairn_cache_end(cache, request, CAIRN_END_DONE);
    uint32_t resume = cairn_request_record(request)->resume;
    cairn_request_free(request);
    return resume;
}

/* Tokens between the resume point of the second turn and the end of the first turn's prompt. */
static uint32_t lost_tokens(const rendered *one, const rendered *two)
{
    cairn_replica_options engine_options;
    cairn_engine *engine = NULL;
    cairn_cache *cache = NULL;
    cairn_replica_defaults(&engine_options);
    engine_options.slots = 1;
    engine_options.slot_tokens_max = CONTEXT;
    engine_options.batch_tokens_max = 256;
    engine_options.vocab_size = cairn_llama_vocab_size(&vocab);
    engine_options.logits_rows_max = 2;
    assert_ok(cairn_replica_new(&engine_options, cairn_mem_default(), &engine, NULL));
    const cairn_cache_options cache_options = {.ram_bytes_max = 64u << 20};
    assert_ok(cairn_cache_new(cairn_mem_default(), engine, &cache_options, &cache, NULL));
    assert_int_equal(run(cache, one, 5), 0);
    uint32_t resume = run(cache, two, 1);
    assert_int_equal(cairn_replica_counters_get(engine)->violations, 0);
    cairn_cache_free(cache);
    engine->ops->free(engine);
    return one->tokens.count > resume ? one->tokens.count - resume : 0;
}

/*
 * These change the prompt itself: instructions stand behind the newest message only, the system text or the tools move
 * to it.
 */
static bool rewrites(const char *name, bool tools)
{
    return strcmp(name, "CohereForAI-c4ai-command-r-plus-tool_use") == 0 ||
           strcmp(name, "mistralai-Mistral-Nemo-Instruct-2407") == 0 ||
           (tools && strcmp(name, "Mistral-Small-3.2-24B-Instruct-2506") == 0);
}

static void a_continued_conversation_resumes_within_8_tokens_of_the_end_of_the_prompt_before_it(void **state)
{
    (void)state;
    size_t count = 0, near = 0, tried = 0;
    char **names = test_template_names(&count);
    for (size_t i = 0; i < count; i++) {
        cairn_chat *chat = test_open_template(names[i]);
        for (int tools = 0; tools < 2; tools++) {
            rendered one, two;
            bool first = render(chat, tools != 0, false, &one), second = render(chat, tools != 0, true, &two);
            if (first && second) {
                uint32_t lost = lost_tokens(&one, &two);
                tried++;
                near += lost <= NEAR ? 1 : 0;
                if (lost > NEAR && !rewrites(names[i], tools != 0))
                    fail_msg("%s, tools %d: resumes %u tokens before the end", names[i], tools, lost);
            }
            rendered_release(&one);
            rendered_release(&two);
        }
        cairn_chat_close(chat);
    }
    print_message("%zu prompts of %zu templates, %zu resume near the end\n", tried, count, near);
    assert_true(tried >= 2 * count - 8);
    test_free_names(names, count);
}

static int setup(void **state)
{
    (void)state;
    model = test_vocabulary_open();
    cairn_llama_vocab_init(&vocab, model);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    llama_model_free(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_continued_conversation_resumes_within_8_tokens_of_the_end_of_the_prompt_before_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
