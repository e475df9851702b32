/*
 * Answers that come back in other words, with every template of the llama.cpp source and the Qwen3.5 vocabulary: the
 * next prompt extends prompt and answer token for token where it may, and is the client's own everywhere else.
 */
#include "chat/chat_support.h"
#include "serve/convert_support.h"

#include "../chat/vocab_support.h"
#include "base/mem_test.h"
#include "engine/llama_vocab.h"
#include "serve/answer_form.h"
#include "serve/recall.h"

static struct llama_model *model;
static cairn_llama_vocab vocab;
static const cairn_namespace spaces[2] = {{.bytes = {1}}, {.bytes = {2}}};
static const cairn_chat_options options = {.now_s = TEST_NOW};

#define TOOLS                                                                                              \
    "'tools':[{'type':'function','function':{'name':'get_weather','description':'Weather.','parameters':{" \
    "'type':'object','properties':{'city':{'type':'string'},'days':{'type':'integer'}},'required':['city'" \
    ",'days']}}}]"
#define HEAD                                                      \
    "{'role':'system','content':'You are a helper named Fred.'}," \
    "{'role':'user','content':'What is the weather in Paris?'}"
#define CALL(reasoning, id, arguments)                                                               \
    ",{'role':'assistant','content':'','reasoning_content':'" reasoning "','tool_calls':[{'id':'" id \
    "','type':'function','function':{'name':'get_weather','arguments':'" arguments "'}}]}"
#define RESULT(id) \
    ",{'role':'tool','tool_call_id':'" id "','name':'get_weather','content':'Sunny, 20 degrees'}"
/* Backslashed single quotes become \" in a JSON string. */
#define SPACED   "{\\'city\\': \\'Paris\\', \\'days\\': 3}"
#define RESERIAL "{\\'days\\':3,\\'city\\':\\'Paris\\'}"
#define CHANGED  "{\\'days\\':4,\\'city\\':\\'Paris\\'}"
#define ID       "abcdef123"

/* One request after render. */
typedef struct turn {
    json_t *request;
    cairn_recall recall;
    cairn_chat_prompt *prompt;
    cairn_tokens tokens;
} turn;

static void turn_release(turn *t)
{
    cairn_recall_release(&t->recall);
    cairn_tokens_release(cairn_mem_default(), &t->tokens);
    cairn_chat_prompt_free(t->prompt);
    json_decref(t->request);
}

/* Takes `request` over. */
static cairn_status turn_render(turn *t, const cairn_chat *chat, cairn_answers *answers, size_t space,
                                json_t *request)
{
    *t = (turn){.request = request};
    cairn_buf body;
    cairn_buf_init(&body, cairn_mem_default(), 1 << 24);
    assert_ok(cairn_answer_request(request, &body));
    cairn_recall_init(&t->recall, cairn_mem_default(), answers);
    assert_ok(cairn_recall_find(&t->recall, &spaces[space], json_object_get(request, "messages")));
    const cairn_recall_source source = {.vocab = &vocab,
                                        .chat = chat,
                                        .options = &options,
                                        .request = request,
                                        .body = cairn_buf_str(&body),
                                        .body_bytes = body.len_bytes};
    cairn_error error = {0};
    cairn_status status = cairn_recall_render(&t->recall, &source, &t->prompt, &t->tokens, &error);
    cairn_buf_release(&body);
    return status;
}

static json_t *chat_request(const char *messages, bool thinking)
{
    test_text text = {0};
    test_text_add(&text, "{'messages':[%s]," TOOLS ",'chat_template_kwargs':{'enable_thinking':%s}}",
                  messages, thinking ? "true" : "false");
    json_t *value = test_json(text.text);
    free(text.text);
    return value;
}

/* char[*ret_len]; the caller's to free. */
static char *text_of(const cairn_token *tokens, uint32_t count, size_t *ret_len)
{
    size_t room = (size_t)count * 32 + 256, len = 0;
    char *text = malloc(room);
    assert_non_null(text);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = 0;
        if (room - len < CAIRN_PIECE_BYTES_MAX) {
            room *= 2;
            text = realloc(text, room);
            assert_non_null(text);
        }
        assert_ok(cairn_llama_piece(&vocab, tokens[i], true, text + len, CAIRN_PIECE_BYTES_MAX, &n));
        len += n;
    }
    *ret_len = len;
    return text;
}

/* --- an answer, as a model might have written it ----------------------------------------------------------------- */

typedef struct answer {
    char *text; /* without what ends it */
    size_t len;
    cairn_token tokens[4096];
    uint32_t count;
    json_t *message; /* as the client gets it */
} answer;

static void answer_release(answer *a)
{
    free(a->text);
    json_decref(a->message);
    *a = (answer){0};
}

static size_t start_of(const cairn_chat_prompt *p, uint32_t message)
{
    const cairn_chat_boundary *b = test_boundary(p, CAIRN_BOUNDARY_MESSAGE_START, message);
    return b != NULL ? b->offset_bytes : 0;
}

/* What the template puts behind an answer's text. */
static size_t closer_of(const cairn_chat *chat, char *out, size_t room)
{
    turn t;
    size_t len = 0;
    if (turn_render(&t, chat, NULL, 0,
                    chat_request(HEAD ",{'role':'assistant','content':'Qzqz'},{'role':'user','content':'x'}",
                                 false)) == CAIRN_OK) {
        const char *from = strstr(t.prompt->text, "Qzqz");
        size_t end = start_of(t.prompt, 3);
        if (from != NULL && end > (size_t)(from + 4 - t.prompt->text)) {
            len = end - (size_t)(from + 4 - t.prompt->text);
            len = len < room ? len : 0;
            memcpy(out, from + 4, len);
        }
    }
    turn_release(&t);
    return len;
}

/* Tokens that a tokenizer would not have chosen: the text in pieces of three bytes or more, but special tokens whole. */
static void tokenize_oddly(answer *a)
{
    for (size_t at = 0; at < a->len;) {
        size_t n = a->len - at < 3 ? a->len - at : 3;
        cairn_tokens special;
        const char *close = a->text[at] == '<' ? memchr(a->text + at, '>', a->len - at) : NULL;
        if (close != NULL) {
            size_t whole = (size_t)(close + 1 - a->text) - at;
            assert_ok(cairn_tokens_of(cairn_mem_default(), &vocab, a->text + at, whole,
                                      CAIRN_TOKENS_PARSE_SPECIAL, &special));
            n = special.count == 1 ? whole : n;
            cairn_tokens_release(cairn_mem_default(), &special);
        }
        while (at + n < a->len && ((unsigned char)a->text[at + n] & 0xC0) == 0x80)
            n++; /* not inside a character */
        uint32_t count = 0;
        assert_ok(cairn_llama_tokenize(&vocab, a->text + at, n, false, true, a->tokens + a->count,
                                       4096 - a->count, &count));
        a->count += count;
        at += n;
    }
}

/* The answer's text through the parser. false: it doesn't read as one call with these arguments. */
static bool parse(answer *a, const cairn_chat_prompt *prompt)
{
    cairn_chat_stream_options stream_options = {.call_id_prefix = ID, .whole = true};
    cairn_chat_stream *stream = NULL;
    cairn_chat_text message;
    assert_ok(cairn_chat_stream_new(prompt->format, prompt->format_bytes, &stream_options, &stream, NULL));
    assert_ok(cairn_chat_stream_feed(stream, a->text, a->len, NULL, NULL));
    assert_ok(cairn_chat_stream_finish(stream, NULL, &message, NULL));
    a->message = json_loadb(message.text, message.bytes, 0, NULL);
    assert_non_null(a->message);
    cairn_chat_stream_free(stream);
    json_t *expected =
        test_json("{'role':'assistant','content':'','tool_calls':[{'id':'x','function':{'name':"
                  "'get_weather','arguments':'" SPACED "'}}]}");
    cairn_buf forms[2];
    for (int i = 0; i < 2; i++) {
        cairn_buf_init(&forms[i], cairn_mem_default(), 1 << 20);
        assert_ok(cairn_answer_form(i == 0 ? expected : a->message, &forms[i]));
    }
    bool same = strcmp(cairn_buf_str(&forms[0]), cairn_buf_str(&forms[1])) == 0;
    cairn_buf_release(&forms[0]);
    cairn_buf_release(&forms[1]);
    json_decref(expected);
    return same;
}

/* Special tokens that end a call, in models with other vocabularies. */
static size_t without_ends(const char *text, size_t len)
{
    static const char *const ends[] = {"<|END_OF_TURN_TOKEN|>",
                                       "<|START_OF_TURN_TOKEN|>",
                                       "</s>",
                                       "<|eom_id|>",
                                       "<|call|>",
                                       "<|calls|>",
                                       "<|begin|>"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t n = strlen(ends[i]);
        if (len > n && memcmp(text + len - n, ends[i], n) == 0) {
            len -= n;
            i = SIZE_MAX; /* from the first one again */
        }
    }
    return len;
}

/*
 * What a model would write after `first`: what the template itself makes of the call. false: the template changes the
 * prompt before it.
 */
static bool answer_make(answer *a, const cairn_chat *chat, const turn *first, bool thinking)
{
    *a = (answer){0};
    turn t;
    char closer[256];
    size_t closer_len = closer_of(chat, closer, sizeof closer), begin = first->prompt->text_bytes;
    bool good = turn_render(&t, chat, NULL, 0,
                            chat_request(thinking ? HEAD CALL("I must look it up.", ID, SPACED) RESULT(ID)
                                                  : HEAD CALL("", ID, SPACED) RESULT(ID),
                                         thinking)) == CAIRN_OK;
    size_t end = good ? start_of(t.prompt, 3) : 0;
    const char *sunny = good && end == 0 ? strstr(t.prompt->text, "[Sunny") : NULL;
    end = sunny != NULL ? (size_t)(sunny - t.prompt->text) : end; /* results without a message of their own */
    good = good && end > begin && memcmp(t.prompt->text, first->prompt->text, begin) == 0;
    if (good) {
        a->len = end - begin;
        if (closer_len > 0 && a->len > closer_len &&
            memcmp(t.prompt->text + end - closer_len, closer, closer_len) == 0)
            a->len -= closer_len;
        a->len = without_ends(t.prompt->text + begin, a->len);
        a->text = malloc(a->len + 1);
        assert_non_null(a->text);
        memcpy(a->text, t.prompt->text + begin, a->len);
        a->text[a->len] = '\0';
        tokenize_oddly(a);
    }
    turn_release(&t);
    return good && parse(a, first->prompt);
}

/* The next request: the call as a client sends it back. `id` NULL: the answer's own. */
static json_t *next_request(const answer *a, const char *arguments, bool thinking)
{
    json_t *request = chat_request(HEAD ",{'role':'assistant','content':''}" RESULT(ID), thinking);
    json_t *message = json_array_get(json_object_get(request, "messages"), 2);
    json_t *calls = json_deep_copy(json_object_get(a->message, "tool_calls"));
    json_t *text = test_json(arguments);
    json_object_set(json_object_get(json_array_get(calls, 0), "function"), "arguments", text);
    json_object_set(json_array_get(json_object_get(request, "messages"), 3), "tool_call_id",
                    json_object_get(json_array_get(calls, 0), "id"));
    json_object_set_new(message, "tool_calls", calls);
    json_decref(text);
    return request;
}

static void keep(turn *first, const answer *a)
{
    char *text = json_dumps(a->message, JSON_COMPACT);
    const cairn_chat_text message = {.text = text, .bytes = strlen(text)};
    cairn_recall_keep(&first->recall, &spaces[0], first->prompt, &first->tokens, &message, a->tokens,
                      a->count);
    free(text);
}

static bool extends(const turn *next, const turn *first, const answer *a)
{
    return next->tokens.count > first->tokens.count + a->count &&
           memcmp(next->tokens.items, first->tokens.items, first->tokens.count * sizeof(cairn_token)) == 0 &&
           memcmp(next->tokens.items + first->tokens.count, a->tokens, a->count * sizeof(cairn_token)) == 0;
}

/* Tokens and text of a prompt are the same bytes, and what stands in place of the answer reads as the answer. */
static void check_text(const char *name, const turn *next, const answer *a, const cairn_chat_prompt *first)
{
    size_t len = 0;
    char *text = text_of(next->tokens.items, next->tokens.count, &len);
    const char *expected = next->recall.text != NULL ? next->recall.text : next->prompt->text;
    size_t expected_len = next->recall.text != NULL ? next->recall.text_bytes : next->prompt->text_bytes;
    if (len != expected_len || memcmp(text, expected, len) != 0)
        fail_msg("%s: tokens and text differ", name);
    if (next->recall.count == 1) {
        const cairn_recalled *item = &next->recall.items[0];
        answer again = {.text = text + item->begin, .len = item->text_bytes};
        assert_int_equal(item->text_bytes, a->len);
        assert_true(parse(&again, first));
        const json_t *why = json_object_get(again.message, "reasoning_content");
        const json_t *own = json_object_get(a->message, "reasoning_content");
        assert_true(why == own || json_equal((json_t *)(uintptr_t)why, (json_t *)(uintptr_t)own));
        assert_true(
            json_equal(json_object_get(again.message, "content"), json_object_get(a->message, "content")));
        json_decref(again.message);
        /* the prompt around it is the rendered one */
        assert_memory_equal(text, next->prompt->text, item->begin);
        assert_int_equal(len - item->begin - item->text_bytes, next->prompt->text_bytes - item->end);
        assert_memory_equal(text + item->begin + item->text_bytes, next->prompt->text + item->end,
                            next->prompt->text_bytes - item->end);
    }
    free(text);
}

/* --- one template ------------------------------------------------------------------------------------------------ */

typedef enum outcome { KEEPS, KEEPS_ANYWAY, PARTS, NOT_READ } outcome;

/* The request as it is, without any memory. */
static void same_as_without(const char *name, const cairn_chat *chat, const turn *t)
{
    turn plain;
    assert_ok(turn_render(&plain, chat, NULL, 0, json_incref(t->request)));
    if (strcmp(plain.prompt->text, t->prompt->text) != 0)
        fail_msg("%s:\n%s\n%s", name, plain.prompt->text, t->prompt->text);
    assert_int_equal(plain.tokens.count, t->tokens.count);
    assert_memory_equal(plain.tokens.items, t->tokens.items, plain.tokens.count * sizeof(cairn_token));
    turn_release(&plain);
}

static outcome try_template(const char *name, const cairn_chat *chat, bool thinking)
{
    turn first, next;
    answer a = {0};
    outcome result;
    cairn_answers *answers = NULL;
    assert_ok(cairn_answers_new(cairn_mem_default(), 1 << 20, &answers));
    assert_ok(turn_render(&first, chat, answers, 0, chat_request(HEAD, thinking)));
    if (!answer_make(&a, chat, &first, thinking)) {
        result = a.text == NULL ? PARTS : NOT_READ;
        answer_release(&a);
        turn_release(&first);
        cairn_answers_free(answers);
        return result;
    }
    keep(&first, &a);

    assert_ok(turn_render(&next, chat, answers, 0, next_request(&a, "'" RESERIAL "'", thinking)));
    check_text(name, &next, &a, first.prompt);
    bool extended = extends(&next, &first, &a);
    if (next.recall.count == 0)
        same_as_without(name, chat, &next);
    turn_release(&next);
    assert_ok(turn_render(&next, chat, NULL, 0, next_request(&a, "'" RESERIAL "'", thinking)));
    result = !extended ? PARTS : extends(&next, &first, &a) ? KEEPS_ANYWAY : KEEPS;
    turn_release(&next);

    /* Another value, and another namespace: the client's own prompt, token for token. */
    assert_ok(turn_render(&next, chat, answers, 0, next_request(&a, "'" CHANGED "'", thinking)));
    assert_int_equal(next.recall.count, 0);
    same_as_without(name, chat, &next);
    turn_release(&next);
    assert_ok(turn_render(&next, chat, answers, 1, next_request(&a, "'" RESERIAL "'", thinking)));
    assert_int_equal(next.recall.count, 0);
    same_as_without(name, chat, &next);
    turn_release(&next);

    answer_release(&a);
    turn_release(&first);
    cairn_answers_free(answers);
    return result;
}

/* Why these don't: what the template or its parser does, not what a client does. */
static const struct {
    const char *name, *why;
} exceptions[] = {
    {"Apriel-1.6-15b-Thinker-fixed", "the opener holds a line of reasoning that older answers don't have"},
    {"CohereForAI-c4ai-command-r-plus-tool_use", "instructions stand behind the last message only"},
    {"Mistral-Small-3.2-24B-Instruct-2506", "the parser doesn't read the template's own calls"},
    {"NVIDIA-Nemotron-Nano-v2", "the opener holds <think>, older answers don't"},
    {"Qwen-QwQ-32B", "the opener holds <think>, older answers don't"},
    {"llama-cpp-deepseek-r1", "the opener holds <think>, older answers don't"},
    {"mistralai-Mistral-Nemo-Instruct-2407", "the system text moves to the last user message"},
    {"unsloth-Apriel-1.5", "the parser doesn't read the template's own calls"},
    {"upstage-Solar-Open-100B", "the parser doesn't read the template's own calls"},
};

static bool is_excepted(const char *name)
{
    for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
        if (strcmp(exceptions[i].name, name) == 0)
            return true;
    }
    return false;
}

static void a_call_sent_back_anew_extends_the_answer_in_every_template_that_prints_calls(void **state)
{
    (void)state;
    size_t count = 0, extended = 0, with_tools = 0;
    char **names = test_template_names(&count);
    for (size_t i = 0; i < count; i++) {
        cairn_chat *chat = test_open_template(names[i]);
        if (cairn_chat_get_caps(chat)->tools) {
            bool kept =
                try_template(names[i], chat, true) == KEEPS || try_template(names[i], chat, false) == KEEPS;
            with_tools++;
            extended += kept ? 1 : 0;
            if (!kept && !is_excepted(names[i]))
                fail_msg("%s does not extend the answer", names[i]);
        }
        cairn_chat_close(chat);
    }
    print_message("%zu templates, %zu with tools: %zu extend the answer\n", count, with_tools, extended);
    assert_true(extended >= with_tools - sizeof exceptions / sizeof exceptions[0]);
    test_free_names(names, count);
}

/* --- the opener -------------------------------------------------------------------------------------------------- */

static uint32_t shared_tokens(const cairn_tokens *a, const cairn_tokens *b)
{
    uint32_t n = 0;
    while (n < a->count && n < b->count && a->items[n] == b->items[n])
        n++;
    return n;
}

/* These print instructions behind the newest message only, or move the system text to it: the prompt itself changes. */
static const char *const rewriters[] = {"CohereForAI-c4ai-command-r-plus-tool_use",
                                        "mistralai-Mistral-Nemo-Instruct-2407"};

static bool rewrites(const char *name)
{
    return strcmp(name, rewriters[0]) == 0 || strcmp(name, rewriters[1]) == 0;
}

static json_t *plain_request(bool continued, bool thinking)
{
    test_text text = {0};
    test_text_add(
        &text,
        "{'messages':[{'role':'system','content':'You are a helper named Fred.'},{'role':'user',"
        "'content':'What is the weather in Paris?'}%s],'chat_template_kwargs':{'enable_thinking':%s}}",
        continued ? ",{'role':'assistant','content':'It is sunny there.'},{'role':'user','content':'And "
                    "tomorrow?'}"
                  : "",
        thinking ? "true" : "false");
    json_t *value = test_json(text.text);
    free(text.text);
    return value;
}

static void a_continued_conversation_shares_all_but_8_tokens_of_the_prompt_before_it(void **state)
{
    (void)state;
    size_t count = 0, near_end = 0, rendered = 0;
    char **names = test_template_names(&count);
    for (size_t i = 0; i < count; i++) {
        cairn_chat *chat = test_open_template(names[i]);
        turn one, two;
        bool thinking = true;
        bool good = turn_render(&one, chat, NULL, 0, plain_request(false, thinking)) == CAIRN_OK;
        good = turn_render(&two, chat, NULL, 0, plain_request(true, thinking)) == CAIRN_OK && good;
        if (good) {
            uint32_t shared = shared_tokens(&one.tokens, &two.tokens), lost = one.tokens.count - shared;
            rendered++;
            near_end += lost <= 8 ? 1 : 0;
            if (lost > 8 && !rewrites(names[i]))
                fail_msg("%s: parts %u tokens before the end", names[i], lost);
        }
        turn_release(&one);
        turn_release(&two);
        cairn_chat_close(chat);
    }
    print_message("%zu of %zu templates render, %zu share all but 8 tokens\n", rendered, count, near_end);
    assert_int_equal(rendered, count);
    assert_true(near_end >= count - 2);
    test_free_names(names, count);
}

/* --- single cases ------------------------------------------------------------------------------------------------ */

/* A first turn of a template and an answer in its own text, kept. `text` NULL: what the template makes of the call. */
typedef struct talk {
    cairn_chat *chat;
    cairn_answers *answers;
    turn first;
    answer a;
} talk;

static void talk_open(talk *t, const char *template, const char *text, bool thinking)
{
    t->chat = test_open_template(template);
    assert_ok(cairn_answers_new(cairn_mem_default(), 1 << 20, &t->answers));
    assert_ok(turn_render(&t->first, t->chat, t->answers, 0, chat_request(HEAD, thinking)));
    if (text == NULL) {
        assert_true(answer_make(&t->a, t->chat, &t->first, thinking));
    } else {
        t->a = (answer){.text = strdup(text), .len = strlen(text)};
        tokenize_oddly(&t->a);
        (void)parse(&t->a, t->first.prompt);
    }
    keep(&t->first, &t->a);
}

static void talk_close(talk *t)
{
    answer_release(&t->a);
    turn_release(&t->first);
    cairn_answers_free(t->answers);
    cairn_chat_close(t->chat);
}

static void a_model_s_own_spacing_stays_where_the_template_writes_another(void **state)
{
    (void)state;
    talk t;
    turn next;
    talk_open(&t, "Qwen-Qwen2.5-7B-Instruct",
              "<tool_call>\n{\"name\":\"get_weather\",  "
              "\"arguments\":{\"city\":\"Paris\",\"days\":3}}\n</tool_call>",
              false);
    assert_ok(turn_render(&next, t.chat, t.answers, 0, next_request(&t.a, "'" RESERIAL "'", false)));
    assert_true(extends(&next, &t.first, &t.a));
    assert_int_equal(next.recall.count_in_place, 1);
    check_text("Qwen2.5", &next, &t.a, t.first.prompt);
    assert_memory_equal(next.recall.text + next.recall.items[0].begin + t.a.len, "<|im_end|>\n", 11);

    /* boundaries stand at the same texts as before */
    size_t count = next.prompt->count_boundaries;
    cairn_chat_boundary *moved = calloc(count, sizeof *moved);
    assert_non_null(moved);
    memcpy(moved, next.prompt->boundaries, count * sizeof *moved);
    cairn_recall_boundaries(&next.recall, moved, count);
    for (size_t i = 0; i < count; i++) {
        size_t left = next.prompt->text_bytes - next.prompt->boundaries[i].offset_bytes;
        if (next.prompt->boundaries[i].offset_bytes > next.recall.items[0].begin)
            assert_int_equal(next.recall.text_bytes - moved[i].offset_bytes, left);
        else
            assert_int_equal(moved[i].offset_bytes, next.prompt->boundaries[i].offset_bytes);
    }
    free(moved);
    turn_release(&next);
    talk_close(&t);
}

static void reasoning_that_the_client_dropped_is_there_while_the_template_prints_it(void **state)
{
    (void)state;
    talk t;
    turn next;
    talk_open(&t, "Qwen3.5-4B", NULL, true);
    assert_non_null(strstr(t.a.text, "I must look it up."));
    assert_ok(turn_render(&next, t.chat, t.answers, 0, next_request(&t.a, "'" RESERIAL "'", true)));
    assert_true(extends(&next, &t.first, &t.a));
    turn_release(&next);

    /* After the user's next message the template drops it: the prompt is the client's own. */
    json_t *request = next_request(&t.a, "'" RESERIAL "'", true);
    json_t *messages = json_object_get(request, "messages");
    json_array_append_new(messages, test_json("{'role':'assistant','content':'Sunny.'}"));
    json_array_append_new(messages, test_json("{'role':'user','content':'Thanks. And tomorrow?'}"));
    assert_ok(turn_render(&next, t.chat, t.answers, 0, request));
    assert_int_equal(next.recall.count, 0);
    assert_null(strstr(next.prompt->text, "I must look it up."));
    same_as_without("Qwen3.5-4B", t.chat, &next);
    turn_release(&next);

    /* Other reasoning than the answer's own is a change. */
    request = next_request(&t.a, "'" RESERIAL "'", true);
    json_object_set_new(json_array_get(json_object_get(request, "messages"), 2), "reasoning_content",
                        json_string("I was told so."));
    assert_ok(turn_render(&next, t.chat, t.answers, 0, request));
    assert_int_equal(next.recall.count, 0);
    same_as_without("Qwen3.5-4B", t.chat, &next);
    turn_release(&next);
    talk_close(&t);
}

static void an_edit_further_up_leaves_the_client_s_own_prompt(void **state)
{
    (void)state;
    talk t;
    turn next;
    talk_open(&t, "Qwen-Qwen2.5-7B-Instruct", NULL, false);
    for (size_t edited = 0; edited < 2; edited++) {
        json_t *request = next_request(&t.a, "'" RESERIAL "'", false);
        json_object_set_new(json_array_get(json_object_get(request, "messages"), edited), "content",
                            json_string("Another text."));
        assert_ok(turn_render(&next, t.chat, t.answers, 0, request));
        assert_int_equal(next.recall.count, 0);
        same_as_without("Qwen2.5", t.chat, &next);
        turn_release(&next);
    }
    talk_close(&t);
}

static json_t *text_request(const char *content, const char *user)
{
    test_text text = {0};
    test_text_add(&text,
                  "{'messages':[" HEAD
                  ",{'role':'assistant','content':'%s'},{'role':'user','content':'%s'}]," TOOLS "}",
                  content, user);
    json_t *value = test_json(text.text);
    free(text.text);
    return value;
}

static void text_may_lose_white_space_at_its_end_and_nothing_else(void **state)
{
    (void)state;
    talk t;
    turn next;
    talk_open(&t, "Qwen-Qwen2.5-7B-Instruct", "It will be  sunny.\n\n", false);
    assert_ok(turn_render(&next, t.chat, t.answers, 0, text_request("It will be  sunny.", "Thanks.")));
    assert_true(extends(&next, &t.first, &t.a));
    turn_release(&next);
    static const char *const others[] = {"It will be sunny.", " It will be  sunny.", "It will be  Sunny.",
                                         ""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_ok(turn_render(&next, t.chat, t.answers, 0, text_request(others[i], "Thanks.")));
        assert_int_equal(next.recall.count, 0);
        same_as_without("Qwen2.5", t.chat, &next);
        turn_release(&next);
    }
    talk_close(&t);
}

static void answers_of_several_turns_stand_in_one_prompt(void **state)
{
    (void)state;
    talk t;
    turn second, third;
    talk_open(&t, "Qwen-Qwen2.5-7B-Instruct", "It will be  sunny.\n", false);
    assert_ok(turn_render(&second, t.chat, t.answers, 0, text_request("It will be  sunny.", "Thanks.")));
    answer b = {.text = strdup("You are welcome."), .len = strlen("You are welcome.")};
    tokenize_oddly(&b);
    (void)parse(&b, second.prompt);
    keep(&second, &b);
    json_t *request = text_request("It will be  sunny.", "Thanks.");
    json_array_append_new(
        json_object_get(request, "messages"),
        test_json("{'role':'assistant','content':[{'type':'text','text':'You are welcome.'}]}"));
    json_array_append_new(json_object_get(request, "messages"),
                          test_json("{'role':'user','content':'Bye.'}"));
    assert_ok(turn_render(&third, t.chat, t.answers, 0, request));
    assert_true(extends(&third, &second, &b));
    assert_int_equal(third.recall.count, 2);
    json_t *notes = NULL;
    cairn_recall_notes(&third.recall, &notes);
    assert_int_equal(json_array_size(notes), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(notes, 0), "message")), 4);
    json_decref(notes);
    turn_release(&third);
    turn_release(&second);
    answer_release(&b);
    talk_close(&t);
}

/* What a request becomes when one allocation fails: its prompt with the answer, or without, or CAIRN_NOMEM. */
static void one_failed_allocation_costs_an_answer_or_the_request_and_nothing_else(void **state)
{
    (void)state;
    talk t;
    turn with, without;
    talk_open(&t, "Qwen-Qwen2.5-7B-Instruct", NULL, false);
    json_t *request = next_request(&t.a, "'" RESERIAL "'", false);
    cairn_buf body;
    cairn_buf_init(&body, cairn_mem_default(), 1 << 24);
    assert_ok(cairn_answer_request(request, &body));
    assert_ok(turn_render(&with, t.chat, t.answers, 0, json_incref(request)));
    assert_ok(turn_render(&without, t.chat, NULL, 0, json_incref(request)));
    assert_true(extends(&with, &t.first, &t.a));
    size_t refused = 0, plain = 0;
    uint64_t n = 1;
    for (bool more = true; more; n++) {
        cairn_mem_test heap;
        cairn_answers *answers = NULL;
        cairn_recall recall;
        cairn_chat_prompt *prompt = NULL;
        cairn_tokens tokens = {0};
        cairn_mem_test_init(&heap, n);
        cairn_status status = cairn_answers_new(&heap.mem, 1 << 20, &answers);
        cairn_recall_init(&recall, &heap.mem, answers);
        if (status == CAIRN_OK) {
            cairn_answers *before = t.first.recall.answers;
            t.first.recall.answers = answers;
            keep(&t.first, &t.a);
            t.first.recall.answers = before;
            status = cairn_recall_find(&recall, &spaces[0], json_object_get(request, "messages"));
        }
        if (status == CAIRN_OK) {
            const cairn_recall_source source = {.vocab = &vocab,
                                                .chat = t.chat,
                                                .options = &options,
                                                .request = request,
                                                .body = cairn_buf_str(&body),
                                                .body_bytes = body.len_bytes};
            status = cairn_recall_render(&recall, &source, &prompt, &tokens, NULL);
        }
        if (status == CAIRN_OK) {
            const cairn_tokens *expected = recall.count > 0 ? &with.tokens : &without.tokens;
            plain += recall.count > 0 ? 0 : 1;
            assert_int_equal(tokens.count, expected->count);
            assert_memory_equal(tokens.items, expected->items, tokens.count * sizeof *tokens.items);
        } else {
            assert_status(status, CAIRN_NOMEM);
            refused++;
        }
        cairn_recall_release(&recall);
        cairn_tokens_release(&heap.mem, &tokens);
        cairn_chat_prompt_free(prompt);
        cairn_answers_free(answers);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        more = heap.fails > 0;
        cairn_mem_test_release(&heap);
    }
    print_message("%llu allocations: %zu refusals, %zu prompts without the answer\n",
                  (unsigned long long)(n - 2), refused, plain);
    assert_true(refused > 0 && plain > 0);
    cairn_buf_release(&body);
    json_decref(request);
    turn_release(&with);
    turn_release(&without);
    talk_close(&t);
}

static int open_vocabulary(void **state)
{
    (void)state;
    model = test_vocabulary_open();
    cairn_llama_vocab_init(&vocab, model);
    return 0;
}

static int close_vocabulary(void **state)
{
    (void)state;
    llama_model_free(model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_s_own_spacing_stays_where_the_template_writes_another),
        cmocka_unit_test(reasoning_that_the_client_dropped_is_there_while_the_template_prints_it),
        cmocka_unit_test(an_edit_further_up_leaves_the_client_s_own_prompt),
        cmocka_unit_test(text_may_lose_white_space_at_its_end_and_nothing_else),
        cmocka_unit_test(answers_of_several_turns_stand_in_one_prompt),
        cmocka_unit_test(one_failed_allocation_costs_an_answer_or_the_request_and_nothing_else),
        cmocka_unit_test(a_continued_conversation_shares_all_but_8_tokens_of_the_prompt_before_it),
        cmocka_unit_test(a_call_sent_back_anew_extends_the_answer_in_every_template_that_prints_calls),
    };
    return cmocka_run_group_tests(tests, open_vocabulary, close_vocabulary);
}
