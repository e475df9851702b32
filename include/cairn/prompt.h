/*
 * prompt - what a cache is asked about: tokens, and the positions in them that mean something.
 *
 *   tokens      [ system, tools .......... | user ...... | assistant .... | user ... | opener ]
 *   boundaries                            ^SYSTEM_END    ^MESSAGE_START              ^OPENER
 *                                                        (assistant)
 *
 * A boundary at position n stands between token n-1 and token n. Boundaries are hints: they decide
 * where a resume point is worth having, never whether one may be used. A prompt without boundaries
 * works; a wrong boundary costs time, never an answer.
 *
 * Units    positions in tokens
 * Owner    the caller; each function that takes a prompt says how long it borrows from it
 */
#ifndef CAIRN_PROMPT_H
#define CAIRN_PROMPT_H

#include "cairn/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds are flags: one position is often several things. libcairn adds BRANCH itself. */
enum {
    CAIRN_BOUNDARY_MESSAGE_START = 1u << 0, /* first token of a message (its role is in `role`)     */
    CAIRN_BOUNDARY_SYSTEM_END = 1u << 1,    /* end of system text and tool list: the anchor         */
    CAIRN_BOUNDARY_LAST_USER = 1u << 2,     /* start of the last user message                       */
    CAIRN_BOUNDARY_OPENER = 1u << 3,        /* just before the assistant opener at the prompt's end */
    CAIRN_BOUNDARY_THINK_START = 1u << 4,   /* start of a reasoning span                            */
    CAIRN_BOUNDARY_ANSWER_END = 1u << 5,    /* end of a generated answer                            */
    CAIRN_BOUNDARY_MEDIA_END = 1u << 6,     /* end of an image or sound                             */
    CAIRN_BOUNDARY_MARK = 1u << 7,          /* the client asked for a resume point here             */
    CAIRN_BOUNDARY_BRANCH = 1u << 8         /* two known paths part here (found by the core)        */
};

typedef enum cairn_role {
    CAIRN_ROLE_NONE = 0,
    CAIRN_ROLE_SYSTEM = 1,
    CAIRN_ROLE_USER = 2,
    CAIRN_ROLE_ASSISTANT = 3,
    CAIRN_ROLE_TOOL = 4
} cairn_role;

typedef struct cairn_boundary {
    uint32_t position; /* 0 <= position <= count of tokens                                          */
    uint32_t message;  /* index of the message that starts or ends here, from 0                     */
    uint16_t kinds;    /* CAIRN_BOUNDARY_* or-ed                                                    */
    uint8_t role;      /* cairn_role                                                                */
    uint8_t reserved;  /* 0                                                                         */
} cairn_boundary;

enum { CAIRN_NAMESPACE_BYTES = 16 };

/* Paths are shared within a namespace and never across. With one user all zero is fine; with several, use a keyed hash
 * of what names the user, so that nobody can guess another's. */
typedef struct cairn_namespace {
    uint8_t bytes[CAIRN_NAMESPACE_BYTES];
} cairn_namespace;

typedef enum cairn_resume_mode {
    CAIRN_RESUME_FAST = 0,  /* states from written answers may serve, too                           */
    CAIRN_RESUME_EXACT = 1, /* only states that a cold run would have had, bit for bit              */
    CAIRN_RESUME_OFF = 2    /* read everything, keep nothing                                        */
} cairn_resume_mode;

typedef struct cairn_prompt {
    cairn_namespace space;     /* who may share it                                            */
    const cairn_token *tokens; /* cairn_token[count]                                         */
    uint32_t count;            /* >= 1                                                       */
    uint32_t count_boundaries;
    const cairn_boundary *boundaries; /* cairn_boundary[count_boundaries], ascending positions      */
    cairn_resume_mode mode;
    bool no_store;              /* use the cache, but keep nothing of this request            */
    bool pin;                   /* keep the state at SYSTEM_END while any budget permits      */
    uint32_t answer_tokens_max; /* room to keep free for the answer; 0: unknown               */
    uint32_t slot_hint; /* the slot to prefer among nearly equal ones, plus 1; 0: none                */
} cairn_prompt;

#ifdef __cplusplus
}
#endif
#endif
