/*
 * The shared tier over each of its drivers: blobs of many pieces, points, encryption, damage, and the format's bytes.
 */
#include <time.h>
#include <utime.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/rng.h"
#include "store/server_support.h"
#include "store/shared_url.h"
#include "store/tier_file.h"
#include "store/tier_shared_internal.h"

#define SECOND_NS UINT64_C(1000000000)

enum { PAYLOAD = (9 << 20) + 77, TOKENS = 1000 };

static uint64_t soon(void)
{
    return cairn_clock_now_ns(cairn_clock_system()) + 30 * SECOND_NS;
}

static const uint8_t key[32] = {9, 8, 7}, other_key[32] = {9, 8, 6};

static cairn_shared *tier_open(const char *url, const uint8_t *with_key)
{
    cairn_shared *shared = NULL;
    cairn_error error = {0};
    cairn_shared_options options = {.url = url,
                                    .key = with_key,
                                    .ttl_s = 600,
                                    .s3_id = "AKIDEXAMPLE",
                                    .s3_secret = "secret/key",
                                    .s3_region = "eu-central-1",
                                    .room_mem = cairn_mem_default(),
                                    .blob_bytes_max = PAYLOAD};
    options.fingerprint[0] = 1;
    if (cairn_shared_open(cairn_mem_default(), &options, &shared, &error) != CAIRN_OK) {
        fail_msg("%s: %s", url, error.detail);
    }
    return shared;
}

/* A path, a state at its end and a block of rows before it. */
typedef struct sample {
    cairn_namespace space;
    cairn_shared_space names;
    cairn_token tokens[TOKENS];
    cairn_blob_meta state, rows;
    cairn_blob_run run;
    uint8_t (*marks)[CAIRN_BLOB_MARK_BYTES];
    uint8_t *payload;
    cairn_shared_part parts[2];
    cairn_shared_point point;
    char point_key[CAIRN_KV_KEY_BYTES];
} sample;

static void sample_make(sample *s, const cairn_shared *shared)
{
    uint32_t zero = 0, end = TOKENS;
    memset(s, 0, sizeof *s);
    s->space.bytes[2] = 5;
    assert_ok(cairn_shared_space_get(shared, &s->space, &s->names, NULL));
    for (int i = 0; i < TOKENS; i++) {
        s->tokens[i] = i * 7 % 1000;
    }
    cairn_path_digest begin_digest, end_digest;
    assert_ok(cairn_path_digests(&s->names.root, s->tokens, TOKENS, &zero, 1, &begin_digest, NULL));
    assert_ok(cairn_path_digests(&s->names.root, s->tokens, TOKENS, &end, 1, &end_digest, NULL));
    s->state = (cairn_blob_meta){.kind = CAIRN_BLOB_STATE,
                                 .begin = TOKENS,
                                 .end = TOKENS,
                                 .cut_digest = 11,
                                 .payload_bytes = PAYLOAD,
                                 .path_begin = end_digest,
                                 .path_end = end_digest};
    s->rows = (cairn_blob_meta){.kind = CAIRN_BLOB_ROWS,
                                .begin = 0,
                                .end = TOKENS,
                                .count_runs = 1,
                                .cut_digest = 11,
                                .payload_bytes = 1234,
                                .path_begin = begin_digest,
                                .path_end = end_digest};
    s->run = (cairn_blob_run){.rows_end = TOKENS, .cut = TOKENS, .digest = 11};
    s->marks = test_malloc((TOKENS - 1) * sizeof *s->marks);
    assert_ok(cairn_path_marks(&s->names.root, s->tokens, 0, TOKENS, s->marks, NULL));
    s->payload = test_malloc(PAYLOAD);
    cairn_rng rng;
    cairn_rng_init_stream(&rng, 3, 0);
    for (uint32_t i = 0; i < PAYLOAD; i++) {
        s->payload[i] = (uint8_t)cairn_rng_u64(&rng);
    }
    cairn_shared_part_of(&s->names, &s->state, &s->parts[0]);
    cairn_shared_part_of(&s->names, &s->rows, &s->parts[1]);
    s->point = (cairn_shared_point){
        .path = end_digest, .position = TOKENS, .cut_digest = 11, .count_parts = 2, .parts = s->parts};
    assert_ok(cairn_shared_point_key(&s->names, &end_digest, TOKENS, 0, s->point_key));
}

static void sample_release(sample *s)
{
    test_free(s->marks);
    test_free(s->payload);
}

static void sample_put(cairn_shared *shared, const sample *s)
{
    assert_ok(cairn_shared_put(shared, &s->names, &s->rows, (const uint8_t(*)[CAIRN_BLOB_MARK_BYTES])s->marks,
                               &s->run, s->payload, false, soon(), NULL));
    assert_ok(cairn_shared_put(shared, &s->names, &s->state, NULL, NULL, s->payload, false, soon(), NULL));
    assert_ok(cairn_shared_point_put(shared, &s->names, &s->point, soon(), NULL));
}

/* Find the point, read its heads and its blobs. Gives the first failure. */
static cairn_status sample_get(cairn_shared *shared, const sample *s)
{
    char keys[2][CAIRN_KV_KEY_BYTES];
    bool there[2];
    cairn_shared_part parts[4];
    cairn_shared_point point = {.parts = parts};
    cairn_shared_head heads[2];
    memcpy(keys[0], s->point_key, sizeof keys[0]);
    assert_ok(cairn_shared_point_key(&s->names, &s->point.path, TOKENS, 1, keys[1]));
    assert_ok(cairn_shared_ask(cairn_shared_reader_get(shared, 0), (const char(*)[CAIRN_KV_KEY_BYTES])keys, 2,
                               soon(), there, NULL));
    assert_false(there[1]);
    if (!there[0]) {
        return CAIRN_NOTFOUND;
    }
    cairn_status status = cairn_shared_point_get(cairn_shared_reader_get(shared, 0), &s->names, s->point_key,
                                                 4, soon(), &point, NULL);
    if (status != CAIRN_OK) {
        return status;
    }
    assert_int_equal(point.count_parts, 2);
    assert_string_equal(point.parts[0].name, s->parts[0].name);
    status = cairn_shared_heads_get(cairn_shared_reader_get(shared, 0), &s->names, point.parts, 2, soon(),
                                    heads, NULL);
    if (status != CAIRN_OK) {
        return status;
    }
    uint8_t *out = test_malloc(PAYLOAD);
    for (int i = 0; i < 2 && status == CAIRN_OK; i++) {
        memset(out, 0, PAYLOAD);
        status = cairn_shared_load(cairn_shared_reader_get(shared, 0), &heads[i], soon(), out, NULL);
        if (status == CAIRN_OK) {
            assert_memory_equal(out, s->payload, i == 0 ? PAYLOAD : 1234);
        }
    }
    assert_int_equal(heads[1].meta.count_runs, 1);
    cairn_shared_heads_release(shared, heads, 2);
    test_free(out);
    return status;
}

/* Everything that holds whichever driver is below. */
static void tier_keeps_blobs(const char *url)
{
    static const uint8_t *const keys[] = {NULL, key};
    for (int i = 0; i < 2; i++) {
        cairn_shared *writer = tier_open(url, keys[i]), *reader = tier_open(url, keys[i]);
        sample s;
        sample_make(&s, writer);
        assert_status(sample_get(reader, &s), CAIRN_NOTFOUND);
        sample_put(writer, &s);
        assert_ok(sample_get(reader, &s));
        sample_put(writer, &s); /* heads are there: only the point goes out again */
        cairn_shared_stats stats;
        cairn_shared_stats_get(writer, &stats);
        assert_int_equal(stats.puts, 2);
        assert_int_equal(stats.puts_known, 2);
        cairn_shared_stats_get(reader, &stats);
        assert_true(stats.loads == 2 && stats.damaged == 0 && stats.failures == 0);
        assert_true(cairn_shared_speed(reader) > 0);

        /* Without the key, or with another, not even names are the same. */
        cairn_shared *stranger = tier_open(url, i == 0 ? key : other_key);
        sample own;
        sample_make(&own, stranger);
        assert_string_not_equal(own.point_key, s.point_key);
        assert_status(sample_get(stranger, &own), CAIRN_NOTFOUND);
        /* Even who has learned the names reads nothing. */
        sample stolen = s;
        memcpy(stolen.point_key, s.point_key, sizeof stolen.point_key);
        assert_status(sample_get(stranger, &stolen), CAIRN_CORRUPT);
        assert_status(sample_get(reader, &s),
                      CAIRN_NOTFOUND); /* for the stranger it was damage, and it removed that */
        sample_release(&own);
        sample_release(&s);
        cairn_shared_close(stranger);
        cairn_shared_close(writer);
        cairn_shared_close(reader);
    }
}

static void redis_keeps_blobs(void **state)
{
    (void)state;
    server s;
    redis_start(&s, NULL);
    tier_keeps_blobs(redis_url(&s));
    server_end(&s);
}

static void nginx_keeps_blobs(void **state)
{
    (void)state;
    char url[128];
    server s;
    nginx_start(&s);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/store/a/b", s.port);
    tier_keeps_blobs(url);
    server_end(&s);
}

static void s3_keeps_blobs(void **state)
{
    (void)state;
    char url[128];
    server s;
    s3_start(&s, "AKIDEXAMPLE", "secret/key", "eu-central-1");
    (void)snprintf(url, sizeof url, "s3://bucket/some/prefix?endpoint=http://127.0.0.1:%d", s.port);
    tier_keeps_blobs(url);
    server_end(&s);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void directory_keeps_blobs_and_forgets_what_is_old_or_too_much(void **state)
{
    (void)state;
    char url[640], path[600];
    server s; /* only its folder */
    server_init(&s, "file");
    (void)snprintf(path, sizeof path, "%s/new/shared", s.dir);
    (void)snprintf(url, sizeof url, "file://%s", path);
    tier_keeps_blobs(url);

    cairn_kv *kv = NULL;
    cairn_file_options options = {.dir = path, .bytes_max = 300};
    static uint8_t bytes[100];
    cairn_kv_item items[5] = {0};
    for (int i = 0; i < 5; i++) {
        (void)snprintf(items[i].key, sizeof items[i].key, "%064d/h", i);
        items[i].bytes = bytes;
        items[i].size_bytes = items[i].room_bytes = sizeof bytes;
    }
    assert_ok(cairn_file_store_open(cairn_mem_default(), cairn_io_posix(), &options, &kv, NULL));
    assert_ok(kv->ops->put(kv, items, 5, 600, soon(), NULL));
    for (int i = 0; i < 5; i++) { /* the last is the youngest */
        char file[800];
        (void)snprintf(file, sizeof file, "%s/00/%064d.h", path, i);
        struct utimbuf times = {.modtime = time(NULL) - 500 + 100 * i};
        assert_int_equal(utime(file, &times), 0);
    }
    assert_ok(cairn_file_store_sweep(kv, 600, NULL));
    assert_ok(kv->ops->exists(kv, items, 5, soon(), NULL));
    for (int i = 0; i < 5; i++) {
        assert_status(items[i].status, i < 2 ? CAIRN_NOTFOUND : CAIRN_OK);
    }
    assert_ok(cairn_file_store_sweep(kv, 150, NULL)); /* now all but the last are too old */
    assert_ok(kv->ops->exists(kv, items, 5, soon(), NULL));
    assert_status(items[3].status, CAIRN_NOTFOUND);
    assert_ok(items[4].status);
    assert_ok(kv->ops->get(kv, items, 5, soon(), NULL));
    assert_status(items[0].status, CAIRN_NOTFOUND);
    assert_ok(items[4].status);
    kv->ops->close(kv);

    /* Removed while it is used: made again by who writes next. */
    cairn_shared *tier = tier_open(url, NULL);
    sample one;
    sample_make(&one, tier);
    sample_put(tier, &one);
    server_end(&s);
    assert_status(sample_get(tier, &one), CAIRN_NOTFOUND);
    sample_put(tier, &one);
    assert_ok(sample_get(tier, &one));
    sample_release(&one);
    cairn_shared_close(tier);
    server_end(&s);
}

/* Each value in turn, at several places: one bit of it is wrong. */
static void flipped_bit_is_found_wherever_it_is(void **state)
{
    (void)state;
    enum { VALUES = 7, PLACES = 4 }; /* a point, two heads, three pieces and one */
    static const uint8_t *const keys[] = {NULL, key};
    for (int i = 0; i < 2; i++) {
        server store;
        redis_start(&store, NULL);
        cairn_shared *tier = tier_open(redis_url(&store), keys[i]);
        sample s;
        sample_make(&s, tier);
        for (uint32_t n = 0; n < VALUES * PLACES; n++) {
            redis_names names;
            redis_do(&store, "FLUSHALL");
            sample_put(tier, &s);
            redis_names_get(&store, &names);
            assert_int_equal(names.count, VALUES);
            qsort(names.keys, names.count, sizeof *names.keys, by_name);
            const char *name = names.keys[n % VALUES];
            redis_value value = redis_value_get(&store, name);
            size_t at = (value.count - 1) * (n / VALUES) / (PLACES - 1); /* the first byte to the last */
            value.bytes[at] ^= (uint8_t)(1u << n % 8);
            redis_value_set(&store, name, &value);
            cairn_status got = sample_get(tier, &s);
            assert_true(got == CAIRN_CORRUPT || got == CAIRN_UNSUPPORTED);
            redis_value_release(&value);
            redis_names_release(&names);
        }
        sample_release(&s);
        cairn_shared_close(tier);
        server_end(&store);
    }
}

static void points_are_read_as_they_were_written_and_never_otherwise(void **state)
{
    (void)state;
    cairn_shared *tier = tier_open("redis://127.0.0.1:1", key);
    sample s;
    sample_make(&s, tier);
    size_t count = cairn_shared_point_bytes(2);
    uint8_t *bytes = test_malloc(count), *changed = test_malloc(count);
    assert_ok(cairn_shared_point_write(&s.names, key, &s.point, bytes));
    cairn_shared_part parts[2];
    cairn_shared_point back = {.parts = parts};
    assert_ok(cairn_shared_point_read(&s.names, key, bytes, count, 2, &back, NULL));
    assert_true(back.position == TOKENS && back.count_parts == 2 && back.cut_digest == 11);
    assert_string_equal(back.parts[1].name, s.parts[1].name);
    for (size_t i = 0; i < count; i++) {
        memcpy(changed, bytes, count);
        changed[i] ^= 1;
        assert_true(cairn_shared_point_read(&s.names, key, changed, count, 2, &back, NULL) != CAIRN_OK);
        assert_true(cairn_shared_point_read(&s.names, key, bytes, i, 2, &back, NULL) != CAIRN_OK);
    }
    back.parts = parts;
    assert_status(cairn_shared_point_read(&s.names, key, bytes, count, 1, &back, NULL), CAIRN_LIMIT);
    assert_status(cairn_shared_point_read(&s.names, other_key, bytes, count, 2, &back, NULL), CAIRN_CORRUPT);
    cairn_shared_space foreign = s.names;
    foreign.shown.bytes[0] ^= 1;
    assert_status(cairn_shared_point_read(&foreign, key, bytes, count, 2, &back, NULL), CAIRN_FOREIGN);
    /* The format's bytes, as docs/format/shared.md has them. */
    cairn_digest digest;
    s.point.created_s = 1700000000;
    assert_ok(cairn_shared_point_write(&s.names, key, &s.point, bytes));
    assert_ok(cairn_digest_of(bytes, count, &digest));
    char hex[CAIRN_DIGEST_HEX];
    cairn_digest_hex(&digest, hex);
    assert_string_equal(hex, "747729ab478a4e4a1d28cf4862b2e28af8771be695bc987444feb9e5aceda3a5");
    test_free(changed);
    test_free(bytes);
    sample_release(&s);
    cairn_shared_close(tier);
}

static void urls_are_taken_apart(void **state)
{
    (void)state;
    cairn_shared_url url;
    char text[256];
    assert_ok(cairn_shared_url_parse("redis://me:p%40ss%2f@[::1]:7000/3", &url, NULL));
    assert_string_equal(url.user, "me");
    assert_string_equal(url.password, "p@ss/");
    assert_string_equal(url.host, "::1");
    assert_true(url.port == 7000 && url.database == 3);
    assert_ok(cairn_shared_url_parse("redis://:only@host", &url, NULL));
    assert_string_equal(url.user, "");
    assert_string_equal(url.password, "only");
    assert_ok(cairn_shared_url_parse("https://host/a/b/", &url, NULL));
    assert_string_equal(url.path, "a/b");
    assert_ok(cairn_shared_url_parse("s3://bucket/p?endpoint=http://h:9000/&region=x-1", &url, NULL));
    assert_string_equal(url.host, "bucket");
    assert_string_equal(url.endpoint, "http://h:9000");
    assert_string_equal(url.region, "x-1");
    assert_ok(cairn_shared_url_parse("file:///srv/a%20b/", &url, NULL));
    assert_string_equal(url.path, "/srv/a b");
    assert_string_equal(cairn_shared_url_show("redis://me:secret@host:1/2?x", text, sizeof text),
                        "redis://host:1/2");
}

/* --- what is measured ------------------------------------------------------------------------------------------- */

static void loads_that_share_the_line_are_charged_the_time_that_passed_once(void **state)
{
    (void)state;
    cairn_shared *shared = tier_open("file:///nowhere", NULL);
    cairn_shared_meter first, second, third;
    double charged_ns = 0;
    cairn_shared_load_begin(shared, &first);
    cairn_shared_load_begin(shared, &second);
    cairn_shared_load_end(shared, &first, 1000, true);
    charged_ns += shared->busy_ns - first.busy_ns;
    cairn_shared_load_begin(shared, &third);
    cairn_shared_load_end(shared, &second, 1000, true);
    charged_ns += shared->busy_ns - second.busy_ns;
    cairn_shared_load_end(shared, &third, 0, false);
    charged_ns += shared->busy_ns - third.busy_ns;
    double passed_ns = (double)(shared->busy_now_ns - first.begin_ns);
    assert_true(charged_ns > passed_ns - 10 && charged_ns < passed_ns + 10);
    cairn_shared_stats stats;
    cairn_shared_stats_get(shared, &stats);
    assert_true(stats.loads == 2 && stats.loaded_bytes == 2000 && stats.loads_at_once == 2);
    cairn_shared_close(shared);
}

static void long_line_is_filled_by_several_loads_and_a_short_one_by_one(void **state)
{
    (void)state;
    cairn_shared *shared = tier_open("file:///nowhere", NULL);
    shared->speed = 0.1; /* 100 MB/s: 6 MB in 60 ms */
    shared->speed_ns = cairn_clock_now_ns(cairn_clock_system());
    const struct {
        uint32_t trip_ms, at_once, blobs;
        double expected_ms;
    } cases[] = {{0, 1, 64, 3840}, {20, 1, 64, 5120}, {40, 4, 64, 4480}, {40, 4, 5, 380}, {40, 4, 1, 100}};
    const uint64_t blob_bytes = 6000000;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shared->trip_ns = cases[i].trip_ms * 1e6;
        assert_int_equal(cairn_shared_at_once(shared, blob_bytes), cases[i].at_once);
        double ms =
            (double)cairn_shared_expected_ns(shared, cases[i].blobs * blob_bytes, cases[i].blobs) * 1e-6;
        assert_true(ms > 0.85 * cases[i].expected_ms && ms < 1.05 * cases[i].expected_ms);
    }
    cairn_shared_close(shared);
}

static void failures_of_calls_under_way_together_are_one_reason_to_rest(void **state)
{
    (void)state;
    cairn_shared *shared = tier_open("file:///nowhere", NULL);
    cairn_error error = {.status = CAIRN_IO};
    uint64_t entries[3], later = 0;
    for (int i = 0; i < 3; i++) {
        assert_ok(cairn_shared_enter(shared, &entries[i], NULL));
    }
    for (int i = 0; i < 3; i++) {
        cairn_shared_leave(shared, shared->readers[i].kv, entries[i], CAIRN_IO, &error);
    }
    assert_true(shared->stats.broken == 1 && shared->stats.failures == 3);
    assert_status(cairn_shared_enter(shared, &later, NULL), CAIRN_BUSY);
    uint64_t first_ns = shared->retry_ns;
    shared->retry_ns = 0; /* the rest is over: one tries, and fails again */
    assert_ok(cairn_shared_enter(shared, &later, NULL));
    cairn_shared_leave(shared, shared->readers[0].kv, later, CAIRN_IO, &error);
    assert_true(shared->stats.broken == 2 && shared->retry_ns > first_ns);
    cairn_shared_close(shared);
}

int main(void)
{
    (void)setenv("no_proxy", "127.0.0.1", 1); /* whatever the machine's settings are */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(points_are_read_as_they_were_written_and_never_otherwise),
        cmocka_unit_test(redis_keeps_blobs),
        cmocka_unit_test(nginx_keeps_blobs),
        cmocka_unit_test(s3_keeps_blobs),
        cmocka_unit_test(directory_keeps_blobs_and_forgets_what_is_old_or_too_much),
        cmocka_unit_test(flipped_bit_is_found_wherever_it_is),
        cmocka_unit_test(loads_that_share_the_line_are_charged_the_time_that_passed_once),
        cmocka_unit_test(long_line_is_filled_by_several_loads_and_a_short_one_by_one),
        cmocka_unit_test(failures_of_calls_under_way_together_are_one_reason_to_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
