/*
 * profiles - what one model costs on one machine: bytes of a state, bytes of a row, time to read, to save, to restore.
 *
 * Bytes are computed from published layer dimensions (the table in profiles.c names the source of each); times are
 * from a published measurement or an assumption, and the table says which.
 *
 *   state  = recurrent layers x (recurrence + convolution window), 32-bit as libllama keeps them
 *   row    = attention layers x KV heads x head width x 2 (key and value) x 2 bytes
 *   reading n tokens after p others takes  batches x call + a n + b ((p + n)^2 - p^2)
 *
 * Units    bytes; tokens; ns
 * Thread   any
 */
#ifndef CAIRN_SIM_PROFILES_H
#define CAIRN_SIM_PROFILES_H

#include "workload.h"

typedef struct cairn_profile {
    const char *name;
    const char *source;   /* where the dimensions come from                                          */
    const char *speed;    /* where the times come from                                               */
    uint64_t state_bytes; /* 0: pure attention                                                      */
    uint64_t row_bytes;
    uint32_t batch_tokens;
    double call_ns;        /* fixed part of a batch                                                  */
    double read_ns_token;  /* a                                                                      */
    double read_ns_token2; /* b                                                                     */
    double move_ns_byte;   /* copying between engine and memory                                      */
    double take_ns;        /* fixed part of taking or restoring a state                              */
} cairn_profile;

/* All profiles; const cairn_profile[*ret_count]. The first is the one that reports use by default. */
const cairn_profile *cairn_profile_list(uint32_t *ret_count);
/* By name; NULL when there is none. */
const cairn_profile *cairn_profile_get(const char *name);

/*
 * The model and machine of a server as its trace has them: sizes from its head, speeds from what its requests took. Where
 * it read or moved nothing, speeds are those of the first profile.
 *
 *   server  [in]  borrowed for the call
 */
cairn_profile cairn_profile_recorded(const cairn_workload_server *server);

/* Time to take (or restore) one state; to read tokens [begin, end) in `batches` decodes. */
double cairn_profile_take_ns(const cairn_profile *profile);
double cairn_profile_read_ns(const cairn_profile *profile, uint32_t begin, uint32_t end, uint32_t batches);

#endif
