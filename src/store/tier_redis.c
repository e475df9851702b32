/*
 * tier_redis - see the header. A batch goes out in rounds: to each node what is its own, then again what was
 * redirected.
 */
#include "store/tier_redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis_node.h"

enum {
    SLOTS = 16384,
    NODES_MAX = 64,
    ROUNDS_MAX = 8,
    REPLY_BYTES_MAX = 64 << 20,
    TEXT_BYTES = 256,
    TAG_BYTES = CAIRN_KV_KEY_BYTES + 16
};

static const char where_ask[] = "store/redis: ask";

/* What an item waits for; kept in its driver[0]. */
typedef enum redis_wait { WAIT_SEND, WAIT_ANSWER, WAIT_ASKING, WAIT_NOTHING } redis_wait;

typedef enum redis_verb { VERB_GET, VERB_PUT, VERB_EXISTS, VERB_DROP } redis_verb;

typedef struct redis_kv {
    cairn_kv kv;
    const cairn_mem *mem;
    cairn_redis_login login;
    char user[TEXT_BYTES], password[TEXT_BYTES];
    bool cluster;       /* some server said MOVED                                                      */
    bool map_stale;     /* ... since the map was asked for last                                        */
    uint8_t map[SLOTS]; /* slot: index of its node                                                      */
    uint32_t first;     /* the node that is asked while there is no map                                */
    uint32_t count_nodes;
    cairn_redis_node nodes[NODES_MAX];
} redis_kv;

/* One batch on its way. */
typedef struct redis_batch {
    redis_kv *redis;
    redis_verb verb;
    cairn_kv_item *items;
    uint32_t count;
    uint32_t ttl_s;
    uint32_t
        next[NODES_MAX]; /* by node: no item before this one awaits its answer                          */
    cairn_status status; /* what is wrong with the whole store                                     */
    char why[100];
} redis_batch;

/* --- slots and nodes ------------------------------------------------------------------------------------------ */

/* CRC-16/XMODEM. */
static uint16_t crc16(const char *text, size_t count)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < count; i++) {
        crc = (uint16_t)(crc ^ (uint16_t)((uint8_t)text[i] << 8));
        for (int bit = 0; bit < 8; bit++) {
            crc = (uint16_t)((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1);
        }
    }
    return crc;
}

uint32_t cairn_redis_slot(const char *key)
{
    const char *open = strchr(key, '{');
    const char *end = open != NULL ? strchr(open, '}') : NULL;
    if (end != NULL && end > open + 1) {
        return crc16(open + 1, (size_t)(end - open - 1)) % SLOTS;
    }
    return crc16(key, strlen(key)) % SLOTS;
}

/* "id/part" as this store's key. */
static void key_text(const char *key, char text[TAG_BYTES])
{
    const char *slash = strchr(key, '/');
    int id = slash != NULL ? (int)(slash - key) : (int)strlen(key);
    (void)snprintf(text, TAG_BYTES, "cairn:{%.*s}:%s", id, key, slash != NULL ? slash + 1 : "");
}

/* The node at this address, a new one when it isn't known. The first one when there are too many. */
static uint32_t node_at(redis_kv *redis, const char *host, size_t host_length, int port)
{
    const char *name = host_length > 0 ? host : redis->nodes[redis->first].host; /* "as I am" */
    size_t length = host_length > 0 ? host_length : strlen(name);
    for (uint32_t i = 0; i < redis->count_nodes; i++) {
        const cairn_redis_node *node = &redis->nodes[i];
        if (node->port == port && strlen(node->host) == length && memcmp(node->host, name, length) == 0) {
            return i;
        }
    }
    if (redis->count_nodes == NODES_MAX || length >= CAIRN_REDIS_HOST_BYTES) {
        return 0;
    }
    cairn_redis_node *node = &redis->nodes[redis->count_nodes];
    *node = (cairn_redis_node){.port = port, .flushed = true};
    memcpy(node->host, name, length);
    return redis->count_nodes++;
}

/* "MOVED 3999 127.0.0.1:6381": the node. False: not of that form. */
static bool redirection(redis_kv *redis, const char *text, uint32_t *ret_slot, uint32_t *ret_node)
{
    const char *slot = strchr(text, ' ');
    const char *address = slot != NULL ? strchr(slot + 1, ' ') : NULL;
    const char *colon = address != NULL ? strrchr(address, ':') : NULL;
    if (colon == NULL) {
        return false;
    }
    unsigned long number = strtoul(slot + 1, NULL, 10), port = strtoul(colon + 1, NULL, 10);
    if (number >= SLOTS || port == 0 || port > 65535) {
        return false;
    }
    *ret_slot = (uint32_t)number;
    *ret_node = node_at(redis, address + 1, (size_t)(colon - address - 1), (int)port);
    return true;
}

static void map_answer(void *ctx, uint32_t node, const redisReply *reply)
{
    redis_kv *redis = ctx;
    (void)node;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *range = reply->element[i];
        const redisReply *master =
            range->type == REDIS_REPLY_ARRAY && range->elements >= 3 ? range->element[2] : NULL;
        if (master == NULL || master->type != REDIS_REPLY_ARRAY || master->elements < 2 ||
            range->element[0]->type != REDIS_REPLY_INTEGER ||
            range->element[1]->type != REDIS_REPLY_INTEGER ||
            master->element[1]->type != REDIS_REPLY_INTEGER) {
            continue;
        }
        long long first = range->element[0]->integer, last = range->element[1]->integer;
        long long port = master->element[1]->integer;
        bool named = master->element[0]->type == REDIS_REPLY_STRING;
        if (first < 0 || last >= SLOTS || port <= 0 || port > 65535) {
            continue;
        }
        uint32_t owner = node_at(redis, named ? master->element[0]->str : "",
                                 named ? (size_t)master->element[0]->len : 0, (int)port);
        for (long long slot = first; slot <= last; slot++) {
            redis->map[slot] = (uint8_t)owner;
        }
    }
}

/* Ask for the whole map. Best effort: MOVED corrects it slot by slot. */
static void map_refresh(redis_kv *redis, uint64_t until_ns)
{
    const char *argv[] = {"CLUSTER", "SLOTS"};
    redis->map_stale = false;
    for (uint32_t i = 0; i < redis->count_nodes; i++) {
        uint32_t broken;
        cairn_redis_node *node = &redis->nodes[i];
        if (cairn_redis_node_open(node, &redis->login, until_ns, NULL) == CAIRN_OK &&
            cairn_redis_node_queue(node, 2, argv, NULL, NULL) == CAIRN_OK &&
            cairn_redis_nodes_exchange(node, 1, &redis->login, until_ns, map_answer, redis, &broken, NULL) ==
                CAIRN_OK) {
            return;
        }
    }
}

/* --- answers -------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What an error means. Where the item is only to be sent again, it waits for that. */
static void answer_error(redis_batch *batch, cairn_kv_item *item, const char *text)
{
    redis_kv *redis = batch->redis;
    uint32_t slot, node;
    if (begins(text, "MOVED ") && redirection(redis, text, &slot, &node)) {
        redis->cluster = redis->map_stale = true;
        redis->map[slot] = (uint8_t)node;
        item->driver[0] = WAIT_SEND;
    } else if (begins(text, "ASK ") && redirection(redis, text, &slot, &node)) {
        item->driver[0] = WAIT_ASKING;
        item->driver[1] = node;
    } else if (begins(text, "OOM ")) {
        item->status = CAIRN_NOSPACE;
        item->driver[0] = WAIT_NOTHING;
    } else { /* LOADING, CLUSTERDOWN, TRYAGAIN, READONLY, NOAUTH, ...: nothing that one item can help */
        bool login = begins(text, "NOAUTH") || begins(text, "NOPERM") || begins(text, "WRONGPASS");
        batch->status = login ? CAIRN_INVALID : CAIRN_IO;
        (void)snprintf(batch->why, sizeof batch->why, "%s", text);
        item->driver[0] = WAIT_NOTHING;
    }
}

static cairn_status value_take(cairn_kv_item *item, const redisReply *reply)
{
    item->size_bytes = (uint64_t)reply->len;
    if (item->size_bytes > item->room_bytes) {
        return CAIRN_LIMIT;
    }
    memcpy(item->bytes, reply->str, item->size_bytes);
    return CAIRN_OK;
}

static void answer_item(redis_batch *batch, cairn_kv_item *item, const redisReply *reply)
{
    bool fits = false;
    if (reply->type == REDIS_REPLY_ERROR) {
        answer_error(batch, item, reply->str);
        return;
    }
    item->driver[0] = WAIT_NOTHING;
    if (batch->verb == VERB_GET) {
        fits = reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_NIL;
        item->status = reply->type == REDIS_REPLY_STRING ? value_take(item, reply) : CAIRN_NOTFOUND;
    } else if (batch->verb == VERB_PUT) {
        fits = reply->type == REDIS_REPLY_STATUS;
        item->status = CAIRN_OK;
    } else {
        fits = reply->type == REDIS_REPLY_INTEGER;
        item->status = reply->integer > 0 || batch->verb == VERB_DROP ? CAIRN_OK : CAIRN_NOTFOUND;
    }
    if (!fits) {
        item->status = CAIRN_CANCELLED;
        batch->status = CAIRN_CORRUPT;
        (void)snprintf(batch->why, sizeof batch->why, "an answer of another kind");
    }
}

/* Answers of a node come in the order of its commands, which is that of the items. */
static void answer(void *ctx, uint32_t node, const redisReply *reply)
{
    redis_batch *batch = ctx;
    for (uint32_t i = batch->next[node]; i < batch->count; i++) {
        cairn_kv_item *item = &batch->items[i];
        if (item->driver[1] != node || item->driver[0] == WAIT_NOTHING || item->driver[0] == WAIT_SEND) {
            continue;
        }
        batch->next[node] = i;
        if (item->driver[0] == WAIT_ASKING) { /* ASKING's own answer comes first */
            item->driver[0] = WAIT_ANSWER;
        } else {
            answer_item(batch, item, reply);
            batch->next[node] = i + 1;
        }
        return;
    }
}

/* --- rounds --------------------------------------------------------------------------------------------------- */

static cairn_status item_send(redis_batch *batch, cairn_kv_item *item, cairn_redis_node *node,
                              cairn_error *reterr)
{
    char key[TAG_BYTES], ttl[16];
    key_text(item->key, key);
    (void)snprintf(ttl, sizeof ttl, "%u", batch->ttl_s);
    static const char *const words[] = {"GET", "SET", "EXISTS", "UNLINK"};
    const char *argv[] = {words[batch->verb], key, (const char *)item->bytes, "EX", ttl};
    size_t sizes[] = {strlen(argv[0]), strlen(key), item->size_bytes, 2, strlen(ttl)};
    return cairn_redis_node_queue(node, batch->verb == VERB_PUT ? 5 : 2, argv, sizes, reterr);
}

/* Queue what is to be sent. ret_reused: some of it on connections that were open before. */
static cairn_status round_send(redis_batch *batch, uint64_t until_ns, bool *ret_reused, uint32_t *ret_sent,
                               cairn_error *reterr)
{
    redis_kv *redis = batch->redis;
    memset(batch->next, 0, sizeof batch->next);
    *ret_sent = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        cairn_kv_item *item = &batch->items[i];
        const char *asking[] = {"ASKING"};
        if (item->driver[0] == WAIT_NOTHING) {
            continue;
        }
        if (item->driver[0] != WAIT_ASKING) {
            char key[TAG_BYTES];
            key_text(item->key, key);
            item->driver[0] = WAIT_ANSWER;
            item->driver[1] = redis->cluster ? redis->map[cairn_redis_slot(key)] : redis->first;
        }
        cairn_redis_node *node = &redis->nodes[item->driver[1]];
        *ret_reused = *ret_reused || (node->link != NULL && node->awaited == 0);
        redis->kv.reconnects += node->link == NULL && node->used ? 1 : 0;
        cairn_status status = cairn_redis_node_open(node, &redis->login, until_ns, reterr);
        if (status == CAIRN_OK && item->driver[0] == WAIT_ASKING) {
            status = cairn_redis_node_queue(node, 1, asking, NULL, reterr);
        }
        if (status == CAIRN_OK) {
            status = item_send(batch, item, node, reterr);
        }
        if (status != CAIRN_OK) {
            return status;
        }
        (*ret_sent)++;
    }
    return CAIRN_OK;
}

/* After a failure no answer that is under way may be taken for another's. */
static void links_drop(redis_kv *redis)
{
    for (uint32_t i = 0; i < redis->count_nodes; i++) {
        if (redis->nodes[i].awaited > 0) {
            cairn_redis_node_close(&redis->nodes[i]);
        }
    }
}

static cairn_status rounds(redis_batch *batch, uint64_t until_ns, bool *ret_reused, cairn_error *reterr)
{
    redis_kv *redis = batch->redis;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        uint32_t sent = 0, broken = 0;
        cairn_status status = round_send(batch, until_ns, ret_reused, &sent, reterr);
        if (status == CAIRN_OK && sent > 0) {
            status = cairn_redis_nodes_exchange(redis->nodes, redis->count_nodes, &redis->login, until_ns,
                                                answer, batch, &broken, reterr);
        }
        if (status != CAIRN_OK || sent == 0) {
            return status;
        }
        *ret_reused = false;
        if (batch->status != CAIRN_OK) {
            return cairn_error_set(reterr, batch->status, where_ask, "%s", batch->why);
        }
        if (redis->map_stale) {
            map_refresh(redis, until_ns);
        }
    }
    return cairn_error_set(reterr, CAIRN_IO, where_ask, "sent from one server to the next without end");
}

// NOLINTNEXTLINE(readability-function-size): what one call is given
static cairn_status ask(cairn_kv *kv, redis_verb verb, cairn_kv_item *items, uint32_t count, uint32_t ttl_s,
                        uint64_t until_ns, cairn_error *reterr)
{
    redis_kv *redis = (redis_kv *)kv;
    redis_batch batch = {.redis = redis, .verb = verb, .items = items, .count = count, .ttl_s = ttl_s};
    for (uint32_t i = 0; i < count; i++) {
        items[i].driver[0] = WAIT_SEND;
        items[i].status = CAIRN_CANCELLED;
    }
    bool reused = false;
    cairn_status status = rounds(&batch, until_ns, &reused, reterr);
    if (status == CAIRN_IO && reused) { /* a connection that was closed while nobody looked: once more */
        links_drop(redis);
        for (uint32_t i = 0; i < count; i++) {
            items[i].driver[0] = items[i].driver[0] == WAIT_NOTHING ? WAIT_NOTHING : WAIT_SEND;
        }
        batch.status = CAIRN_OK;
        status = rounds(&batch, until_ns, &reused, reterr);
    }
    if (status != CAIRN_OK) {
        links_drop(redis);
        if (redis->cluster) { /* a server may be gone for good: the next one is asked for the map */
            redis->cluster = false;
            redis->first = (redis->first + 1) % redis->count_nodes;
        }
    }
    return status;
}

/* --- the table ------------------------------------------------------------------------------------------------ */

static cairn_status redis_get(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                              cairn_error *reterr)
{
    return ask(kv, VERB_GET, items, count, 0, until_ns, reterr);
}

static cairn_status redis_put(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint32_t ttl_s,
                              uint64_t until_ns, cairn_error *reterr)
{
    return ask(kv, VERB_PUT, items, count, ttl_s, until_ns, reterr);
}

static cairn_status redis_exists(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                                 cairn_error *reterr)
{
    return ask(kv, VERB_EXISTS, items, count, 0, until_ns, reterr);
}

static cairn_status redis_drop(cairn_kv *kv, cairn_kv_item *items, uint32_t count, uint64_t until_ns,
                               cairn_error *reterr)
{
    return ask(kv, VERB_DROP, items, count, 0, until_ns, reterr);
}

static void redis_close(cairn_kv *kv)
{
    redis_kv *redis = (redis_kv *)kv;
    for (uint32_t i = 0; i < redis->count_nodes; i++) {
        cairn_redis_node_close(&redis->nodes[i]);
    }
    memset(redis->password, 0, sizeof redis->password);
    cairn_mem_release(redis->mem, redis, sizeof *redis);
}

static const cairn_kv_ops redis_ops = {.name = "redis",
                                       .keys_max = CAIRN_KV_BATCH_MAX,
                                       .get = redis_get,
                                       .put = redis_put,
                                       .exists = redis_exists,
                                       .drop = redis_drop,
                                       .close = redis_close};

/* Copy a text that may be absent. False: too long. */
static bool text_copy(const char *text, char room[TEXT_BYTES], const char **ret_copy)
{
    *ret_copy = text != NULL ? room : NULL;
    return text == NULL || snprintf(room, TEXT_BYTES, "%s", text) < TEXT_BYTES;
}

cairn_status cairn_redis_open(const cairn_mem *mem, const cairn_redis_options *options, cairn_kv **ret_kv,
                              cairn_error *reterr)
{
    redis_kv *redis = cairn_mem_zalloc(mem, sizeof *redis);
    if (redis == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/redis: open", NULL);
    }
    redis->kv.ops = &redis_ops;
    redis->mem = mem;
    redis->login.database = options->database;
    redis->login.reply_bytes_max = REPLY_BYTES_MAX;
    redis->login.stop = &redis->kv.stop;
    redis->nodes[0] = (cairn_redis_node){.port = options->port, .flushed = true};
    redis->count_nodes = 1;
    bool fits =
        snprintf(redis->nodes[0].host, CAIRN_REDIS_HOST_BYTES, "%s", options->host) < CAIRN_REDIS_HOST_BYTES;
    fits = text_copy(options->user, redis->user, &redis->login.user) && fits;
    fits = text_copy(options->password, redis->password, &redis->login.password) && fits;
    if (!fits) {
        redis_close(&redis->kv);
        return cairn_error_set(reterr, CAIRN_INVALID, "store/redis: open", "a name is too long");
    }
    *ret_kv = &redis->kv;
    return CAIRN_OK;
}
