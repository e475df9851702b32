/*
 * boundary_map - byte offsets of a prompt's text become positions in its tokens.
 *
 *   text     <|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant ...
 *   tokens   [          ][  ][ ][   ][        ][ ][          ][       ]
 *   offset                                       ^ falls on a border: the token's position
 *            An offset inside a token goes down to that token's start.
 *
 * Pure: no allocation, no engine.
 *
 * Units    bytes in, tokens out
 * Thread   any
 */
#ifndef CAIRN_CHAT_BOUNDARY_MAP_H
#define CAIRN_CHAT_BOUNDARY_MAP_H

#include "chat/bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Map boundaries to positions. Those at position 0 are dropped; those that fall together become one with all kinds.
 *
 *   token_bytes  [in]   uint32_t[count_tokens], the bytes of the text that each token stands for; 0 for tokens that
 *                       the tokenizer added (a begin token). Their sum must be text_bytes, or the tokens are not
 *                       this text's: see Errors
 *   boundaries   [in]   cairn_chat_boundary[count_boundaries], ascending
 *   out          [out]  cairn_boundary[count_boundaries], room for all; ascending positions, each once
 *   ret_count    [out]  how many were written
 *
 * Errors   CAIRN_INVALID  the sum differs or an offset is beyond the text; then *ret_count is 0
 * Cost     O(count_tokens + count_boundaries)
 * Test     tests/chat/test_boundary_map.c
 */
CAIRN_MUST_CHECK cairn_status cairn_chat_boundaries_map(const uint32_t *token_bytes, size_t count_tokens,
                                                        uint64_t text_bytes,
                                                        const cairn_chat_boundary *boundaries,
                                                        size_t count_boundaries, cairn_boundary *out,
                                                        size_t *ret_count);

#ifdef __cplusplus
}
#endif
#endif
