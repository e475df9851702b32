/*
 * core_driver - carries out the core's lists on slots made of hashes, and checks every promise of core.h.
 *
 * A slot's state after n tokens is a hash of its path, and each row one of the path up to it; a second,
 * low hash of both depends on where the reading was cut and on every row before. So a state of another
 * path, a missing row, or (in exact mode) a row of another reading is noticed at once. Bytes are counted
 * as a store would count them, and must fit under the cap at every action.
 */
#ifndef CAIRN_TESTS_CORE_DRIVER_H
#define CAIRN_TESTS_CORE_DRIVER_H

#include "base/rng.h"
#include "core/core.h"
#include "test_support.h"

enum { DRIVER_SLOTS = 4, DRIVER_TOKENS = 1 << 15 };

typedef struct driver_blob {
    cairn_blob_id id;
    bool rows;
    uint32_t begin, end;
    uint64_t bytes;
    uint64_t pure, low;  /* states */
    uint64_t *rows_pure; /* rows: uint64_t[end - begin] */
    uint64_t *rows_low;
} driver_blob;

typedef struct driver_slot {
    uint32_t length;
    bool state_set;
    uint64_t pure, low;
    uint64_t *rows_pure; /* uint64_t[DRIVER_TOKENS] */
    uint64_t *rows_low;
} driver_slot;

typedef struct driver_request {
    cairn_request_id id;
    uint32_t slot;
    bool resumed, ready, done;
    cairn_prompt prompt;
    cairn_token *tokens;
    cairn_boundary *boundaries;
    uint32_t read_index;     /* of that READ in the last list */
    uint32_t reading_end;    /* of the READ that is due; 0: none */
    uint32_t position;       /* tokens that the slot holds for it */
    uint32_t read;           /* prompt tokens decoded */
    cairn_decision decision; /* as it was at the end */
} driver_request;

typedef struct driver {
    cairn_core *core;
    cairn_core_options options;
    cairn_rng rng;
    driver_blob *blobs;
    uint32_t count_blobs, room_blobs;
    uint64_t held_bytes;
    uint64_t cap_bytes;
    driver_slot slots[DRIVER_SLOTS];
    driver_request requests[DRIVER_SLOTS]; /* by slot */
    cairn_prompt *lasting[DRIVER_SLOTS];   /* what the core borrows */
    uint64_t now_ns;
    const driver_blob *offers; /* while an ADOPT is carried out: what its items would be               */
    cairn_event_kind last_event;
    cairn_request_id next_id;
    double fail_chance; /* of each action that can fail */
    uint64_t take_ns, restore_ns;
    bool verify; /* after every event */
    bool even;   /* states are as large as was reserved, not up to a quarter smaller */
    uint64_t prompt_tokens, read_tokens, least_tokens, actions;
    uint64_t reasons[CAIRN_REASON_COUNT];
} driver;

/* Plant a fault: TRIM is reported done and isn't. The checks must find it (fuzz_core_planted). */
extern bool driver_planted_fault;

/* Options for small worlds: 2 slots of 4,096 tokens, batches of 64, states of 100 bytes, rows of 10, 1 MiB. */
cairn_core_options driver_options(void);
void driver_init(driver *d, const cairn_core_options *options, uint64_t seed);
/* As driver_init, with an allocator; gives the status of cairn_core_new. */
cairn_status driver_init_mem(driver *d, const cairn_core_options *options, uint64_t seed, cairn_mem *mem);
void driver_release(driver *d);

/*
 * Begin a request with a copy of the prompt. Gives its slot, or CAIRN_SLOT_ANY and the status.
 */
uint32_t driver_begin(driver *d, const cairn_prompt *prompt, uint32_t slot, cairn_status *ret_status);
/* Carry out the READ that is due. */
void driver_read(driver *d, uint32_t slot);
/* Decode tokens after the prompt. */
void driver_answer(driver *d, uint32_t slot, const cairn_token *tokens, uint32_t count);
void driver_finish(driver *d, uint32_t slot, cairn_ending ending);
/* The whole of it: begin, read, answer, finish. Gives the decision. */
cairn_decision driver_ask(driver *d, const cairn_prompt *prompt, const cairn_token *answer,
                          uint32_t count_answer);

/*
 * Another tier offers what a cold reading of the prompt would have left: rows in one to three segments (one may be
 * missing), and a state or two. Some of the fetches fail.
 */
void driver_adopt(driver *d, const cairn_prompt *prompt);

/* Any other event; carries out the list. */
cairn_status driver_event(driver *d, const cairn_event *event);

/* --- prompts ------------------------------------------------------------------------------------------------ */

enum { TALK_MAX = 128 };

typedef struct talk_message {
    cairn_role role;
    uint32_t seed, count;
    bool mark;
} talk_message;

typedef struct talk {
    uint32_t count;
    talk_message messages[TALK_MAX];
} talk;

typedef struct talk_prompt {
    cairn_prompt prompt;
    cairn_token tokens[DRIVER_TOKENS];
    cairn_boundary boundaries[TALK_MAX * 2 + 4];
    uint32_t starts[TALK_MAX + 1]; /* of each message; then the opener's */
} talk_prompt;

void talk_add(talk *t, cairn_role role, uint32_t seed, uint32_t count);
/* Frames of 2 tokens before each message, an opener of 2 at the end. */
void talk_render(const talk *t, cairn_resume_mode mode, talk_prompt *out);
/* Tokens of message `seed` as talk_render makes them: the answer that then comes back as a message. */
void talk_words(uint32_t seed, cairn_token *out, uint32_t count);
/* Without boundaries. */
void talk_plain(const cairn_token *tokens, uint32_t count, cairn_resume_mode mode, talk_prompt *out);

#endif
