/*
 * bridge - chat templates, tool calls and reasoning, through llama.cpp's common library.
 *
 *   request JSON --render--> prompt text, boundaries, grammar, format
 *                                                                |
 *   what the model writes, piece by piece --feed--> stream(format) --> deltas, at last the message
 *
 * The C face of a C++ library: no exception leaves it, JSON and text cross as bytes. Besides src/engine only the
 * bridge files of this folder may include llama.h and common/.
 *
 * Units    bytes; a boundary's offset counts bytes of the prompt text (boundary_map.h makes token positions of it)
 * Owner    what `open`, `render` and `new` give belongs to the caller; texts inside are borrowed from it
 * Thread   one cairn_chat may render on any number of threads at once: it never changes after open. A stream is
 *          used by one thread at a time. open and close: as for any object
 * Memory   the library allocates with C++ new, outside cairn_mem; inputs are bounded by the limits in
 *          cairn_chat_options and cairn_chat_stream_options, and results are proportional to inputs
 * Errors   CAIRN_INVALID with the field's path in `detail` is the client's mistake: messages[3].role: unknown role "x"
 *          CAIRN_LIMIT  larger than a limit · CAIRN_NOMEM · CAIRN_INTERNAL  the library failed otherwise
 * Caveats  open turns the library's own log off for the whole process: libraries here do not print
 * See      docs/decisions/0003-chat-bridge.md
 */
#ifndef CAIRN_CHAT_BRIDGE_H
#define CAIRN_CHAT_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cairn/prompt.h"
#include "cairn/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cairn_chat cairn_chat;

typedef struct cairn_chat_source {
    /* struct llama_model *, borrowed for the call: its template, begin and end tokens; NULL:
       template_text and the two texts below are used */
    const void *model;
    const char *template_text; /* takes the place of the model's template; NULL: none */
    const char *bos_text;      /* without a model: what the template's bos_token is; NULL: empty */
    const char *eos_text;
} cairn_chat_source;

/* What the template can do, found by rendering small conversations at open. */
typedef struct cairn_chat_caps {
    /* describes tools and renders calls and results; otherwise they become plain text */
    bool tools;
    bool parallel_calls; /* several calls in one message */
    bool system_role;    /* otherwise the system text is put before the first user text */
    /* otherwise a later system message becomes a reminder in a user message */
    bool system_anywhere;
    bool repeated_roles;     /* user after user, assistant after assistant; otherwise they are joined */
    bool thinking;           /* has a reasoning span */
    bool thinking_switch;    /* enable_thinking changes the prompt */
    bool preserve_reasoning; /* can keep the reasoning of older messages */
    bool reasoning_effort;   /* knows levels of effort */
    bool uses_clock;         /* prints the date: see cairn_chat_options.now_s */
    bool is_fallback;        /* the model has no template of its own; ChatML is used */
    bool renders_once;       /* a long conversation is rendered once a request; otherwise three times */
    /* texts by which message starts are found; 0: boundaries come from extra renders */
    uint32_t count_openers;
} cairn_chat_caps;

/*
 * Read a template and learn its traits.
 *
 * After    CAIRN_OK: *ret_chat is the caller's, to be closed with cairn_chat_close
 * Errors   CAIRN_INVALID  the template does not parse or renders no conversation at all
 * Cost     20 to 200 ms: about fifty small renders
 */
CAIRN_MUST_CHECK cairn_status cairn_chat_open(const cairn_chat_source *source, cairn_chat **ret_chat,
                                              cairn_error *reterr);
/* NULL is allowed. No render may be running. Prompts and streams that were made from it stay valid. */
void cairn_chat_close(cairn_chat *chat);
/* Borrowed until close. */
const cairn_chat_caps *cairn_chat_get_caps(const cairn_chat *chat);
/* The template's text as it came (ChatML's when is_fallback), NUL-terminated; borrowed until close. */
const char *cairn_chat_get_template(const cairn_chat *chat);

typedef enum cairn_chat_reasoning {
    CAIRN_CHAT_REASONING_SPLIT = 0, /* reasoning goes to reasoning_content */
    /* stays in content with its tags. The request's "reasoning_format" decides */
    CAIRN_CHAT_REASONING_INLINE = 1
} cairn_chat_reasoning;

typedef struct cairn_chat_options {
    /* seconds since 1970: what the template's clock shows, in local time. Fix it per conversation, or
       the prompt's head changes at midnight */
    int64_t now_s;
    bool thinking_off; /* the server's default for enable_thinking */
    cairn_chat_reasoning reasoning;
    /* template arguments of the server, a JSON object; NULL: none. The request's win */
    const char *kwargs_json;
    size_t request_bytes_max; /* 0: 32 MiB */
    uint32_t messages_max;    /* 0: 20,000 */
    uint32_t tools_max;       /* 0: 1,024 */
    uint32_t depth_max;       /* nesting of the JSON; 0: 128 */
} cairn_chat_options;

typedef struct cairn_chat_boundary {
    uint64_t offset_bytes; /* 0 < offset <= text_bytes */
    uint32_t message;      /* index in the request's messages; their count for the opener */
    /* CAIRN_BOUNDARY_* or-ed. THINK_START of the message to come: the place inside the opener where a longer
       conversation parts from this prompt */
    uint16_t kinds;
    uint8_t role; /* cairn_role */
    uint8_t reserved;
} cairn_chat_boundary;

typedef enum cairn_chat_trigger_kind {
    CAIRN_CHAT_TRIGGER_WORD = 0,        /* this text anywhere */
    CAIRN_CHAT_TRIGGER_PATTERN = 1,     /* a regular expression, searched */
    CAIRN_CHAT_TRIGGER_PATTERN_FULL = 2 /* a regular expression, matching everything so far */
} cairn_chat_trigger_kind;

typedef struct cairn_chat_trigger {
    cairn_chat_trigger_kind kind;
    const char *text;
} cairn_chat_trigger;

/* A list of texts that are fed or watched for; borrowed. */
typedef struct cairn_chat_texts {
    const char *const *items; /* char *[count], NUL-terminated */
    size_t count;
} cairn_chat_texts;

/* What one request became. All pointers live as long as the prompt. */
typedef struct cairn_chat_prompt {
    /* to be tokenized with special tokens parsed, and the vocabulary's begin token added */
    const char *text;
    size_t text_bytes;
    const cairn_chat_boundary *boundaries; /* ascending offsets, each once */
    size_t count_boundaries;
    /* length of the assistant opener at the end of the text; with a message to be continued, opener and
       the message's text */
    size_t opener_bytes;
    /* the text that the parser and the grammar take as given: "<|im_start|>assistant\n" */
    const char *opener;
    const char *grammar; /* GBNF; NULL: none */
    bool grammar_lazy;   /* only from a trigger on */
    /* the request's own: starts at the answer's first token, without `opener` */
    bool grammar_from_user;
    const cairn_chat_trigger *triggers;
    size_t count_triggers;
    /* special tokens whose text the parser needs: detokenize them visibly */
    cairn_chat_texts preserved;
    cairn_chat_texts stops;  /* further stop texts of the template */
    bool thinking;           /* the template has a reasoning span */
    const char *think_start; /* "<think>"; "" when unknown */
    cairn_chat_texts think_ends;
    bool continues;     /* the last message is being continued */
    bool has_tools;     /* calls may come out */
    const char *format; /* for cairn_chat_stream_new: opaque, valid with this build */
    size_t format_bytes;
    const char *format_name; /* "peg-native"; for logs */
} cairn_chat_prompt;

/*
 * Make the prompt of an OpenAI chat request.
 *
 *   request  [in]  uint8_t[request_bytes], the body: messages, tools, tool_choice, parallel_tool_calls,
 *                  response_format, json_schema, grammar, reasoning_effort, reasoning_format, chat_template_kwargs,
 *                  add_generation_prompt, continue_final_message. Other fields are not looked at
 *   options  [in]  NULL: all zero (then the clock shows 1970)
 *
 * Roles `developer` and `function` are system and tool. What the template cannot take is put in a form it can
 * (see cairn_chat_caps); the change at a message depends on messages up to it and the one after, so that a longer
 * conversation keeps the prompt of the shorter one.
 *
 * Where a tool must be called, the grammar lets nothing but reasoning stand before the call, if the library's parser of the
 * format can be changed so (reasoning that is inline counts as text: then anything may).
 *
 * Boundaries are texts found in the prompt and checked against the messages; one that cannot be confirmed is left
 * out. A start at offset 0 is not listed.
 *
 * After    CAIRN_OK: *ret_prompt is the caller's, to be freed with cairn_chat_prompt_free
 * Errors   see above; also CAIRN_INVALID when the template refuses the conversation (with its reason)
 * Cost     one render of the conversation, 0.1 ms a message (three where caps say so), and 1 to 25 ms for grammar and
 *          parser. Boundaries: a search of the text; only when that finds no message start, or not the last user
 *          message, at most three further calls of the library
 */
CAIRN_MUST_CHECK cairn_status cairn_chat_render(const cairn_chat *chat, const char *request,
                                                size_t request_bytes, const cairn_chat_options *options,
                                                cairn_chat_prompt **ret_prompt, cairn_error *reterr);
/* NULL is allowed. */
void cairn_chat_prompt_free(cairn_chat_prompt *prompt);

/* --- what the model wrote ------------------------------------------------------------------------------------ */

typedef struct cairn_chat_stream cairn_chat_stream;

typedef struct cairn_chat_stream_options {
    /* ids of tool calls are this and a number, unless the model writes ids; NULL: "call_". Make it
       unique per answer */
    const char *call_id_prefix;
    bool whole;            /* no deltas are wanted before finish */
    size_t text_bytes_max; /* 0: 64 MiB; feed gives CAIRN_LIMIT beyond it and changes nothing */
} cairn_chat_stream_options;

/* Bytes borrowed from the stream until its next call. */
typedef struct cairn_chat_text {
    const char *text; /* NUL-terminated */
    size_t bytes;
} cairn_chat_text;

/*
 * Parse one answer as it is written.
 *
 *   format   [in]  a prompt's format; NULL or empty: everything is content
 *
 * Errors   CAIRN_INVALID  the format is not from this build
 */
CAIRN_MUST_CHECK cairn_status cairn_chat_stream_new(const char *format, size_t format_bytes,
                                                    const cairn_chat_stream_options *options,
                                                    cairn_chat_stream **ret_stream, cairn_error *reterr);
void cairn_chat_stream_free(cairn_chat_stream *stream);

/*
 * Take a further piece of the answer, cut anywhere: inside a character or a tag too.
 *
 *   ret_deltas [out]  JSON array of deltas in OpenAI's shape: [{"content":"..."}],
 *                     [{"reasoning_content":"..."}], [{"tool_calls":[{"index":0,"id":"...","type":"function",
 *                     "function":{"name":"...","arguments":"..."}}]}]; "[]" when there is nothing new. NULL is allowed
 *
 * What was given once stays: the deltas' sum is always a beginning of the final message. The sum and the message
 * depend on the text alone, not on where it was cut. Bytes that are not UTF-8 become U+FFFD.
 *
 * Cost     the text is parsed again at every 1/2048 of its length: about 20 us a byte at any length
 */
CAIRN_MUST_CHECK cairn_status cairn_chat_stream_feed(cairn_chat_stream *stream, const char *text,
                                                     size_t text_bytes, cairn_chat_text *ret_deltas,
                                                     cairn_error *reterr);
/*
 * End of the answer. Text that does not fit the template's format is content: this never fails for what was
 * written.
 *
 *   ret_deltas  [out]  what is still to be sent; NULL is allowed
 *   ret_message [out]  {"role":"assistant","content":"..." or null,"reasoning_content":"...","tool_calls":[...]}; the
 *                      last two only when not empty. NULL is allowed
 *
 * After    further feeds give CAIRN_INVALID; finish again gives the same message and no deltas
 */
CAIRN_MUST_CHECK cairn_status cairn_chat_stream_finish(cairn_chat_stream *stream, cairn_chat_text *ret_deltas,
                                                       cairn_chat_text *ret_message, cairn_error *reterr);
/* Tool calls so far: finish_reason is "tool_calls" when it is not 0 after finish. */
uint32_t cairn_chat_stream_count_calls(const cairn_chat_stream *stream);
/* Did the text leave the format, so that some of it is content as it stands? */
bool cairn_chat_stream_is_broken(const cairn_chat_stream *stream);

/* --- grammar --------------------------------------------------------------------------------------------------- */

/*
 * A JSON schema as GBNF.
 *
 *   ret_grammar [out]  the caller's, to be freed with cairn_chat_string_free
 *
 * Errors   CAIRN_INVALID  not JSON, too deep or large, or something that a grammar can't say: "json_schema: ..."
 */
CAIRN_MUST_CHECK cairn_status cairn_chat_schema_to_grammar(const char *schema, size_t schema_bytes,
                                                           char **ret_grammar, cairn_error *reterr);
void cairn_chat_string_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
