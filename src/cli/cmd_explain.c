/*
 * explain - `cairn explain A.json B.json`: where two requests part, what a cache can reuse, and whose habit it is.
 * Of the model file only the vocabulary and the template are read.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/machine.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/term.h"
#include "engine/llama_load.h"
#include "serve/explain.h"
#include "serve/json_fields.h"

enum { FILE_BYTES_MAX = 256 * 1024 * 1024, LINE_BYTES = 600, PATH_BYTES = 4096 };

/* Without a model: what was installed with the program. */
#define USUAL_VOCAB    "ggml-vocab-qwen35.gguf"
#define USUAL_TEMPLATE "templates/Qwen3.5-4B.jinja"

typedef struct settings {
    const char *model, *vocab, *template_file, *a, *b;
    int64_t batch;
    bool json, no_thinking;
    int color;
} settings;

typedef struct tools {
    struct llama_model *model;
    cairn_llama_vocab vocab;
    cairn_chat *chat;
    cairn_buf template_text;
    char usual_vocab[PATH_BYTES], usual_template[PATH_BYTES];
} tools;

/* --- reading ----------------------------------------------------------------------------------------------------- */

static json_t *read_body(const char *path)
{
    cairn_buf text;
    cairn_buf_init(&text, cairn_mem_default(), FILE_BYTES_MAX);
    cairn_error error = {0};
    json_t *body = NULL;
    if (cairn_io_read_file(cairn_io_posix(), path, &text, &error) != CAIRN_OK) {
        cairn_term_fail("a request can't be read", &error,
                        "Two files with the bodies of requests are needed.");
    } else {
        cairn_api_error problem = {0};
        body = cairn_json_parse(cairn_buf_str(&text), text.len_bytes, &problem);
        if (body == NULL)
            (void)fprintf(stderr, "cairn: %s: %s\n", path, problem.message);
    }
    cairn_buf_release(&text);
    return body;
}

/* Files in the folder of models, for what wasn't given. */
static void choose_usual(settings *s, tools *t)
{
    char dir[PATH_BYTES];
    if (s->vocab != NULL)
        s->model = s->vocab;
    if (s->model != NULL)
        return;
    if (!cairn_machine_beside("../share/cairn/models", dir, sizeof dir))
        (void)snprintf(dir, sizeof dir, "%s/models", CAIRN_LLAMA_DATA_DIR_DEFAULT);
    bool fits = snprintf(t->usual_vocab, PATH_BYTES, "%s/%s", dir, USUAL_VOCAB) < PATH_BYTES &&
                snprintf(t->usual_template, PATH_BYTES, "%s/%s", dir, USUAL_TEMPLATE) < PATH_BYTES;
    s->model = fits ? t->usual_vocab : "";
    if (s->template_file == NULL)
        s->template_file = t->usual_template;
}

static int open_tools(settings *s, tools *t)
{
    cairn_error error = {0};
    choose_usual(s, t);
    if (s->template_file != NULL &&
        cairn_io_read_file(cairn_io_posix(), s->template_file, &t->template_text, &error) != CAIRN_OK) {
        cairn_term_fail("the chat template can't be read", &error, NULL);
        return 1;
    }
    cairn_llama_model_options options = {.path = s->model, .mmap = true, .vocab_only = true};
    if (cairn_llama_backends_load(&error) != CAIRN_OK ||
        cairn_llama_model_load(&options, &t->model, &error) != CAIRN_OK) {
        cairn_term_fail("the model can't be used", &error,
                        "A GGUF file is needed (-m); one with a vocabulary alone is enough (--vocab).");
        return 1;
    }
    cairn_llama_vocab_init(&t->vocab, t->model);
    cairn_chat_source source = {.model = t->model,
                                .template_text =
                                    s->template_file != NULL ? cairn_buf_str(&t->template_text) : NULL};
    if (cairn_chat_open(&source, &t->chat, &error) != CAIRN_OK) {
        cairn_term_fail("the chat template can't be used", &error,
                        "Give another one with --chat-template-file FILE.");
        return 1;
    }
    if (cairn_chat_get_caps(t->chat)->is_fallback)
        (void)fprintf(stderr, "cairn: the model has no chat template; ChatML is used\n");
    return 0;
}

/* --- telling ----------------------------------------------------------------------------------------------------- */

static const char *role_of(const cairn_explanation *e)
{
    static const char *const names[] = {"opening", "system", "user", "assistant", "tool"};
    return e->role < sizeof names / sizeof names[0] ? names[e->role] : "?";
}

/* One line: line ends and tabs as \n and \t, other control characters as dots. */
static const char *one_line(const char *text, char line[LINE_BYTES])
{
    size_t used = 0;
    for (; *text != '\0' && used + 3 < LINE_BYTES; text++) {
        if (*text == '\n' || *text == '\t') {
            line[used++] = '\\';
            line[used++] = *text == '\n' ? 'n' : 't';
        } else {
            bool control = (unsigned char)*text < 32 || *text == 127;
            line[used++] = *text;
            if (control)
                line[used - 1] = '.';
        }
    }
    line[used] = '\0';
    return line;
}

static void print_share(const char *what, uint32_t part, uint32_t whole)
{
    char count[CAIRN_UNITS_TEXT];
    cairn_units_print_count(part, count);
    printf("  %-38s %10s  (%3.0f %%)\n", what, count, whole > 0 ? 100.0 * part / whole : 0.0);
}

static void print_text(const settings *s, const cairn_explanation *e)
{
    bool color = s->color == 1 || (s->color == 0 && isatty(STDOUT_FILENO) == 1);
    const char *bold = color ? "\033[1m" : "", *red = color ? "\033[31m" : "",
               *green = color ? "\033[32m" : "", *dim = color ? "\033[2m" : "", *off = color ? "\033[0m" : "";
    char line[LINE_BYTES];
    char counts[2][CAIRN_UNITS_TEXT];
    cairn_units_print_count(e->tokens[0], counts[0]);
    cairn_units_print_count(e->tokens[1], counts[1]);
    printf("A  %s: %s tokens\nB  %s: %s tokens\n\n", s->a, counts[0], s->b, counts[1]);
    if (e->cause == CAIRN_CAUSE_SAME) {
        printf("%sBoth make the same prompt.%s\n\n", bold, off);
    } else {
        printf("%sThey part after %u tokens, in message %u (%s).%s\n", bold, e->common, e->message,
               role_of(e), off);
        printf("%s   both  %s%s\n", dim, one_line(e->excerpt.before, line), off);
        printf("%s   A     %s%s\n", red, one_line(e->excerpt.known, line), off);
        printf("%s   B     %s%s\n\n", green, one_line(e->excerpt.given, line), off);
        printf("cause      %s", cairn_cause_text(e->cause));
        if (e->cause_message >= 0)
            printf(" (messages[%d])", e->cause_message);
        printf("\n");
        if (cairn_cause_advice(e->cause)[0] != '\0')
            printf("what helps %s\n", cairn_cause_advice(e->cause));
        printf("\n");
    }
    uint32_t last = e->extends ? e->tokens[0] : 0;
    printf("Of B's %s tokens, when A was read before:\n", counts[1]);
    print_share("reused by any cache at best", e->tokens[1] - e->least, e->tokens[1]);
    print_share("reused by cairn, from a state it took", e->resume, e->tokens[1]);
    print_share("reused with A's last state only", last, e->tokens[1]);
    printf("%sMessages are counted from 0%s. The second line is for hybrid and recurrent models, with room\n"
           "for all states; with attention alone cairn reaches the first.%s\n",
           dim, e->system_apart ? ", which is the system text" : "", off);
}

static int print_json(const cairn_explanation *e)
{
    json_t *out = json_pack(
        "{s:[I,I], s:I, s:I, s:I, s:b, s:I, s:s, s:{s:s, s:s, s:s, s:I}}", "tokens", (json_int_t)e->tokens[0],
        (json_int_t)e->tokens[1], "common", (json_int_t)e->common, "least", (json_int_t)e->least, "resume",
        (json_int_t)e->resume, "extends", e->extends ? 1 : 0, "message", (json_int_t)e->message, "role",
        role_of(e), "cause", "word", cairn_cause_word(e->cause), "text", cairn_cause_text(e->cause), "advice",
        cairn_cause_advice(e->cause), "message", (json_int_t)e->cause_message);
    cairn_record record = {.divergence_role = e->role};
    json_t *sides = cairn_excerpt_json(&e->excerpt, &record);
    if (out != NULL && sides != NULL)
        (void)json_object_set(out, "excerpt", json_object_get(sides, "excerpt"));
    json_decref(sides);
    int code = out != NULL && json_dumpf(out, stdout, JSON_INDENT(2)) == 0 ? 0 : 1;
    json_decref(out);
    printf("\n");
    return code;
}

/* --- the command ------------------------------------------------------------------------------------------------- */

static int explain(const settings *s, const tools *t)
{
    json_t *a = read_body(s->a), *b = a != NULL ? read_body(s->b) : NULL;
    int code = a == NULL || b == NULL ? 1 : 0;
    if (code == 0) {
        cairn_explain_options options = {.mem = cairn_mem_default(),
                                         .vocab = &t->vocab,
                                         .chat = t->chat,
                                         .now_s = cairn_clock_wall_seconds(cairn_clock_system()),
                                         .thinking_off = s->no_thinking,
                                         .batch_tokens_max = (uint32_t)s->batch};
        cairn_explanation explanation;
        cairn_api_error problem = {0};
        int which = 0;
        if (!cairn_explain(&options, a, b, &explanation, &problem, &which)) {
            (void)fprintf(stderr, "cairn: %s: %s\n", which == 0 ? s->a : s->b, problem.message);
            code = 1;
        } else if (s->json) {
            code = print_json(&explanation);
        } else {
            print_text(s, &explanation);
        }
    }
    json_decref(a);
    json_decref(b);
    return code;
}

/* Gives -1 to go on, else the exit code. */
static int read_settings(settings *s, int argc, const char **argv)
{
    const cairn_option options[] = {
        {.kind = CAIRN_OPTION_TEXT,
         .name = "model",
         .letter = 'm',
         .value = &s->model,
         .arg = "FILE",
         .help =
             "a GGUF file; only its vocabulary and template are read (without it:\nthose of Qwen3.5, which "
             "come with cairn)"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "vocab",
         .value = &s->vocab,
         .arg = "FILE",
         .help = "a GGUF file that holds a vocabulary and no weights"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "chat-template-file",
         .value = &s->template_file,
         .arg = "FILE",
         .help = "a Jinja template in place of the model's own"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "no-thinking",
         .value = &s->no_thinking,
         .help = "as of `cairn serve`: reasoning off where the template can"},
        {.kind = CAIRN_OPTION_INT,
         .name = "batch",
         .value = &s->batch,
         .arg = "N",
         .min = 32,
         .max = 65536,
         .help = "the server's --batch-size: states are also taken at its multiples\n(512)"},
        {.kind = CAIRN_OPTION_FLAG, .name = "json", .value = &s->json, .help = "print JSON"},
        {.kind = CAIRN_OPTION_WORD,
         .name = "color",
         .value = &s->color,
         .arg = "auto|always|never",
         .words = "auto|always|never",
         .help = "colours; auto: on a terminal (auto)"},
    };
    const cairn_option_set set = {
        .usage = "cairn explain [-m FILE] [options] A.json B.json",
        .about = "Takes the bodies of two requests (chat completions, Messages or Responses) and says where\n"
                 "their prompts part, what a cache that has seen A can reuse for B, and which habit of the\n"
                 "client is the cause.",
        .options = options,
        .count = sizeof options / sizeof options[0],
        .tail = "example:\n  cairn explain -m model.gguf turn7.json turn8.json\n"};
    const char *rest[4];
    int code = cairn_options_take(&set, "explain", argc, argv, rest, 4);
    if (code >= 0)
        return code;
    if (rest[0] == NULL || rest[1] == NULL || rest[2] != NULL)
        return cairn_term_usage("explain", "two files with the bodies of requests are needed");
    if (s->model != NULL && s->vocab != NULL)
        return cairn_term_usage("explain", "-m and --vocab can't both be given");
    s->a = rest[0];
    s->b = rest[1];
    return -1;
}

int cairn_cmd_explain(int argc, const char **argv)
{
    settings s = {.batch = 512};
    int code = read_settings(&s, argc, argv);
    if (code >= 0)
        return code;
    static tools t; /* large */
    cairn_buf_init(&t.template_text, cairn_mem_default(), 4 << 20);
    code = open_tools(&s, &t);
    if (code == 0)
        code = explain(&s, &t);
    cairn_chat_close(t.chat);
    cairn_llama_model_free(t.model);
    cairn_buf_release(&t.template_text);
    return code;
}
