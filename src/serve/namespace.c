/*
 * namespace - see the header.
 */
#include "serve/namespace.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/hash.h"
#include "base/lock.h"

struct cairn_keys {
    const cairn_mem *mem;
    uint8_t secret[CAIRN_KEYS_SECRET_BYTES];
    bool asked; /* is a key asked for? Fixed after new                                              */
    pthread_mutex_t lock; /* guards what follows */
    size_t count;
    cairn_digest *digests; /* cairn_digest[count] */
};

/* The keys' digests, cairn_digest[count]; NULL with an error. */
static cairn_digest *digests_of(const cairn_keys *keys, const char *const *api_keys, size_t count,
                                cairn_error *reterr)
{
    cairn_status status = CAIRN_OK;
    cairn_digest *digests = cairn_mem_array(keys->mem, count, sizeof *digests);
    if (digests == NULL)
        status = cairn_error_set(reterr, CAIRN_NOMEM, "keys", NULL);
    for (size_t i = 0; i < count && status == CAIRN_OK; i++) {
        if (api_keys[i][0] == '\0') {
            status = cairn_error_set(reterr, CAIRN_INVALID, "keys", "an API key is empty");
        } else if (cairn_digest_keyed(keys->secret, sizeof keys->secret, api_keys[i], strlen(api_keys[i]),
                                      &digests[i]) != CAIRN_OK) {
            status = cairn_error_set(reterr, CAIRN_NOMEM, "keys", NULL);
        }
    }
    if (status == CAIRN_OK)
        return digests;
    cairn_mem_array_release(keys->mem, digests, count, sizeof *digests);
    return NULL;
}

cairn_status cairn_keys_new(const cairn_mem *mem, const uint8_t *secret, const char *const *api_keys,
                            size_t count, cairn_keys **ret_keys, cairn_error *reterr)
{
    cairn_keys *keys = cairn_mem_zalloc(mem, sizeof *keys);
    if (keys == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "keys/new", NULL);
    keys->mem = mem;
    keys->asked = count > 0;
    cairn_lock_init(&keys->lock);
    cairn_error error = {0};
    if (secret != NULL) {
        memcpy(keys->secret, secret, sizeof keys->secret);
    } else if (getrandom(keys->secret, sizeof keys->secret, 0) != (ssize_t)sizeof keys->secret) {
        (void)cairn_error_set_os(&error, errno, "keys/new: random bytes", NULL);
    }
    if (error.status == CAIRN_OK && count > 0) {
        keys->digests = digests_of(keys, api_keys, count, &error);
        keys->count = keys->digests != NULL ? count : 0;
    }
    if (error.status != CAIRN_OK) {
        cairn_keys_free(keys);
        if (reterr != NULL)
            *reterr = error;
        return error.status;
    }
    *ret_keys = keys;
    return CAIRN_OK;
}

cairn_status cairn_keys_replace(cairn_keys *keys, const char *const *api_keys, size_t count,
                                cairn_error *reterr)
{
    CAIRN_ASSERT(keys->asked && count > 0);
    cairn_error error = {0};
    cairn_digest *fresh = digests_of(keys, api_keys, count, &error);
    if (fresh == NULL) {
        if (reterr != NULL)
            *reterr = error;
        return error.status;
    }
    cairn_lock(&keys->lock);
    cairn_digest *old = keys->digests;
    size_t count_old = keys->count;
    keys->digests = fresh;
    keys->count = count;
    cairn_unlock(&keys->lock);
    cairn_mem_array_release(keys->mem, old, count_old, sizeof *old);
    return CAIRN_OK;
}

void cairn_keys_free(cairn_keys *keys)
{
    if (keys == NULL)
        return;
    (void)pthread_mutex_destroy(&keys->lock);
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

bool cairn_keys_allow(cairn_keys *keys, const char *authorization)
{
    if (!keys->asked)
        return true;
    const char *key = bearer(authorization);
    cairn_digest digest;
    if (cairn_digest_keyed(keys->secret, sizeof keys->secret, key, strlen(key), &digest) != CAIRN_OK)
        return false;
    bool found = false;
    cairn_lock(&keys->lock);
    for (size_t i = 0; i < keys->count; i++)
        found |= cairn_digest_equal(&digest, &keys->digests[i]);
    cairn_unlock(&keys->lock);
    return found;
}

cairn_status cairn_keys_namespace(cairn_keys *keys, const char *authorization, const char *salt,
                                  cairn_namespace *ret_space)
{
    cairn_digest inner[2];
    const char *key = keys->asked ? bearer(authorization) : "";
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
