/*
 * hash - three hashes for three uses.
 *
 *   chain    64 bits over a token path, one step a token: finds paths quickly. Never a proof: the tokens themselves
 *            are compared, too.
 *   hash128  XXH3: notices damaged bytes. Fast; a person can forge it.
 *   digest   SHA-256, or HMAC-SHA-256 with a key: names contents, and salts namespaces so that the same path has
 *            unrelated names in two of them.
 *
 * The values are the same on all machines, and stored in files: changing one is a new format version.
 *
 * Thread   any; a stream belongs to one thread at a time
 */
#ifndef CAIRN_BASE_HASH_H
#define CAIRN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "cairn/mem.h"

/* The chain of the empty path. */
#define CAIRN_HASH_CHAIN_SEED UINT64_C(0x9e3779b97f4a7c15)

/* A bijective mixing of 64 bits: every input bit reaches every output bit. */
uint64_t cairn_hash_mix(uint64_t x);

/* The chain after one more token: h(n + 1) = chain(h(n), token n). Depends on order and on every earlier token. */
uint64_t cairn_hash_chain(uint64_t chain, int32_t token);

/* The chain after int32_t[count] more tokens. */
uint64_t cairn_hash_chain_tokens(uint64_t chain, const int32_t *tokens, size_t count);

typedef struct cairn_hash128 {
    uint64_t low;
    uint64_t high;
} cairn_hash128;

/* XXH3-128 of uint8_t[len_bytes]. Cost: about 20 GB/s. */
cairn_hash128 cairn_hash_bytes(const void *bytes, size_t len_bytes);

/* Are both equal? */
bool cairn_hash128_equal(cairn_hash128 a, cairn_hash128 b);

/* 64 bits of the same family, for tables in memory; `seed` tells tables apart. */
uint64_t cairn_hash_bytes64(const void *bytes, size_t len_bytes, uint64_t seed);

/* XXH3-128 piece by piece: the same value as over the joined pieces. */
typedef struct cairn_hash_stream cairn_hash_stream;

/* NULL when there is no room. */
CAIRN_MUST_CHECK cairn_hash_stream *cairn_hash_stream_new(const cairn_mem *mem);

/* Start again. */
void cairn_hash_stream_reset(cairn_hash_stream *stream);

/* Take in uint8_t[len_bytes]. */
void cairn_hash_stream_update(cairn_hash_stream *stream, const void *bytes, size_t len_bytes);

/* The value of what was taken in so far; the stream may go on. */
cairn_hash128 cairn_hash_stream_value(const cairn_hash_stream *stream);

/* NULL is allowed. */
void cairn_hash_stream_free(cairn_hash_stream *stream);

#define CAIRN_DIGEST_BYTES 32
#define CAIRN_DIGEST_HEX   65 /* characters of its text, NUL included */

typedef struct cairn_digest {
    uint8_t bytes[CAIRN_DIGEST_BYTES];
} cairn_digest;

/* SHA-256 of uint8_t[len_bytes]. Errors: CAIRN_NOMEM the crypto library has no room. */
CAIRN_MUST_CHECK cairn_status cairn_digest_of(const void *bytes, size_t len_bytes, cairn_digest *ret_digest);

/* HMAC-SHA-256 of uint8_t[len_bytes] under uint8_t[key_bytes]. Errors: CAIRN_NOMEM; CAIRN_LIMIT key over 2 GiB. */
CAIRN_MUST_CHECK cairn_status cairn_digest_keyed(const void *key, size_t key_bytes, const void *bytes,
                                                 size_t len_bytes, cairn_digest *ret_digest);

/* SHA-256 piece by piece. */
typedef struct cairn_digest_stream cairn_digest_stream;

/* NULL when there is no room. */
CAIRN_MUST_CHECK cairn_digest_stream *cairn_digest_stream_new(const cairn_mem *mem);

/* Take in uint8_t[len_bytes]; what fails here is told by cairn_digest_stream_finish. */
void cairn_digest_stream_update(cairn_digest_stream *stream, const void *bytes, size_t len_bytes);

/* The digest; the stream then starts again. Errors: CAIRN_NOMEM at any update or now. */
CAIRN_MUST_CHECK cairn_status cairn_digest_stream_finish(cairn_digest_stream *stream,
                                                         cairn_digest *ret_digest);

/* NULL is allowed. */
void cairn_digest_stream_free(cairn_digest_stream *stream);

/*
 * Names for the places of a token path, for those who may know which paths are equal but not what they say: out[i]
 * depends on tokens [0, i] and the key. Equal beginnings have equal names; from where two paths part on, their names
 * are unrelated, also where the same tokens follow. Nothing about a token can be told without the key.
 *
 *   key  [in]   uint8_t[32], secret
 *   out  [out]  int32_t[count], each in [0, 2^31); may be `tokens` itself
 *
 * Errors   CAIRN_NOMEM  the crypto library has no room; `out` is then undefined
 * Cost     one AES block a token
 */
CAIRN_MUST_CHECK cairn_status cairn_hash_veil(const uint8_t key[CAIRN_DIGEST_BYTES], const int32_t *tokens,
                                              size_t count, int32_t *out);

/* Are both equal? The time it takes doesn't depend on the bytes. */
bool cairn_digest_equal(const cairn_digest *a, const cairn_digest *b);

/* Lower-case hexadecimal with NUL. */
void cairn_digest_hex(const cairn_digest *digest, char text[CAIRN_DIGEST_HEX]);

/* The opposite: exactly 64 hexadecimal digits, either case. Errors: CAIRN_INVALID. */
CAIRN_MUST_CHECK cairn_status cairn_digest_parse(const char *text, cairn_digest *ret_digest);

#endif
