/*
 * namespace - who shares what: API keys and cache salts become namespaces.
 *
 * A namespace is a keyed hash, under the server's own secret, of the API key (when the server asks for one) and the
 * request's salt. Requests with neither share one. What the cache keeps never names a secret. Without a disk the
 * server's secret is drawn at start; with one it is kept there, so that a namespace is the same after a restart.
 *
 * The keys can be replaced while requests come in; a key that stays keeps its namespace.
 *
 * Thread   any
 */
#ifndef CAIRN_SERVE_NAMESPACE_H
#define CAIRN_SERVE_NAMESPACE_H

#include "cairn/mem.h"
#include "cairn/prompt.h"

typedef struct cairn_keys cairn_keys;

enum { CAIRN_KEYS_SECRET_BYTES = 32 };

/*
 *   secret   [in]  uint8_t[CAIRN_KEYS_SECRET_BYTES], copied; NULL: one is drawn
 *   api_keys [in]  char *[count], borrowed for the call; none: every request is let in
 *
 * Errors   CAIRN_INVALID (an empty key), CAIRN_NOMEM, CAIRN_IO (no random bytes)
 */
CAIRN_MUST_CHECK cairn_status cairn_keys_new(const cairn_mem *mem, const uint8_t *secret,
                                             const char *const *api_keys, size_t count, cairn_keys **ret_keys,
                                             cairn_error *reterr);
/* NULL is allowed. */
void cairn_keys_free(cairn_keys *keys);

/*
 * Replace all keys. From the return on only the new ones let in; requests that came in before go on.
 *
 *   api_keys [in]  char *[count], borrowed for the call; at least one
 *
 * Errors   CAIRN_INVALID (an empty key), CAIRN_NOMEM; the keys are then as before
 */
CAIRN_MUST_CHECK cairn_status cairn_keys_replace(cairn_keys *keys, const char *const *api_keys, size_t count,
                                                 cairn_error *reterr);

/*
 * May a request with this Authorization header come in? Compared in constant time with every key.
 *
 *   authorization  [in]  "Bearer <key>"; NULL: none
 */
bool cairn_keys_allow(cairn_keys *keys, const char *authorization);

/*
 * The namespace of a request that was let in.
 *
 *   salt  [in]  NULL: none
 *
 * Errors   CAIRN_NOMEM
 */
CAIRN_MUST_CHECK cairn_status cairn_keys_namespace(cairn_keys *keys, const char *authorization,
                                                   const char *salt, cairn_namespace *ret_space);

#endif
