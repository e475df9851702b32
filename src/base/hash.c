/*
 * hash - the chain is our own arithmetic; XXH3 comes from libxxhash, SHA-256 from OpenSSL 3.
 */
#include "base/hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
/* The state's layout, so that it is allocated from our table. The library checks its own version. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#ifdef CAIRN_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* the same functions, by the vectors that this machine has */
#endif

uint64_t cairn_hash_mix(uint64_t x)
{
    /* The finalizer of splitmix64: two multiplications by odd numbers and three shifts, each invertible. */
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

uint64_t cairn_hash_chain(uint64_t chain, int32_t token)
{
    /* The token is spread over 64 bits before it meets the chain, so that equal differences don't cancel out. */
    uint64_t spread = ((uint64_t)(uint32_t)token + 1) * UINT64_C(0xd6e8feb86659fd93);
    return cairn_hash_mix((chain ^ spread) + UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t cairn_hash_chain_tokens(uint64_t chain, const int32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        chain = cairn_hash_chain(chain, tokens[i]);
    }
    return chain;
}

cairn_hash128 cairn_hash_bytes(const void *bytes, size_t len_bytes)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, len_bytes);
    return (cairn_hash128){.low = hash.low64, .high = hash.high64};
}

bool cairn_hash128_equal(cairn_hash128 a, cairn_hash128 b)
{
    return a.low == b.low && a.high == b.high;
}

uint64_t cairn_hash_bytes64(const void *bytes, size_t len_bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len_bytes, seed);
}

#define STREAM_ALIGN 64u

struct cairn_hash_stream {
    const cairn_mem *mem;
    void *block; /* what was allocated; `state` is the first aligned place in it */
    XXH3_state_t *state;
};

#define STREAM_BLOCK_BYTES (sizeof(XXH3_state_t) + STREAM_ALIGN)

cairn_hash_stream *cairn_hash_stream_new(const cairn_mem *mem)
{
    cairn_hash_stream *stream = cairn_mem_zalloc(mem, sizeof *stream);
    if (stream == NULL) {
        return NULL;
    }
    stream->mem = mem;
    stream->block = cairn_mem_zalloc(mem, STREAM_BLOCK_BYTES);
    if (stream->block == NULL) {
        cairn_hash_stream_free(stream);
        return NULL;
    }
    uintptr_t place = ((uintptr_t)stream->block + STREAM_ALIGN - 1) & ~(uintptr_t)(STREAM_ALIGN - 1);
    stream->state = (XXH3_state_t *)((unsigned char *)stream->block + (place - (uintptr_t)stream->block));
    XXH3_INITSTATE(stream->state);
    cairn_hash_stream_reset(stream);
    return stream;
}

void cairn_hash_stream_reset(cairn_hash_stream *stream)
{
    XXH_errorcode code = XXH3_128bits_reset(stream->state);
    CAIRN_ASSERT(code == XXH_OK);
}

void cairn_hash_stream_update(cairn_hash_stream *stream, const void *bytes, size_t len_bytes)
{
    if (len_bytes > 0) {
        XXH_errorcode code = XXH3_128bits_update(stream->state, bytes, len_bytes);
        CAIRN_ASSERT(code == XXH_OK);
    }
}

cairn_hash128 cairn_hash_stream_value(const cairn_hash_stream *stream)
{
    XXH128_hash_t hash = XXH3_128bits_digest(stream->state);
    return (cairn_hash128){.low = hash.low64, .high = hash.high64};
}

void cairn_hash_stream_free(cairn_hash_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    cairn_mem_release(stream->mem, stream->block, STREAM_BLOCK_BYTES);
    cairn_mem_release(stream->mem, stream, sizeof *stream);
}

cairn_status cairn_digest_of(const void *bytes, size_t len_bytes, cairn_digest *ret_digest)
{
    cairn_digest digest;
    unsigned len = 0;
    if (EVP_Digest(bytes, len_bytes, digest.bytes, &len, EVP_sha256(), NULL) != 1) {
        return CAIRN_NOMEM;
    }
    CAIRN_ASSERT(len == CAIRN_DIGEST_BYTES);
    *ret_digest = digest;
    return CAIRN_OK;
}

cairn_status cairn_digest_keyed(const void *key, size_t key_bytes, const void *bytes, size_t len_bytes,
                                cairn_digest *ret_digest)
{
    if (key_bytes > INT32_MAX) {
        return CAIRN_LIMIT;
    }
    static const unsigned char nothing[1] = {0}; /* OpenSSL takes NULL for "the key used before" */
    cairn_digest digest;
    unsigned len = 0;
    if (HMAC(EVP_sha256(), key_bytes > 0 ? key : nothing, (int)key_bytes, len_bytes > 0 ? bytes : nothing,
             len_bytes, digest.bytes, &len) == NULL) {
        return CAIRN_NOMEM;
    }
    CAIRN_ASSERT(len == CAIRN_DIGEST_BYTES);
    *ret_digest = digest;
    return CAIRN_OK;
}

struct cairn_digest_stream {
    const cairn_mem *mem;
    EVP_MD_CTX *context;
    bool failed;
};

static void digest_stream_start(cairn_digest_stream *stream)
{
    stream->failed = EVP_DigestInit_ex(stream->context, EVP_sha256(), NULL) != 1;
}

cairn_digest_stream *cairn_digest_stream_new(const cairn_mem *mem)
{
    cairn_digest_stream *stream = cairn_mem_zalloc(mem, sizeof *stream);
    if (stream == NULL) {
        return NULL;
    }
    stream->mem = mem;
    stream->context = EVP_MD_CTX_new();
    if (stream->context == NULL) {
        cairn_digest_stream_free(stream);
        return NULL;
    }
    digest_stream_start(stream);
    return stream;
}

void cairn_digest_stream_update(cairn_digest_stream *stream, const void *bytes, size_t len_bytes)
{
    if (len_bytes > 0 && !stream->failed && EVP_DigestUpdate(stream->context, bytes, len_bytes) != 1) {
        stream->failed = true;
    }
}

cairn_status cairn_digest_stream_finish(cairn_digest_stream *stream, cairn_digest *ret_digest)
{
    cairn_digest digest;
    unsigned len = 0;
    bool good = !stream->failed && EVP_DigestFinal_ex(stream->context, digest.bytes, &len) == 1;
    digest_stream_start(stream);
    if (!good) {
        return CAIRN_NOMEM;
    }
    CAIRN_ASSERT(len == CAIRN_DIGEST_BYTES);
    *ret_digest = digest;
    return CAIRN_OK;
}

void cairn_digest_stream_free(cairn_digest_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    EVP_MD_CTX_free(stream->context);
    cairn_mem_release(stream->mem, stream, sizeof *stream);
}

bool cairn_digest_equal(const cairn_digest *a, const cairn_digest *b)
{
    unsigned difference = 0;
    for (size_t i = 0; i < CAIRN_DIGEST_BYTES; i++) {
        difference |= (unsigned)(a->bytes[i] ^ b->bytes[i]);
    }
    return difference == 0;
}

void cairn_digest_hex(const cairn_digest *digest, char text[CAIRN_DIGEST_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < CAIRN_DIGEST_BYTES; i++) {
        text[2 * i] = digits[digest->bytes[i] >> 4];
        text[2 * i + 1] = digits[digest->bytes[i] & 15u];
    }
    text[CAIRN_DIGEST_HEX - 1] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

cairn_status cairn_digest_parse(const char *text, cairn_digest *ret_digest)
{
    cairn_digest digest;
    for (size_t i = 0; i < CAIRN_DIGEST_BYTES; i++) {
        int high = hex_value(text[2 * i]);
        int low = high < 0 ? -1 : hex_value(text[2 * i + 1]);
        if (low < 0) {
            return CAIRN_INVALID;
        }
        digest.bytes[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    if (text[CAIRN_DIGEST_HEX - 1] != '\0') {
        return CAIRN_INVALID;
    }
    *ret_digest = digest;
    return CAIRN_OK;
}

/* --- veiled paths -------------------------------------------------------------------------------------------------- */

/* AES in CBC mode with one token a block: each block's output depends on all before it, and is nothing without the key. */
cairn_status cairn_hash_veil(const uint8_t key[CAIRN_DIGEST_BYTES], const int32_t *tokens, size_t count,
                             int32_t *out)
{
    enum { BLOCK = 16, TOKENS = 256 };
    static const uint8_t start[BLOCK];
    uint8_t plain[TOKENS * BLOCK], veiled[TOKENS * BLOCK + BLOCK];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool good = context != NULL && EVP_EncryptInit_ex(context, EVP_aes_256_cbc(), NULL, key, start) == 1 &&
                EVP_CIPHER_CTX_set_padding(context, 0) == 1;
    for (size_t done = 0; good && done < count;) {
        size_t n = count - done < TOKENS ? count - done : TOKENS;
        memset(plain, 0, n * BLOCK);
        for (size_t i = 0; i < n; i++) {
            uint32_t token = (uint32_t)tokens[done + i];
            for (unsigned b = 0; b < 4; b++) {
                plain[i * BLOCK + b] = (uint8_t)(token >> (8 * b));
            }
        }
        int made = 0;
        good = EVP_EncryptUpdate(context, veiled, &made, plain, (int)(n * BLOCK)) == 1 &&
               made == (int)(n * BLOCK);
        for (size_t i = 0; good && i < n; i++) {
            const uint8_t *block = veiled + i * BLOCK;
            uint32_t name = (uint32_t)block[0] | (uint32_t)block[1] << 8 | (uint32_t)block[2] << 16 |
                            (uint32_t)(block[3] & 0x7f) << 24;
            out[done + i] = (int32_t)name;
        }
        done += n;
    }
    EVP_CIPHER_CTX_free(context);
    return good ? CAIRN_OK : CAIRN_NOMEM;
}
