/*
 * boundary - positions that mean something, and where reading is cut because of them.
 *
 * A position can be several things at once; its class is the one that says most about whether the
 * next request will part from this one there. Message starts are told apart by role.
 *
 * Units    positions in tokens; distance in messages from the end of the prompt
 * See      include/cairn/prompt.h, divergence.h
 */
#ifndef CAIRN_CORE_BOUNDARY_H
#define CAIRN_CORE_BOUNDARY_H

#include "cairn/prompt.h"
#include "core/core.h"

/* X(name) */
#define CAIRN_CLASS_MAP(X) \
    X(NONE)                \
    X(SYSTEM)              \
    X(USER)                \
    X(ASSISTANT)           \
    X(TOOL)                \
    X(ANCHOR)              \
    X(LAST_USER)           \
    X(OPENER)              \
    X(THINK)               \
    X(ANSWER_END)          \
    X(MEDIA_END)           \
    X(MARK)                \
    X(BRANCH)              \
    X(TIP)

typedef enum cairn_class {
#define CAIRN_CLASS_ENUM(name) CAIRN_CLASS_##name,
    CAIRN_CLASS_MAP(CAIRN_CLASS_ENUM)
#undef CAIRN_CLASS_ENUM
        CAIRN_CLASS_COUNT
} cairn_class;

/* The class of a position with these kinds; CAIRN_CLASS_TIP is never given. */
cairn_class cairn_boundary_class(uint16_t kinds, uint8_t role);

/* "last-user"; constant. */
const char *cairn_boundary_class_word(cairn_class class);

/* Positions that spacing alone never gives up: anchor, last user, opener, a client's mark. */
bool cairn_boundary_protected(uint16_t kinds);

/* Does a message (in the sense of distances) begin here? */
bool cairn_boundary_message(uint16_t kinds);

/* All boundaries of the prompt at exactly this position, as one (kinds 0: none). */
cairn_boundary cairn_boundary_at(const cairn_prompt *prompt, uint32_t position);

/* Index of the first boundary past `position`. */
uint32_t cairn_boundary_after(const cairn_prompt *prompt, uint32_t position);

/* The last boundary at or before `position` that starts a message; kinds 0: none. */
cairn_boundary cairn_boundary_message_of(const cairn_prompt *prompt, uint32_t position);

/* Highest message index + 1. */
uint32_t cairn_boundary_messages(const cairn_prompt *prompt);

/* How many of `messages` come after this one. */
uint32_t cairn_boundary_distance(uint32_t messages, uint32_t message);

/* The options with every 0 that means a default replaced; limits put into order. */
cairn_core_options cairn_boundary_options(const cairn_core_options *options);

/*
 * The canonical cut after `from` (see cairn_core_cuts).
 *
 *   options [in]     from cairn_boundary_options
 *   index   [in,out] boundaries before it are at or before `from`; start with 0
 */
uint32_t cairn_boundary_cut(const cairn_core_options *options, const cairn_prompt *prompt, uint32_t from,
                            uint32_t *index);

/* Where that cut would be if no message started, and nothing else cut, at or before `past`. */
uint32_t cairn_boundary_cut_past(const cairn_core_options *options, const cairn_prompt *prompt, uint32_t from,
                                 uint32_t past);

#endif
