/*
 * draft - one request while it is being written: text into tokens, messages with boundaries.
 *
 * The frame is that of the common chat templates (system text and tools first, each message between a start mark with
 * its role and an end mark, the assistant opener last). The tokenizer is a simple stable one: a run of letters with
 * the blank before it, up to three digits, a run of blanks or of line ends, or one other character is a token; its id
 * is a hash of its bytes. Equal texts give equal tokens wherever they stand. On the recorded clients' prompts this is
 * 0.8 to 1 token of a real vocabulary.
 *
 *   <|im_start|>system\n S tools <|im_end|>\n  <|im_start|>user\n U <|im_end|>\n  <|im_start|>assistant\n | answer
 *                                              ^ SYSTEM_END, MESSAGE_START       ^ OPENER                ^ prompt's end
 *
 * Units    tokens
 * Owner    the caller owns the struct; clear keeps the memory
 * Thread   one at a time
 * Errors   a failing allocation is kept in `status` and told by cairn_draft_finish; later calls do nothing
 */
#ifndef CAIRN_SIM_DRAFT_H
#define CAIRN_SIM_DRAFT_H

#include "workload.h"

typedef struct cairn_draft {
    const cairn_mem *mem;
    cairn_token *tokens; /* cairn_token[count]                                                      */
    uint32_t count, room;
    cairn_boundary *boundaries;
    uint32_t count_boundaries, room_boundaries;
    uint32_t messages;
    uint32_t last_user;     /* position of the last user message's start; NONE: there is none        */
    uint32_t prompt_tokens; /* set by cairn_draft_opener; later tokens are the answer                */
    cairn_role role;        /* of the message being written                                         */
    cairn_status status;
} cairn_draft;

void cairn_draft_init(cairn_draft *draft, const cairn_mem *mem);
void cairn_draft_release(cairn_draft *draft);
/* Empty it for the next request. */
void cairn_draft_clear(cairn_draft *draft);

/* Append the tokens of char[len_bytes]; of a mark such as "<|im_start|>", which is always one token. */
void cairn_draft_text(cairn_draft *draft, const char *text, size_t len_bytes);
void cairn_draft_str(cairn_draft *draft, const char *text);
void cairn_draft_mark(cairn_draft *draft, const char *mark);
/* Append cairn_token[count] as they are. */
void cairn_draft_tokens(cairn_draft *draft, const cairn_token *tokens, uint32_t count);
/* Append `count` tokens that stand for a text named by `seed`: equal seeds share their beginning. */
void cairn_draft_fill(cairn_draft *draft, uint64_t seed, uint32_t count);
/* Token `index` of that text. */
cairn_token cairn_draft_fill_token(uint64_t seed, uint32_t index);

/* Note that the present position is a boundary. Positions that are several things are one boundary. */
void cairn_draft_boundary(cairn_draft *draft, uint16_t kinds);

void cairn_draft_open(cairn_draft *draft, cairn_role role);
void cairn_draft_close(cairn_draft *draft);
/* A whole message of `count` fill tokens, frame not counted. */
void cairn_draft_message(cairn_draft *draft, cairn_role role, uint64_t seed, uint32_t count);
/* A reasoning span inside an assistant message or an answer. */
void cairn_draft_think_open(cairn_draft *draft);
void cairn_draft_think_close(cairn_draft *draft);
/* End of system text and tools: call it right after the system message was closed. */
void cairn_draft_system_end(cairn_draft *draft);
/* The assistant opener; what is appended from here on is the answer (close it with cairn_draft_mark). */
void cairn_draft_opener(cairn_draft *draft);

/*
 * Mark the last user message and describe the request in *ret_entry, whose arrays are borrowed from the draft.
 * time, session, space and kind are left to the caller.
 * Errors  CAIRN_NOMEM when anything before failed; CAIRN_INVALID when there was no opener
 */
CAIRN_MUST_CHECK cairn_status cairn_draft_finish(cairn_draft *draft, cairn_workload_entry *ret_entry,
                                                 cairn_error *reterr);

#endif
