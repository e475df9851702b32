/*
 * blob_seal - the encryption of a blob's pieces: AES-256-GCM, as docs/format/blob.md says.
 *
 * Owner    the struct is the caller's; release gives the cipher back
 * Thread   one at a time
 */
#ifndef CAIRN_STORE_BLOB_SEAL_H
#define CAIRN_STORE_BLOB_SEAL_H

#include "store/blob_format.h"

enum { CAIRN_SEAL_NONCE_BYTES = 12, CAIRN_SEAL_KEY_BYTES = 32 };

typedef struct cairn_seal {
    void *cipher;       /* EVP_CIPHER_CTX                                                              */
    const uint8_t *key; /* uint8_t[CAIRN_SEAL_KEY_BYTES], borrowed                                       */
    uint8_t nonce[CAIRN_SEAL_NONCE_BYTES];
    uint8_t aad[CAIRN_BLOB_FIXED_BYTES + 4]; /* the fixed header, then the piece's number              */
} cairn_seal;

/*
 * Begin with one blob.
 *
 *   nonce  [in]  of the blob's header
 *   fixed  [in]  uint8_t[CAIRN_BLOB_FIXED_BYTES], its first bytes
 *
 * Errors  CAIRN_NOMEM; release is allowed then, too
 */
CAIRN_MUST_CHECK cairn_status cairn_seal_init(cairn_seal *seal, const uint8_t *key,
                                              const uint8_t nonce[CAIRN_SEAL_NONCE_BYTES],
                                              const uint8_t *fixed);
void cairn_seal_release(cairn_seal *seal);

/* plain[count] becomes out[count + CAIRN_BLOB_TAG_BYTES]. False: the library can't. */
bool cairn_seal_close_piece(cairn_seal *seal, uint32_t index, const uint8_t *plain, uint32_t count,
                            uint8_t *out);
/* stored[count + CAIRN_BLOB_TAG_BYTES] becomes out[count]. False: another key, or changed. */
bool cairn_seal_open_piece(cairn_seal *seal, uint32_t index, const uint8_t *stored, uint32_t count,
                           uint8_t *out);

#endif
