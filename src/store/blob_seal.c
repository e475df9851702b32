/*
 * blob_seal - see the header.
 */
#include "store/blob_seal.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/bytes.h"

cairn_status cairn_seal_init(cairn_seal *seal, const uint8_t *key,
                             const uint8_t nonce[CAIRN_SEAL_NONCE_BYTES], const uint8_t *fixed)
{
    memset(seal, 0, sizeof *seal);
    seal->key = key;
    memcpy(seal->nonce, nonce, sizeof seal->nonce);
    memcpy(seal->aad, fixed, CAIRN_BLOB_FIXED_BYTES);
    seal->cipher = EVP_CIPHER_CTX_new();
    return seal->cipher != NULL ? CAIRN_OK : CAIRN_NOMEM;
}

void cairn_seal_release(cairn_seal *seal)
{
    EVP_CIPHER_CTX_free(seal->cipher);
    seal->cipher = NULL;
}

/* Nonce and associated data of piece `index`. */
static void piece_begin(cairn_seal *seal, uint32_t index, uint8_t nonce[CAIRN_SEAL_NONCE_BYTES])
{
    memcpy(nonce, seal->nonce, CAIRN_SEAL_NONCE_BYTES);
    cairn_put32(nonce + 8, cairn_get32(nonce + 8) + index);
    cairn_put32(seal->aad + CAIRN_BLOB_FIXED_BYTES, index);
}

bool cairn_seal_close_piece(cairn_seal *seal, uint32_t index, const uint8_t *plain, uint32_t count,
                            uint8_t *out)
{
    uint8_t nonce[CAIRN_SEAL_NONCE_BYTES];
    piece_begin(seal, index, nonce);
    int done = 0;
    return EVP_EncryptInit_ex(seal->cipher, EVP_aes_256_gcm(), NULL, seal->key, nonce) == 1 &&
           EVP_EncryptUpdate(seal->cipher, NULL, &done, seal->aad, (int)sizeof seal->aad) == 1 &&
           EVP_EncryptUpdate(seal->cipher, out, &done, plain, (int)count) == 1 && done == (int)count &&
           EVP_EncryptFinal_ex(seal->cipher, out + count, &done) == 1 &&
           EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_GCM_GET_TAG, CAIRN_BLOB_TAG_BYTES, out + count) == 1;
}

bool cairn_seal_open_piece(cairn_seal *seal, uint32_t index, const uint8_t *stored, uint32_t count,
                           uint8_t *out)
{
    uint8_t nonce[CAIRN_SEAL_NONCE_BYTES], tag[CAIRN_BLOB_TAG_BYTES];
    piece_begin(seal, index, nonce);
    memcpy(tag, stored + count, sizeof tag);
    int done = 0;
    return EVP_DecryptInit_ex(seal->cipher, EVP_aes_256_gcm(), NULL, seal->key, nonce) == 1 &&
           EVP_DecryptUpdate(seal->cipher, NULL, &done, seal->aad, (int)sizeof seal->aad) == 1 &&
           EVP_DecryptUpdate(seal->cipher, out, &done, stored, (int)count) == 1 && done == (int)count &&
           EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_GCM_SET_TAG, CAIRN_BLOB_TAG_BYTES, tag) == 1 &&
           EVP_DecryptFinal_ex(seal->cipher, out + done, &done) == 1;
}
