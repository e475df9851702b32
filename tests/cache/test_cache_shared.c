#define _GNU_SOURCE /* memmem */
/*
 * Two servers and one store: what one has read the other resumes, exactly, and nobody else does. What goes wrong with a store:
 * test_cache_shared_faults.
 */
#include "base/clock.h"
#include "shared_support.h"
#include "store/tier_shared_internal.h"

static void conversation_read_on_one_server_is_resumed_on_the_other(void **state)
{
    (void)state;
    for (int mode = CAIRN_RESUME_FAST; mode <= CAIRN_RESUME_EXACT; mode++) {
        pair p;
        outcome o;
        pair_init(&p, NULL);
        p.a.w.replica.cut_sensitive = p.b.w.replica.cut_sensitive = mode == CAIRN_RESUME_EXACT;
        pair_open(&p);
        pair_talk(&p, (cairn_resume_mode)mode);
        turn(&p.b.w, &p.t, (cairn_resume_mode)mode, 20, &o); /* compares with a cold run, bit for bit */
        assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
        assert_true(o.record.resume + 8 >= p.read);
        cairn_cache_shared_stats stats = shared_stats(&p.b);
        assert_true(stats.found == 1 && stats.fetched > 0 && stats.fetch_failures == 0 &&
                    stats.failures == 0);

        /* And back again, without sending what the store has. */
        uint64_t fetched = stats.fetched;
        shared_send_all(&p.b);
        stats = shared_stats(&p.b);
        assert_true(stats.sent <= 5);
        uint32_t before = o.record.prompt_tokens;
        talk_add(&p.t, CAIRN_ROLE_USER, 10, 100);
        turn(&p.a.w, &p.t, (cairn_resume_mode)mode, 20, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
        assert_true(o.record.resume + 8 >= before);
        assert_true(shared_stats(&p.a).fetched < fetched); /* most of the rows were there */
        pair_close(&p);
    }
}

/* The same over each other kind of store. */
static void every_kind_of_store_is_resumed_from(void **state)
{
    (void)state;
    (void)setenv("no_proxy", "127.0.0.1", 1); /* whatever the machine's settings are */
    for (int kind = 0; kind < 4; kind++) {
        pair p;
        outcome o;
        server nodes[3];
        memset(&p, 0, sizeof p);
        if (kind == 0) {
            nginx_start(&p.store);
        } else if (kind == 1) {
            s3_start(&p.store, "AKIDEXAMPLE", "secret", "eu-central-1");
        } else if (kind == 2) {
            server_init(&p.store, "shared");
        } else {
            redis_cluster_start(nodes);
            p.store = nodes[0];
        }
        shared_world *both[] = {&p.a, &p.b};
        for (int i = 0; i < 2; i++) {
            shared_world *s = both[i];
            shared_init(s, &p.store);
            if (kind == 2) {
                (void)snprintf(s->url, sizeof s->url, "file://%.200s", p.store.dir);
            } else if (kind < 2) {
                (void)snprintf(s->url, sizeof s->url,
                               kind == 0 ? "http://127.0.0.1:%d/store"
                                         : "s3://bucket?endpoint=http://127.0.0.1:%d",
                               p.store.port);
            }
            s->shared.s3_id = "AKIDEXAMPLE";
            s->shared.s3_secret = "secret";
            s->shared.s3_region = "eu-central-1";
            shared_open(s);
        }
        pair_talk(&p, CAIRN_RESUME_EXACT);
        turn(&p.b.w, &p.t, CAIRN_RESUME_EXACT, 10, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
        assert_true(o.record.resume + 8 >= p.read);
        pair_close(&p);
        for (int i = 1; i < 3 && kind == 3; i++) {
            server_end(&nodes[i]);
        }
    }
}

/* --- who may use what ------------------------------------------------------------------------------------------- */

static void another_key_other_weights_and_other_namespaces_find_nothing(void **state)
{
    (void)state;
    static const uint8_t key[32] = {1, 2, 3}, wrong[32] = {1, 2, 4};
    for (int kind = 0; kind < 3; kind++) {
        pair p;
        outcome o;
        pair_init(&p, NULL);
        p.a.shared.key = kind == 0 ? key : NULL;
        p.b.shared.key = kind == 0 ? wrong : NULL;
        p.b.w.replica.seed += kind == 1 ? 1 : 0;
        pair_open(&p);
        pair_talk(&p, CAIRN_RESUME_EXACT);
        rendered r;
        render(&r, &p.t, CAIRN_RESUME_EXACT);
        r.prompt.space.bytes[3] = kind == 2 ? 1 : 0;
        ask_and_compare(&p.b.w, &r, 3, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_NONE);
        assert_int_equal(o.record.divergence, 0);
        assert_true(shared_stats(&p.b).asked == 1 && shared_stats(&p.b).found == 0);
        rendered_release(&r);
        pair_close(&p);
    }
}

static void encrypted_blobs_are_shared_by_those_who_have_the_key(void **state)
{
    (void)state;
    static const uint8_t key[32] = {1, 2, 3};
    pair p;
    outcome o;
    pair_init(&p, NULL);
    p.a.shared.key = p.b.shared.key = key;
    pair_open(&p);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_SHARED);
    pair_close(&p);
}

/*
 * A tenant must not learn whether another has sent the same prompt: what is asked of the store and what it answers is
 * the same in number and size, whether that prompt is there under another's name or not at all.
 */
static void equal_prompt_of_another_namespace_takes_the_path_of_an_unknown_one(void **state)
{
    (void)state;
    pair p;
    outcome o;
    proxy line; /* counts what comes back, to the byte */
    pair_init(&p, NULL);
    proxy_start(&line, p.store.port, UINT64_MAX);
    pair_open(&p);
    pair_talk(&p, CAIRN_RESUME_FAST);
    uint64_t commands[2], sent[2], received[2];
    for (int unknown = 0; unknown < 2; unknown++) {
        shared_world fresh; /* a server without a history of its own */
        shared_init(&fresh, &p.store);
        (void)snprintf(fresh.url, sizeof fresh.url, "redis://127.0.0.1:%d", line.port);
        shared_open(&fresh);
        rendered r;
        render(&r, &p.t, CAIRN_RESUME_FAST);
        r.prompt.space.bytes[5] = 7;
        for (uint32_t i = 0; i < r.prompt.count && unknown == 1; i++) {
            r.tokens[i] = (r.tokens[i] + 1) % 60; /* the same lengths, other words */
        }
        redis_traffic before = redis_traffic_get(&p.store);
        uint64_t passed = atomic_load(&line.passed_bytes);
        ask(&fresh.w, &r, 0, &o);
        shared_send_all(&fresh); /* what it sends counts, too */
        redis_traffic after = redis_traffic_get(&p.store);
        commands[unknown] = after.commands - before.commands;
        received[unknown] = after.received_bytes - before.received_bytes;
        sent[unknown] = atomic_load(&line.passed_bytes) - passed;
        assert_int_equal(o.record.resume, 0);
        rendered_release(&r);
        world_close(&fresh.w);
    }
    assert_true(commands[0] > 10);
    assert_int_equal(commands[0], commands[1]);
    assert_int_equal(received[0], received[1]);
    assert_int_equal(sent[0], sent[1]);
    pair_close(&p);
    proxy_end(&line);
}

/* Keys and sizes in the store don't depend on what was said, only on how long it was. */
static void keys_and_sizes_show_no_token(void **state)
{
    (void)state;
    uint64_t sizes[2] = {0, 0}, counts[2] = {0, 0};
    for (int other = 0; other < 2; other++) {
        server store;
        shared_world a;
        outcome o;
        talk t;
        redis_start(&store, NULL);
        shared_init(&a, &store);
        shared_open(&a);
        talk_long(&t, other == 0 ? 1 : 100);
        rendered r;
        render(&r, &t, CAIRN_RESUME_EXACT);
        ask(&a.w, &r, 0, &o);
        shared_send_all(&a);
        redis_names names;
        redis_names_get(&store, &names);
        for (uint32_t i = 0; i < names.count; i++) {
            redis_value value = redis_value_get(&store, names.keys[i]);
            sizes[other] += value.count * (value.count + 1);
            counts[other]++;
            /* Neither a key nor, where it is readable, a head or a point holds eight tokens in a row. */
            if (strstr(names.keys[i], ":h") != NULL || strstr(names.keys[i], ":p") != NULL) {
                for (uint32_t at = 0; at + 8 < r.prompt.count; at += 8) {
                    assert_null(memmem(value.bytes, value.count, &r.tokens[at], 8 * sizeof(cairn_token)));
                }
            }
            redis_value_release(&value);
        }
        redis_names_release(&names);
        rendered_release(&r);
        talk_release(&t);
        world_close(&a.w);
        server_end(&store);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_int_equal(sizes[0], sizes[1]);
}

/* --- choices ---------------------------------------------------------------------------------------------------- */

/* Step a request to its end; after each step the sender may do what it has to, but there is no idle moment. */
static void ask_while_sending(shared_world *s, const rendered *r)
{
    cairn_request *request;
    cairn_error error = {0};
    assert_ok(cairn_cache_begin(s->w.cache, &r->prompt, &request, &error));
    while (cairn_request_phase(request) != CAIRN_PHASE_READY) {
        assert_ok(cairn_cache_step(s->w.cache, &request, 1, &error));
        while (cairn_sharer_sending(s->w.cache->sharer)) {
            cairn_sharer_wait(s->w.cache->sharer, cairn_clock_now_ns(cairn_clock_system()) + SECOND_NS / 100);
            cairn_sharer_settle(s->w.cache->sharer);
        }
        world_check(&s->w);
    }
    cairn_cache_end(s->w.cache, request, CAIRN_END_DONE);
    cairn_request_free(request);
}

/* One slot, conversation after conversation, never a pause: each is in the store when the next has taken its place. */
static void server_that_is_never_idle_shares_all_the_same(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_init(&p, NULL);
    pair_open(&p);
    talk talks[3];
    rendered r;
    for (uint32_t i = 0; i < 3; i++) {
        talk_long(&talks[i], 10 * i + 1);
        render(&r, &talks[i], CAIRN_RESUME_EXACT);
        ask_while_sending(&p.a, &r);
        rendered_release(&r);
    }
    cairn_request *next; /* the next request comes, and what it wants doesn't matter */
    assert_ok(cairn_cache_begin(p.a.w.cache, &(cairn_prompt){.tokens = (cairn_token[]){1, 2, 3}, .count = 3},
                                &next, NULL));
    cairn_cache_end(p.a.w.cache, next, CAIRN_END_STOPPED);
    cairn_request_free(next);
    while (cairn_sharer_sending(p.a.w.cache->sharer)) { /* what is in the sender's hands, and no more */
        cairn_sharer_wait(p.a.w.cache->sharer, cairn_clock_now_ns(cairn_clock_system()) + SECOND_NS / 100);
        cairn_sharer_settle(p.a.w.cache->sharer);
    }
    for (uint32_t i = 0; i < 3; i++) {
        render(&r, &talks[i], CAIRN_RESUME_EXACT);
        ask_and_compare(&p.b.w, &r, 3, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
        assert_true(o.record.resume + 8 >= r.prompt.count);
        rendered_release(&r);
        talk_release(&talks[i]);
    }
    pair_close(&p);
}

static void what_is_read_faster_is_read(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_start(&p, CAIRN_RESUME_EXACT);
    p.b.w.cache->sharer->read_ns_token = 0.001;
    assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_NONE);
    cairn_cache_shared_stats stats = shared_stats(&p.b);
    assert_true(stats.dearer == 1 && stats.fetched == 0);
    assert_int_equal(o.record.reason, CAIRN_REASON_DEARER);
    assert_true(o.record.reason_position + 8 >= p.read);
    pair_close(&p);
}

/* A narrow line: what was measured with one conversation decides for the next. */
static void over_a_narrow_line_it_reads(void **state)
{
    (void)state;
    pair p;
    outcome o;
    proxy line;
    pair_init(&p, NULL);
    p.a.w.replica.state_bytes = p.b.w.replica.state_bytes = 1 << 20;
    shared_open(&p.a);
    proxy_start_narrow(&line, p.store.port, 200000);
    (void)snprintf(p.b.url, sizeof p.b.url, "redis://127.0.0.1:%d", line.port);
    shared_open(&p.b);
    cairn_sharer *sharer = p.b.w.cache->sharer;
    for (uint32_t i = 0; i < 2; i++) {
        talk_long(&p.t, 1 + 50 * i);
        turn(&p.a.w, &p.t, CAIRN_RESUME_EXACT, 5, &o);
        shared_send_all(&p.a);
        sharer->read_ns_token = 1e5; /* 3,000 tokens in 0.3 s; a state alone takes 5 s on that line */
        sharer->shared->retry_ns = 0;
        assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_NONE);
        assert_int_equal(o.record.reason, i == 0 ? CAIRN_REASON_LATE : CAIRN_REASON_DEARER);
        assert_int_equal(shared_stats(&p.b).dearer, i);
        shared_asks_end(&p.b);
        talk_release(&p.t);
    }
    assert_true(shared_stats(&p.b).bytes_second < 10e6);
    memset(&p.t, 0, sizeof p.t);
    pair_close(&p);
    proxy_end(&line);
}

/* One tenant is forgotten on one server: on no other server anything of it is found, and another tenant's is. */
static void forgotten_namespace_is_forgotten_for_all_servers(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_init(&p, NULL);
    pair_open(&p);
    talk_long(&p.t, 1);
    rendered r;
    render(&r, &p.t, CAIRN_RESUME_EXACT);
    for (uint8_t tenant = 0; tenant < 2; tenant++) {
        r.prompt.space.bytes[0] = tenant;
        ask_and_compare(&p.a.w, &r, 3, &o);
        shared_send_all(&p.a);
    }
    cairn_namespace space = {{0}};
    assert_ok(cairn_cache_forget(p.a.w.cache, &space, NULL));
    shared_send_all(&p.a);
    for (uint8_t tenant = 0; tenant < 2; tenant++) {
        r.prompt.space.bytes[0] = tenant;
        ask_and_compare(&p.b.w, &r, 3, &o);
        assert_int_equal(o.record.source, tenant == 0 ? CAIRN_SOURCE_NONE : CAIRN_SOURCE_SHARED);
    }
    rendered_release(&r);
    pair_close(&p);
}

/* What waits to be sent when another namespace is forgotten is sent all the same. */
static void forgetting_one_namespace_loses_nothing_of_another(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_start(&p, CAIRN_RESUME_EXACT);
    cairn_sharer *sharer = p.a.w.cache->sharer;
    redis_do(&p.store, "FLUSHALL"); /* all of it is to be sent again ... */
    memset(sharer->known, 0, SHARER_KNOWN * sizeof *sharer->known);
    cairn_sharer_note(sharer, 0);
    server_freeze(&p.store, true);
    while (cairn_cache_idle(p.a.w.cache)) { /* ... and the sender has its hands full */
    }
    const cairn_namespace other = {{0, 7}};
    assert_ok(cairn_cache_forget(p.a.w.cache, &other, NULL));
    server_freeze(&p.store, false);
    shared_send_all(&p.a);
    assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_SHARED);
    assert_true(o.record.resume + 8 >= p.read);
    pair_close(&p);
}

static void request_that_is_stopped_while_it_waits_leaves_no_trace(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_start(&p, CAIRN_RESUME_EXACT);
    rendered r;
    render(&r, &p.t, CAIRN_RESUME_EXACT);
    for (uint32_t steps = 0; steps < 8; steps++) {
        (void)ask_and_stop(&p.b.w, &r, steps);
        world_check(&p.b.w);
        assert_ok(cairn_cache_forget(p.b.w.cache, NULL, NULL));
    }
    shared_asks_end(&p.b); /* those of requests that are gone */
    ask_and_compare(&p.b.w, &r, 3, &o);
    assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
    rendered_release(&r);
    pair_close(&p);
}

/* --- side by side ----------------------------------------------------------------------------------------------- */

/* A server whose way to the store is long. */
static void late_open(shared_world *s, const server *store, proxy *line, uint64_t delay_ns)
{
    shared_init(s, store);
    proxy_start_late(line, store->port, delay_ns);
    (void)snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%d", line->port);
    shared_open(s);
}

static cairn_shared_stats store_stats(const shared_world *s)
{
    cairn_shared_stats stats;
    cairn_shared_stats_get(s->w.cache->sharer->shared, &stats);
    return stats;
}

static void blobs_come_side_by_side_over_a_long_line(void **state)
{
    (void)state;
    pair p;
    outcome o;
    proxy line;
    pair_init(&p, NULL);
    shared_open(&p.a);
    late_open(&p.b, &p.store, &line, SECOND_NS / 20);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    assert_int_equal(pair_other_asks(&p, &o), CAIRN_SOURCE_SHARED);
    assert_true(o.record.resume + 8 >= p.read);
    cairn_shared_stats stats = store_stats(&p.b);
    assert_true(stats.loads >= 6);
    assert_true(stats.loads_at_once > 1 && stats.loads_at_once <= CAIRN_SHARED_READERS);
    pair_close(&p);
    proxy_end(&line);
}

/* The request is stopped when some of its blobs have come, some are on their way, and some were not asked for. */
static void blobs_that_come_after_their_request_was_stopped_are_kept(void **state)
{
    (void)state;
    pair p;
    outcome o;
    proxy line;
    rendered r;
    cairn_request *request;
    pair_init(&p, NULL);
    shared_open(&p.a);
    late_open(&p.b, &p.store, &line, SECOND_NS / 20);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    render(&r, &p.t, CAIRN_RESUME_EXACT);
    assert_ok(cairn_cache_begin(p.b.w.cache, &r.prompt, &request, NULL));
    cairn_sharer *sharer = p.b.w.cache->sharer;
    bool fetching = false;
    for (uint32_t running = 0; running == 0;) {
        assert_ok(cairn_cache_step(p.b.w.cache, &request, 1, NULL));
        world_check(&p.b.w);
        (void)pthread_mutex_lock(&sharer->lock);
        for (int i = 0; i < SHARER_LOADS; i++) {
            running += sharer->loads[i].phase == SHARER_RUNNING ? 1 : 0;
        }
        (void)pthread_mutex_unlock(&sharer->lock);
        fetching = fetching || request->share.fetching;
        assert_int_equal(cairn_request_phase(request), CAIRN_PHASE_RESTORE);
    }
    assert_true(fetching);
    uint64_t before = shared_stats(&p.b).fetched;
    cairn_cache_end(p.b.w.cache, request, CAIRN_END_STOPPED);
    cairn_request_free(request);
    assert_true(cairn_sharer_loads_left(sharer));
    assert_true(shared_stats(&p.b).waiting); /* so that somebody comes to take them */
    world_check(&p.b.w);
    while (cairn_sharer_loads_left(sharer)) {
        cairn_sharer_wait(sharer, cairn_clock_now_ns(cairn_clock_system()) + SECOND_NS / 10);
        (void)cairn_cache_idle(p.b.w.cache);
        world_check(&p.b.w);
    }
    uint64_t kept = shared_stats(&p.b).fetched;
    assert_true(kept > before && shared_stats(&p.b).fetch_failures == 0);
    /* What came is not fetched a second time. */
    ask_and_compare(&p.b.w, &r, 3, &o);
    assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
    assert_true(store_stats(&p.b).loads >= 7 && store_stats(&p.b).loads <= 9);
    rendered_release(&r);
    pair_close(&p);
    proxy_end(&line);
}

/* Forgotten while they are on their way: memory doesn't keep them, and nothing of them is used. */
static void namespace_forgotten_while_its_blobs_come_leaves_nothing(void **state)
{
    (void)state;
    pair p;
    proxy line;
    rendered r;
    cairn_request *request;
    pair_init(&p, NULL);
    shared_open(&p.a);
    late_open(&p.b, &p.store, &line, SECOND_NS / 20);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    render(&r, &p.t, CAIRN_RESUME_EXACT);
    assert_ok(cairn_cache_begin(p.b.w.cache, &r.prompt, &request, NULL));
    while (request->share.waiting == 0) {
        assert_ok(cairn_cache_step(p.b.w.cache, &request, 1, NULL));
    }
    cairn_cache_end(p.b.w.cache, request, CAIRN_END_STOPPED);
    cairn_request_free(request);
    assert_ok(cairn_cache_forget(p.b.w.cache, NULL, NULL));
    while (cairn_sharer_loads_left(p.b.w.cache->sharer)) {
        cairn_sharer_wait(p.b.w.cache->sharer, cairn_clock_now_ns(cairn_clock_system()) + SECOND_NS / 10);
        (void)cairn_cache_idle(p.b.w.cache);
        world_check(&p.b.w);
    }
    assert_ok(cairn_cache_forget(p.b.w.cache, NULL, NULL)); /* any event: what came meanwhile goes with it */
    cairn_cache_stats stats;
    cairn_cache_stats_get(p.b.w.cache, &stats);
    assert_true(stats.states == 0 && stats.segments == 0);
    rendered_release(&r);
    pair_close(&p);
    proxy_end(&line);
}

static void url_that_means_nothing_is_refused(void **state)
{
    (void)state;
    const char *const urls[] = {
        "ftp://host", "redis://", "redis://host:99999", "redis://host/x",       "file://here", "s3://",
        "http://",    "redis",    "redis://[::1",       "s3://b?endpoint=host", "http://h?x=1"};
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        world w;
        world_init(&w);
        cairn_error error = {0};
        cairn_cache_shared shared = {.url = urls[i]};
        w.options.shared = &shared;
        assert_ok(cairn_replica_new(&w.replica, cairn_mem_default(), &w.engine, &error));
        assert_status(cairn_cache_new(cairn_mem_default(), w.engine, &w.options, &w.cache, &error),
                      CAIRN_INVALID);
        assert_true(error.detail[0] != '\0');
        w.engine->ops->free(w.engine);
    }
}

/* Without it the cache works; why there is none is in its stats, and no error is given beside CAIRN_OK. */
static void store_without_memory_for_it_is_told_in_the_stats_alone(void **state)
{
    (void)state;
    uint32_t without = 0;
    for (uint64_t at = 1;; at++) {
        world w;
        cairn_mem_test heap;
        cairn_error error = {0};
        cairn_cache_shared shared = {.url = "file:///nowhere/at/all"};
        world_init(&w);
        cairn_mem_test_init(&heap, at);
        w.options.shared = &shared;
        assert_ok(cairn_replica_new(&w.replica, cairn_mem_default(), &w.engine, NULL));
        cairn_error *reterr = at % 2 == 0 ? &error : NULL;
        if (cairn_cache_new(&heap.mem, w.engine, &w.options, &w.cache, reterr) == CAIRN_OK) {
            cairn_cache_shared_stats stats;
            cairn_cache_shared_stats_get(w.cache, &stats);
            assert_status(stats.last_error.status, stats.on ? CAIRN_OK : CAIRN_NOMEM);
            assert_status(error.status, CAIRN_OK);
            without += stats.on ? 0 : 1;
            cairn_cache_free(w.cache);
        }
        w.engine->ops->free(w.engine);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
        if (heap.fails == 0) {
            break;
        }
    }
    assert_true(without > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_read_on_one_server_is_resumed_on_the_other),
        cmocka_unit_test(every_kind_of_store_is_resumed_from),
        cmocka_unit_test(encrypted_blobs_are_shared_by_those_who_have_the_key),
        cmocka_unit_test(another_key_other_weights_and_other_namespaces_find_nothing),
        cmocka_unit_test(equal_prompt_of_another_namespace_takes_the_path_of_an_unknown_one),
        cmocka_unit_test(keys_and_sizes_show_no_token),
        cmocka_unit_test(server_that_is_never_idle_shares_all_the_same),
        cmocka_unit_test(what_is_read_faster_is_read),
        cmocka_unit_test(over_a_narrow_line_it_reads),
        cmocka_unit_test(forgotten_namespace_is_forgotten_for_all_servers),
        cmocka_unit_test(forgetting_one_namespace_loses_nothing_of_another),
        cmocka_unit_test(request_that_is_stopped_while_it_waits_leaves_no_trace),
        cmocka_unit_test(blobs_come_side_by_side_over_a_long_line),
        cmocka_unit_test(blobs_that_come_after_their_request_was_stopped_are_kept),
        cmocka_unit_test(namespace_forgotten_while_its_blobs_come_leaves_nothing),
        cmocka_unit_test(url_that_means_nothing_is_refused),
        cmocka_unit_test(store_without_memory_for_it_is_told_in_the_stats_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
