/*
 * explain - two requests: where their prompts part after the template, what a cache can reuse of the first for the second,
 * and which habit of the client is the cause.
 *
 *   request A --template--> prompt A: t0 t1 ... t(n-1) | a ...
 *   request B --template--> prompt B: t0 t1 ... t(n-1) | b ...      common = n
 *
 * The cause is found by comparing the requests (message by message, tools, arguments), because the prompts only show
 * where it hurts.
 *
 * Units    tokens; message indexes are those of chat completions' form (a system text of its own is message 0)
 * Owner    plain structs
 * Thread   any
 * See      docs/guide-agents.md, src/cli/cmd_explain.c
 * Test     tests/e2e/explain.test.mjs
 */
#ifndef CAIRN_EXPLAIN_H
#define CAIRN_EXPLAIN_H

#include <jansson.h>

#include "chat/bridge.h"
#include "engine/llama_vocab.h"
#include "serve/api_error.h"
#include "serve/excerpt.h"

/* X(name, word, what happened, what to do: "" when nothing is to be done) */
#define CAIRN_CAUSE_MAP(X)                                                                                  \
    X(SAME, "same", "both requests make the same prompt", "")                                               \
    X(EXTENDED, "extended", "the second request continues the first", "")                                   \
    X(EARLIER, "earlier", "the second request ends earlier: an undo, or another answer is asked for", "")   \
    X(OTHER, "other", "these are two different conversations", "")                                          \
    X(CLOCK, "clock", "a date or time in the system prompt changed",                                        \
      "Put it into the last user message, or fix it when the conversation begins.")                         \
    X(NUMBER, "number", "a number or id in the system prompt changed",                                      \
      "Leave it out of the system prompt, or put it into the last user message.")                           \
    X(LINE, "line", "one line of the system prompt changed (a header, a setting, a status)",                \
      "Move the line that changes behind the conversation: into the last user message.")                    \
    X(SYSTEM, "system", "the system prompt changed",                                                        \
      "Keep it the same for the whole conversation; everything after the change is read again.")            \
    X(TOOLS_ORDER, "tools-order", "the same tools came in another order",                                   \
      "Sort the tools by name, or keep them in a list instead of a set.")                                   \
    X(TOOLS_SET, "tools-set", "tools were added or taken away",                                             \
      "Offer the same tools for the whole conversation; tool_choice can forbid them for a turn.")           \
    X(TOOL_TEXT, "tool-text", "the definition of a tool changed or was written anew",                       \
      "Make each definition once and send the same text every time.")                                       \
    X(BLANKS, "blanks", "an earlier message differs in blanks or line ends only",                           \
      "Send earlier messages back as they were: no trimming, no formatting.")                               \
    X(REASONING, "reasoning", "the reasoning of an earlier answer was left out or changed",                 \
      "Send reasoning_content back as it came, for every earlier answer.")                                  \
    X(ARGUMENTS, "arguments", "the arguments of an earlier tool call were written anew",                    \
      "Keep the arguments as the text that came; don't parse them and write them out again.")               \
    X(CALL_IDS, "call-ids", "ids of earlier tool calls changed", "Keep the ids that came with the calls.")  \
    X(TOOL_CLEARED, "tool-cleared", "an earlier tool result was cleared or shortened",                      \
      "Clear many results at once and rarely: each clearing reads again what follows the first of them.")   \
    X(TOOL_RESULT, "tool-result", "an earlier tool result changed",                                         \
      "Send tool results back as they were; add news in a later message.")                                  \
    X(ANSWER, "answer", "an earlier answer was edited",                                                     \
      "Nothing, if a person edited it. A program should send answers back as they came.")                   \
    X(USER, "user", "an earlier user message was edited",                                                   \
      "Nothing, if a person edited it. Text that a program adds (reminders, status) belongs into the last " \
      "message and should stay there.")                                                                     \
    X(DROPPED, "dropped", "earlier messages were taken out (dropped, or put together in a summary)",        \
      "Do it rarely and in large steps: what follows is read again each time.")                             \
    X(INSERTED, "inserted", "a message was put in before earlier ones", "Add messages at the end only.")    \
    X(TEMPLATE, "template",                                                                                 \
      "the chat template writes earlier messages differently once there are later ones",                    \
      "Often it leaves out earlier reasoning. If the model's template has a switch for that "               \
      "(chat_template_kwargs), keep it the same for the whole conversation.")                               \
    X(SETTINGS, "settings",                                                                                 \
      "another field of the request changes the prompt (template arguments, a format)",                     \
      "Keep such fields the same for the whole conversation.")

typedef enum cairn_cause {
#define CAIRN_CAUSE_ENUM(name, word, what, advice) CAIRN_CAUSE_##name,
    CAIRN_CAUSE_MAP(CAIRN_CAUSE_ENUM)
#undef CAIRN_CAUSE_ENUM
        CAIRN_CAUSE_COUNT
} cairn_cause;

/* "tools-order"; what happened; what to do. Constants. */
const char *cairn_cause_word(cairn_cause cause);
const char *cairn_cause_text(cairn_cause cause);
const char *cairn_cause_advice(cairn_cause cause);

/*
 * What differs between two requests in chat completions' form?
 *
 *   in_system    [in]   the prompts part in the system text or the tools
 *   in_opener    [in]   they part at the end of the first, where the answer begins
 *   ret_message  [out]  the first message that differs; -1: none
 */
cairn_cause cairn_explain_cause(const json_t *a, const json_t *b, bool in_system, bool in_opener,
                                int *ret_message);

typedef struct cairn_explain_options {
    const cairn_mem *mem;
    const cairn_llama_vocab *vocab;
    const cairn_chat *chat;
    int64_t now_s;             /* the template's clock                                              */
    bool thinking_off;         /* as `cairn serve --no-thinking`                                    */
    uint32_t batch_tokens_max; /* of the server: where it takes states                              */
} cairn_explain_options;

typedef struct cairn_explanation {
    uint32_t tokens[2];
    uint32_t common; /* tokens that both prompts begin with                                        */
    uint32_t least;  /* of B: what even a perfect cache must read                                  */
    uint32_t resume; /* where cairn resumes B, when it has read A and kept its states              */
    bool extends;    /* B begins with all of A: every cache can use it                             */
    uint32_t message;
    uint8_t role; /* cairn_role of the message that the divergence falls into                      */
    cairn_cause cause;
    int cause_message;     /* the message of the requests that differs first; -1: none                  */
    bool system_apart;     /* the bodies have their system text in a field of its own: it is message 0  */
    cairn_excerpt excerpt; /* known: A, given: B                                                    */
} cairn_explanation;

/*
 * Compare two bodies: chat completions, Messages or Responses.
 *
 * After    true: *ret is set. false: an error that names the field, and in *ret_which whose: 0 A, 1 B
 * Cost     two renders and tokenizations
 */
bool cairn_explain(const cairn_explain_options *options, const json_t *a, const json_t *b,
                   cairn_explanation *ret, cairn_api_error *error, int *ret_which);

#endif
