/*
 * tier_shared - the store as a whole: which driver, when it is left alone, what is counted. What is put and got lies in
 * shared_put.c and shared_get.c.
 */
#include "store/tier_shared.h"

#include <math.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "store/shared_url.h"
#include "store/tier_file.h"
#include "store/tier_shared_internal.h"
#ifdef CAIRN_HAVE_CURL
#include "store/tier_http.h"
#endif
#ifdef CAIRN_HAVE_REDIS
#include "store/tier_redis.h"
#endif

#define SECOND_NS      UINT64_C(1000000000)
#define REST_NS_MIN    (SECOND_NS / 2)
#define REST_NS_MAX    (60 * SECOND_NS)
#define SPEED_GUESS    0.25  /* bytes per ns until something was measured: a link of 2 Gbit/s              */
#define SPEED_MEMORY_S 300.0 /* in this time what was measured loses two thirds of its weight              */
#define SHARE_OF_LAST  0.3   /* of what was measured last, beside what was measured before                */
#define TRIP_MAX       0.75  /* of a load's time; beyond that the measured trip was not this one's         */

/* --- opening -------------------------------------------------------------------------------------------------- */

#ifdef CAIRN_HAVE_CURL
enum { BASE_BYTES = 2 * CAIRN_SHARED_URL_BYTES };

static cairn_status http_open(cairn_shared *shared, const cairn_shared_url *url, cairn_kv **ret_kv,
                              cairn_error *reterr)
{
    char base[BASE_BYTES], port[16] = "";
    bool colons = strchr(url->host, ':') != NULL; /* IPv6 */
    if (url->port != 0) {
        (void)snprintf(port, sizeof port, ":%d", url->port);
    }
    (void)snprintf(base, sizeof base, "%s://%s%.500s%s%s%s%.1000s",
                   url->scheme == CAIRN_SHARED_HTTP ? "http" : "https", colons ? "[" : "", url->host,
                   colons ? "]" : "", port, url->path[0] != '\0' ? "/" : "", url->path);
    cairn_http_options http = {
        .base = base, .user = url->user[0] != '\0' ? url->user : NULL, .password = url->password};
    return cairn_http_open(shared->mem, &http, ret_kv, reterr);
}

/* Buckets are named in the path: every store of this kind understands that. */
static cairn_status s3_open(cairn_shared *shared, const cairn_shared_url *url,
                            const cairn_shared_options *options, cairn_kv **ret_kv, cairn_error *reterr)
{
    char base[BASE_BYTES], amazon[128];
    const char *region = url->region[0] != '\0'       ? url->region
                         : options->s3_region != NULL ? options->s3_region
                                                      : "us-east-1";
    if (options->s3_id == NULL || options->s3_secret == NULL) {
        return cairn_error_set(reterr, CAIRN_INVALID, "shared store",
                               "s3:// takes its key from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    }
    (void)snprintf(amazon, sizeof amazon, "https://s3.%.64s.amazonaws.com", region);
    (void)snprintf(base, sizeof base, "%.1000s/%.500s%s%.500s",
                   url->endpoint[0] != '\0' ? url->endpoint : amazon, url->host,
                   url->path[0] != '\0' ? "/" : "", url->path);
    cairn_http_options http = {.base = base,
                               .user = options->s3_id,
                               .password = options->s3_secret,
                               .sign = region,
                               .token = options->s3_token};
    return cairn_http_open(shared->mem, &http, ret_kv, reterr);
}
#endif

/* One connection's driver. */
static cairn_status driver_open(cairn_shared *shared, const cairn_shared_url *url,
                                const cairn_shared_options *options, cairn_kv **ret_kv, cairn_error *reterr)
{
#ifdef CAIRN_HAVE_REDIS
    if (url->scheme == CAIRN_SHARED_REDIS) {
        cairn_redis_options redis = {.host = url->host,
                                     .port = url->port != 0 ? url->port : 6379,
                                     .user = url->user[0] != '\0' ? url->user : NULL,
                                     .password = url->password[0] != '\0' ? url->password : NULL,
                                     .database = url->database};
        return cairn_redis_open(shared->mem, &redis, ret_kv, reterr);
    }
#endif
#ifdef CAIRN_HAVE_CURL
    if (url->scheme == CAIRN_SHARED_HTTP || url->scheme == CAIRN_SHARED_HTTPS) {
        return http_open(shared, url, ret_kv, reterr);
    }
    if (url->scheme == CAIRN_SHARED_S3) {
        return s3_open(shared, url, options, ret_kv, reterr);
    }
#endif
    if (url->scheme == CAIRN_SHARED_FILE) {
        cairn_file_options files = {.dir = url->path, .bytes_max = options->bytes_max};
        return cairn_file_store_open(shared->mem, cairn_io_posix(), &files, ret_kv, reterr);
    }
    return cairn_error_set(
        reterr, CAIRN_UNSUPPORTED, "store/shared: open",
        "this build has no driver for such a URL (redis:// needs hiredis, http and s3 need libcurl)");
}

/* The largest piece of a blob of so many bytes, encrypted. */
static uint64_t piece_room(uint64_t blob_bytes_max)
{
    uint64_t plain = blob_bytes_max < CAIRN_BLOB_PIECE_BYTES ? blob_bytes_max : CAIRN_BLOB_PIECE_BYTES;
    return plain + CAIRN_BLOB_TAG_BYTES;
}

uint64_t cairn_shared_room_bytes(uint64_t blob_bytes_max)
{
    return (CAIRN_SHARED_READERS * SHARED_SEALED_IN + SHARED_SEALED_OUT) * piece_room(blob_bytes_max);
}

static bool rooms_new(cairn_shared *shared, const cairn_shared_options *options)
{
    shared->room_mem = options->room_mem;
    shared->piece_room = piece_room(options->blob_bytes_max);
    shared->sealed = cairn_mem_array(shared->room_mem, SHARED_SEALED_OUT, shared->piece_room);
    bool fine = shared->sealed != NULL;
    for (int i = 0; i < CAIRN_SHARED_READERS && fine; i++) {
        shared->readers[i].sealed = cairn_mem_array(shared->room_mem, SHARED_SEALED_IN, shared->piece_room);
        fine = shared->readers[i].sealed != NULL;
    }
    return fine;
}

static void rooms_release(cairn_shared *shared)
{
    for (int i = 0; i < CAIRN_SHARED_READERS && shared->encrypted; i++) {
        cairn_mem_array_release(shared->room_mem, shared->readers[i].sealed, SHARED_SEALED_IN,
                                shared->piece_room);
    }
    if (shared->encrypted) {
        cairn_mem_array_release(shared->room_mem, shared->sealed, SHARED_SEALED_OUT, shared->piece_room);
    }
}

cairn_status cairn_shared_open(const cairn_mem *mem, const cairn_shared_options *options,
                               cairn_shared **ret_shared, cairn_error *reterr)
{
    cairn_shared_url url;
    cairn_status status = cairn_shared_url_parse(options->url, &url, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    cairn_shared *shared = cairn_mem_zalloc(mem, sizeof *shared);
    if (shared == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/shared: open", NULL);
    }
    shared->mem = mem;
    shared->ttl_s = options->ttl_s;
    memcpy(shared->fingerprint, options->fingerprint, sizeof shared->fingerprint);
    if (options->key != NULL) {
        memcpy(shared->key, options->key, sizeof shared->key);
        shared->encrypted = true;
    }
    cairn_lock_init(&shared->lock);
    status = driver_open(shared, &url, options, &shared->writer, reterr);
    for (int i = 0; i < CAIRN_SHARED_READERS && status == CAIRN_OK; i++) {
        shared->readers[i].shared = shared;
        status = driver_open(shared, &url, options, &shared->readers[i].kv, reterr);
    }
    OPENSSL_cleanse(&url, sizeof url);
    if (status == CAIRN_OK && shared->encrypted && !rooms_new(shared, options)) {
        status = cairn_error_set(reterr, CAIRN_NOMEM, "store/shared: open", NULL);
    }
    if (status != CAIRN_OK) {
        cairn_shared_close(shared);
        return status;
    }
    *ret_shared = shared;
    return CAIRN_OK;
}

static void driver_close(cairn_kv *kv)
{
    if (kv != NULL) {
        kv->ops->close(kv);
    }
}

void cairn_shared_close(cairn_shared *shared)
{
    if (shared == NULL) {
        return;
    }
    driver_close(shared->writer);
    for (int i = 0; i < CAIRN_SHARED_READERS; i++) {
        driver_close(shared->readers[i].kv);
    }
    rooms_release(shared);
    OPENSSL_cleanse(shared->key, sizeof shared->key);
    (void)pthread_mutex_destroy(&shared->lock);
    cairn_mem_release(shared->mem, shared, sizeof *shared);
}

void cairn_shared_stop(cairn_shared *shared)
{
    atomic_store(&shared->writer->stop, true);
    for (int i = 0; i < CAIRN_SHARED_READERS; i++) {
        atomic_store(&shared->readers[i].kv->stop, true);
    }
}

const uint8_t *cairn_shared_key(const cairn_shared *shared)
{
    return shared->encrypted ? shared->key : NULL;
}

cairn_status cairn_shared_space_get(const cairn_shared *shared, const cairn_namespace *space,
                                    cairn_shared_space *ret_space, cairn_error *reterr)
{
    memcpy(ret_space->fingerprint, shared->fingerprint, sizeof ret_space->fingerprint);
    return cairn_blob_space(space, cairn_shared_key(shared), &ret_space->shown, &ret_space->root, reterr);
}

/* --- leaving it alone ----------------------------------------------------------------------------------------- */

cairn_status cairn_shared_enter(cairn_shared *shared, uint64_t *ret_entry, cairn_error *reterr)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_status status = CAIRN_OK;
    cairn_lock(&shared->lock);
    if (shared->stats.broken > 0 && now_ns < shared->retry_ns) {
        shared->stats.refused_while_open++;
        status = CAIRN_BUSY;
    } else if (shared->stats.broken > 0) {
        shared->retry_ns = now_ns + SECOND_NS; /* one tries, others wait for what comes of it */
    }
    *ret_entry = shared->stats.failures;
    cairn_unlock(&shared->lock);
    return status == CAIRN_OK
               ? CAIRN_OK
               : cairn_error_set(reterr, status, "store/shared: ask", "left alone after a failure");
}

void cairn_shared_leave(cairn_shared *shared, const cairn_kv *kv, uint64_t entry, cairn_status status,
                        const cairn_error *error)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_lock(&shared->lock);
    if (status == CAIRN_OK) {
        shared->stats.broken = 0;
        shared->stats.reconnects = kv == shared->writer ? kv->reconnects : shared->stats.reconnects;
    } else if (status != CAIRN_NOMEM && status != CAIRN_BUSY) {
        if (shared->stats.failures == entry) { /* the first of those that were under way */
            uint32_t doublings = shared->stats.broken < 8 ? shared->stats.broken : 8;
            uint64_t rest_ns = REST_NS_MIN << doublings;
            shared->retry_ns = now_ns + (rest_ns < REST_NS_MAX ? rest_ns : REST_NS_MAX);
            shared->stats.broken++;
        }
        shared->stats.failures++;
        shared->stats.timeouts += status == CAIRN_TIMEOUT ? 1 : 0;
        shared->stats.last_error = *error;
    }
    cairn_unlock(&shared->lock);
}

/* --- counting ------------------------------------------------------------------------------------------------- */

void cairn_shared_count(cairn_shared *shared, uint64_t *counter, uint64_t by)
{
    cairn_lock(&shared->lock);
    *counter += by;
    cairn_unlock(&shared->lock);
}

void cairn_shared_trouble(cairn_shared *shared, uint64_t *counter, const cairn_error *error)
{
    cairn_lock(&shared->lock);
    *counter += 1;
    shared->stats.last_error = *error;
    cairn_unlock(&shared->lock);
}

void cairn_shared_saw_trip(cairn_shared *shared, uint64_t cost_ns)
{
    cairn_lock(&shared->lock);
    double share = shared->trip_ns > 0 ? SHARE_OF_LAST : 1.0;
    shared->trip_ns += ((double)cost_ns - shared->trip_ns) * share;
    cairn_unlock(&shared->lock);
}

/* Charge the time since the last change to the loads that were under way. The lock is held. */
static void busy_count(cairn_shared *shared, uint64_t now_ns)
{
    if (shared->loading > 0) {
        shared->busy_ns += (double)(now_ns - shared->busy_now_ns) / shared->loading;
    }
    shared->busy_now_ns = now_ns;
}

void cairn_shared_load_begin(cairn_shared *shared, cairn_shared_meter *ret_meter)
{
    cairn_lock(&shared->lock);
    ret_meter->begin_ns = cairn_clock_now_ns(cairn_clock_system());
    busy_count(shared, ret_meter->begin_ns);
    ret_meter->busy_ns = shared->busy_ns;
    uint32_t loading = ++shared->loading, most = shared->stats.loads_at_once;
    shared->stats.loads_at_once = loading > most ? loading : most;
    cairn_unlock(&shared->lock);
}

void cairn_shared_load_end(cairn_shared *shared, const cairn_shared_meter *meter, uint64_t bytes, bool whole)
{
    cairn_lock(&shared->lock);
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    busy_count(shared, now_ns);
    shared->loading--;
    double cost_ns = (double)(now_ns - meter->begin_ns), charged_ns = shared->busy_ns - meter->busy_ns;
    if (charged_ns > 0 && bytes > 0) {
        double trip = shared->trip_ns / cost_ns; /* that part of it was waiting, not the line's speed */
        charged_ns *= 1.0 - (trip < TRIP_MAX ? trip : TRIP_MAX);
        double share = shared->speed > 0 ? SHARE_OF_LAST : 1.0;
        shared->speed += ((double)bytes / charged_ns - shared->speed) * share;
        shared->speed_ns = now_ns;
    }
    if (whole) {
        shared->stats.loads++;
        shared->stats.loaded_bytes += bytes;
    }
    cairn_unlock(&shared->lock);
}

double cairn_shared_speed(cairn_shared *shared)
{
    uint64_t now_ns = cairn_clock_now_ns(cairn_clock_system());
    cairn_lock(&shared->lock);
    double speed = SPEED_GUESS;
    if (shared->speed > 0) {
        double weight = exp(-(double)(now_ns - shared->speed_ns) * 1e-9 / SPEED_MEMORY_S);
        speed = shared->speed * weight + SPEED_GUESS * (1.0 - weight);
    }
    cairn_unlock(&shared->lock);
    return speed;
}

uint32_t cairn_shared_keys_max(const cairn_shared *shared)
{
    return shared->writer->ops->keys_max;
}

cairn_shared_reader *cairn_shared_reader_get(cairn_shared *shared, uint32_t index)
{
    CAIRN_ASSERT(index < CAIRN_SHARED_READERS);
    return &shared->readers[index];
}

static double trip_get(cairn_shared *shared)
{
    cairn_lock(&shared->lock);
    double trip_ns = shared->trip_ns;
    cairn_unlock(&shared->lock);
    return trip_ns;
}

uint32_t cairn_shared_at_once(cairn_shared *shared, uint64_t blob_bytes)
{
    double line_ns = (double)blob_bytes / cairn_shared_speed(shared);
    return trip_get(shared) >= line_ns / 2 ? CAIRN_SHARED_READERS : 1;
}

uint64_t cairn_shared_expected_ns(cairn_shared *shared, uint64_t bytes, uint32_t count)
{
    uint32_t at_once = cairn_shared_at_once(shared, count > 0 ? bytes / count : 0);
    uint32_t rounds = (count + at_once - 1) / at_once;
    return (uint64_t)((double)bytes / cairn_shared_speed(shared) + rounds * trip_get(shared));
}

void cairn_shared_stats_get(cairn_shared *shared, cairn_shared_stats *ret_stats)
{
    cairn_lock(&shared->lock);
    *ret_stats = shared->stats;
    cairn_unlock(&shared->lock);
}

void cairn_shared_part_of(const cairn_shared_space *space, const cairn_blob_meta *meta,
                          cairn_shared_part *ret_part)
{
    cairn_blob_meta named = *meta;
    memcpy(named.fingerprint, space->fingerprint, sizeof named.fingerprint);
    named.space = space->shown;
    cairn_blob_name(&named, ret_part->name);
    ret_part->begin = meta->begin;
    ret_part->end = meta->end;
    ret_part->payload_bytes = meta->payload_bytes;
}
