/*
 * namespace - see the header.
 */
#include "serve/namespace.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/hash.h"

struct cairn_keys {
    const cairn_mem *mem;
    uint8_t secret[CAIRN_KEYS_SECRET_BYTES];
    size_t count;
    cairn_digest *digests; /* cairn_digest[count] */
};

cairn_status cairn_keys_new(const cairn_mem *mem, const uint8_t *secret, const char *const *api_keys,
                            size_t count, cairn_keys **ret_keys, cairn_error *reterr)
{
    cairn_keys *keys = cairn_mem_zalloc(mem, sizeof *keys);
    if (keys == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "keys/new", NULL);
    keys->mem = mem;
    keys->count = count;
    keys->digests = cairn_mem_array(mem, count, sizeof *keys->digests);
    cairn_status status = CAIRN_OK;
    if (secret != NULL)
        memcpy(keys->secret, secret, sizeof keys->secret);
    if (keys->digests == NULL) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "keys/new", NULL);
    } else if (secret == NULL &&
               getrandom(keys->secret, sizeof keys->secret, 0) != (ssize_t)sizeof keys->secret) {
        status = cairn_error_set_os(reterr, errno, "keys/new: random bytes", NULL);
    }
    for (size_t i = 0; i < count && status == CAIRN_OK; i++) {
        if (api_keys[i][0] == '\0') {
            status = cairn_error_set(reterr, CAIRN_INVALID, "keys/new", "an API key is empty");
        } else if (cairn_digest_keyed(keys->secret, sizeof keys->secret, api_keys[i], strlen(api_keys[i]),
                                      &keys->digests[i]) != CAIRN_OK) {
            status = cairn_error_set(reterr, CAIRN_NOMEM, "keys/new", NULL);
        }
    }
    if (status != CAIRN_OK) {
        cairn_keys_free(keys);
        return status;
    }
    *ret_keys = keys;
    return CAIRN_OK;
}

void cairn_keys_free(cairn_keys *keys)
{
    if (keys == NULL)
        return;
    cairn_mem_array_release(keys->mem, keys->digests, keys->count, sizeof *keys->digests);
    cairn_mem_release(keys->mem, keys, sizeof *keys);
}

/* The key in "Bearer <key>"; "" when there is none. */
static const char *bearer(const char *authorization)
{
    if (authorization == NULL || strncasecmp(authorization, "bearer ", 7) != 0)
        return "";
    const char *key = authorization + 7;
    while (*key == ' ')
        key++;
    return key;
}

bool cairn_keys_allow(const cairn_keys *keys, const char *authorization)
{
    if (keys->count == 0)
        return true;
    const char *key = bearer(authorization);
    cairn_digest digest;
    if (cairn_digest_keyed(keys->secret, sizeof keys->secret, key, strlen(key), &digest) != CAIRN_OK)
        return false;
    bool found = false;
    for (size_t i = 0; i < keys->count; i++)
        found |= cairn_digest_equal(&digest, &keys->digests[i]);
    return found;
}

cairn_status cairn_keys_namespace(const cairn_keys *keys, const char *authorization, const char *salt,
                                  cairn_namespace *ret_space)
{
    cairn_digest inner[2];
    const char *key = keys->count > 0 ? bearer(authorization) : "";
    if (salt == NULL)
        salt = "";
    cairn_digest outer;
    if (cairn_digest_keyed(keys->secret, sizeof keys->secret, key, strlen(key), &inner[0]) != CAIRN_OK ||
        cairn_digest_keyed(keys->secret, sizeof keys->secret, salt, strlen(salt), &inner[1]) != CAIRN_OK ||
        cairn_digest_keyed(keys->secret, sizeof keys->secret, inner, sizeof inner, &outer) != CAIRN_OK)
        return CAIRN_NOMEM;
    memcpy(ret_space->bytes, outer.bytes, sizeof ret_space->bytes);
    return CAIRN_OK;
}
