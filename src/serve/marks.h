/*
 * marks - a client's marks inside a message become boundaries.
 *
 *   {"role":"system","content":[{"text":"rules","cache_control":{..}}, {"text":"today's news"}]}
 *                                            ^ a boundary here, where the marked text ends in the prompt
 *
 * A mark at the end of a message is found by the chat bridge. Here the marked part's text is searched in the prompt,
 * from the message's start on; one that a template changed is not found, and then there is no boundary.
 *
 * Units    bytes of the prompt's text
 * Thread   any
 * Test     tests/serve/test_marks.c
 */
#ifndef CAIRN_MARKS_H
#define CAIRN_MARKS_H

#include <jansson.h>

#include "cairn/mem.h"
#include "chat/bridge.h"

/*
 * The prompt's boundaries, and those of marks inside messages.
 *
 *   messages    [in]   of the request that was rendered; NULL is allowed
 *   ret_list    [out]  cairn_chat_boundary[*ret_room], the caller's: ascending offsets, each once
 *   ret_count   [out]  how many are used
 *
 * Errors   CAIRN_NOMEM
 * Cost     O(text) for each mark
 */
CAIRN_MUST_CHECK cairn_status cairn_marks_add(const cairn_mem *mem, const json_t *messages,
                                              const cairn_chat_prompt *prompt, cairn_chat_boundary **ret_list,
                                              size_t *ret_count, size_t *ret_room);

#endif
