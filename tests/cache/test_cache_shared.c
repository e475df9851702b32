#define _GNU_SOURCE /* memmem */
/*
 * Two servers and one store: what one has read the other resumes, exactly; and whatever the store does costs time
 * only. The store is a real redis-server, which the tests start, freeze, fill, empty and kill.
 */
#include "base/clock.h"
#include "cache/sharer_internal.h"
#include "cache_support.h"
#include "store/server_support.h"

#define SECOND_NS UINT64_C(1000000000)

typedef struct shared_world {
    world w;
    cairn_cache_shared shared;
    char url[256];
} shared_world;

static void shared_init(shared_world *s, const server *store)
{
    memset(s, 0, sizeof *s);
    world_init(&s->w);
    (void)snprintf(s->url, sizeof s->url, "%s", redis_url(store));
    /* A busy machine is no reason to miss: only tests of deadlines have short ones. */
    s->shared = (cairn_cache_shared){.url = s->url, .ttl_s = 600, .deadline_ns = 20 * SECOND_NS};
    s->w.replica.cut_sensitive = true;
}

static void shared_open(shared_world *s)
{
    s->w.options.shared = &s->shared;
    world_open(&s->w);
    if (s->w.cache->sharer == NULL) {
        fail_msg("%s: %s", s->w.cache->sharer_error.where, s->w.cache->sharer_error.detail);
    }
}

static cairn_cache_shared_stats stats_of(const shared_world *s)
{
    cairn_cache_shared_stats stats;
    cairn_cache_shared_stats_get(s->w.cache, &stats);
    return stats;
}

static void send_all(shared_world *s)
{
    assert_true(cairn_cache_flush(s->w.cache, 60 * SECOND_NS));
}

static void talk_usual(talk *t, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    talk_add(t, CAIRN_ROLE_SYSTEM, seed, 900);
    talk_add(t, CAIRN_ROLE_USER, seed + 1, 700);
    talk_add(t, CAIRN_ROLE_ASSISTANT, seed + 2, 120);
    talk_add(t, CAIRN_ROLE_USER, seed + 3, 1400);
}

/* Two servers over one store; b has read nothing. */
typedef struct pair {
    server store;
    shared_world a, b;
    talk t;
    uint32_t read; /* prompt tokens that a read */
} pair;

static void pair_open(pair *p, const char *const *more)
{
    redis_start(&p->store, more);
    shared_init(&p->a, &p->store);
    shared_init(&p->b, &p->store);
}

/* a reads a conversation, and all of it is sent. */
static void pair_talk(pair *p, cairn_resume_mode mode)
{
    outcome o;
    talk_usual(&p->t, 1);
    turn(&p->a.w, &p->t, mode, 20, &o);
    p->read = o.record.prompt_tokens;
    send_all(&p->a);
    talk_add(&p->t, CAIRN_ROLE_USER, 9, 100);
}

static void pair_close(pair *p)
{
    talk_release(&p->t);
    world_close(&p->a.w);
    world_close(&p->b.w);
    server_end(&p->store);
}

static void conversation_read_on_one_server_is_resumed_on_the_other(void **state)
{
    (void)state;
    for (int mode = CAIRN_RESUME_FAST; mode <= CAIRN_RESUME_EXACT; mode++) {
        pair p;
        outcome o;
        pair_open(&p, NULL);
        p.a.w.replica.cut_sensitive = p.b.w.replica.cut_sensitive = mode == CAIRN_RESUME_EXACT;
        shared_open(&p.a);
        shared_open(&p.b);
        pair_talk(&p, (cairn_resume_mode)mode);
        turn(&p.b.w, &p.t, (cairn_resume_mode)mode, 20, &o); /* compares with a cold run, bit for bit */
        assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
        assert_true(o.record.resume + 8 >= p.read);
        cairn_cache_shared_stats stats = stats_of(&p.b);
        assert_true(stats.found == 1 && stats.fetched > 0 && stats.fetch_failures == 0 &&
                    stats.failures == 0);

        /* And back again, without sending what the store has. */
        uint64_t fetched = stats.fetched;
        send_all(&p.b);
        stats = stats_of(&p.b);
        assert_true(stats.sent <= 5);
        uint32_t before = o.record.prompt_tokens;
        talk_add(&p.t, CAIRN_ROLE_USER, 10, 100);
        turn(&p.a.w, &p.t, (cairn_resume_mode)mode, 20, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
        assert_true(o.record.resume + 8 >= before);
        assert_true(stats_of(&p.a).fetched < fetched); /* most of the rows were there */
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

/* --- what a store may do ---------------------------------------------------------------------------------------- */

/* The other server asks after something happened to the store: the answer is the cold one. Gives its source. */
static cairn_source other_asks(pair *p, outcome *o)
{
    turn(&p->b.w, &p->t, CAIRN_RESUME_EXACT, 10, o);
    return o->record.source;
}

static void store_that_is_down_costs_time_only_and_is_used_when_it_comes(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_open(&p, NULL);
    server_kill(&p.store);
    shared_open(&p.a);
    shared_open(&p.b);
    talk_usual(&p.t, 1);
    turn(&p.a.w, &p.t, CAIRN_RESUME_EXACT, 10, &o);
    assert_false(cairn_cache_flush(p.a.w.cache, SECOND_NS / 5));
    cairn_cache_shared_stats stats = stats_of(&p.a);
    assert_true(stats.failures > 0 && !stats.works && stats.waiting && stats.due_ns > 0);
    assert_status(stats.last_error.status, CAIRN_IO);
    server_start(&p.store);
    /* Left alone for a while, then asked again: nobody has to do anything. */
    while (!cairn_cache_flush(p.a.w.cache, 5 * SECOND_NS)) {
    }
    assert_true(stats_of(&p.a).works);
    talk_add(&p.t, CAIRN_ROLE_USER, 9, 100);
    assert_int_equal(other_asks(&p, &o), CAIRN_SOURCE_SHARED);
    pair_close(&p);
}

static void store_that_does_not_answer_is_waited_for_until_the_deadline(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_open(&p, NULL);
    p.b.shared.deadline_ns = SECOND_NS / 20;
    shared_open(&p.a);
    shared_open(&p.b);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    server_freeze(&p.store, true);
    assert_int_equal(other_asks(&p, &o), CAIRN_SOURCE_NONE);
    cairn_cache_shared_stats stats = stats_of(&p.b);
    assert_true(stats.asked == 1 && stats.found == 0 && (stats.timeouts == 1 || stats.late == 1));
    assert_int_equal(o.record.reason, CAIRN_REASON_LATE);
    /* Soon after that it isn't even asked. */
    talk other;
    talk_usual(&other, 50);
    turn(&p.b.w, &other, CAIRN_RESUME_EXACT, 5, &o);
    assert_int_equal(o.record.source, CAIRN_SOURCE_NONE);
    talk_release(&other);
    server_freeze(&p.store, false);
    pair_close(&p);
}

static void store_that_is_full_keeps_what_it_has(void **state)
{
    (void)state;
    const char *const more[] = {"--maxmemory", "2mb", "--maxmemory-policy", "noeviction", NULL};
    pair p;
    outcome o;
    pair_open(&p, more);
    p.a.w.replica.state_bytes = p.b.w.replica.state_bytes = 1 << 20;
    shared_open(&p.a);
    shared_open(&p.b);
    talk_usual(&p.t, 1);
    turn(&p.a.w, &p.t, CAIRN_RESUME_EXACT, 10, &o);
    assert_false(cairn_cache_flush(p.a.w.cache, SECOND_NS));
    cairn_cache_shared_stats stats = stats_of(&p.a);
    assert_true(stats.full > 0 && stats.works);
    talk_add(&p.t, CAIRN_ROLE_USER, 9, 100);
    (void)other_asks(&p, &o);
    pair_close(&p);
}

static void store_that_forgets_parts_is_a_miss(void **state)
{
    (void)state;
    const char *const more[] = {"--maxmemory", "6mb", "--maxmemory-policy", "allkeys-random", NULL};
    pair p;
    outcome o;
    pair_open(&p, more);
    p.a.w.replica.state_bytes = p.b.w.replica.state_bytes = 1 << 20;
    shared_open(&p.a);
    shared_open(&p.b);
    memset(&p.t, 0, sizeof p.t);
    talk_add(&p.t, CAIRN_ROLE_SYSTEM, 5, 600);
    for (uint32_t i = 0; i < 8; i++) {
        talk_add(&p.t, CAIRN_ROLE_USER, 60 + i, 300);
        shared_world *s = i % 2 == 0 ? &p.a : &p.b;
        turn(&s->w, &p.t, CAIRN_RESUME_EXACT, 5, &o);
        (void)cairn_cache_flush(s->w.cache, SECOND_NS / 2);
    }
    pair_close(&p);
}

static void store_that_restarted_empty_is_filled_again(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_open(&p, NULL);
    shared_open(&p.a);
    shared_open(&p.b);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    uint64_t sent = stats_of(&p.a).sent;
    server_kill(&p.store);
    server_start(&p.store);
    assert_int_equal(other_asks(&p, &o), CAIRN_SOURCE_NONE);
    talk_cut(&p.t, 4); /* b's own answer goes */
    talk_add(&p.t, CAIRN_ROLE_USER, 9, 300);
    redis_do(&p.store, "FLUSHALL"); /* whatever b has sent */
    turn(&p.a.w, &p.t, CAIRN_RESUME_EXACT, 5, &o);
    send_all(&p.a);
    /* The first blob told a that the store was started anew: what follows was sent again, rows from the first on. */
    assert_true(stats_of(&p.a).sent > sent + 3);
    pair_close(&p);
}

/* Each value in turn is damaged: a bit of it, its end, or all of it. */
static void damaged_value_is_a_miss_whichever_it_is(void **state)
{
    (void)state;
    server store;
    redis_start(&store, NULL);
    shared_world a;
    shared_init(&a, &store);
    shared_open(&a);
    talk t;
    outcome o;
    talk_usual(&t, 1);
    turn(&a.w, &t, CAIRN_RESUME_EXACT, 10, &o);
    send_all(&a);
    talk_add(&t, CAIRN_ROLE_USER, 9, 100);
    redis_names names;
    redis_names_get(&store, &names);
    assert_true(names.count > 15);
    uint32_t hits = 0, misses = 0;
    redis_value *values = test_malloc(names.count * sizeof *values);
    for (uint32_t i = 0; i < names.count; i++) {
        values[i] = redis_value_get(&store, names.keys[i]);
    }
    for (uint32_t i = 0; i < names.count; i++) {
        redis_do(&store, "FLUSHALL"); /* what is damaged is removed by who finds it: all as it was */
        for (uint32_t j = 0; j < names.count; j++) {
            redis_value_set(&store, names.keys[j], &values[j]);
        }
        redis_value damaged = {.bytes = test_malloc(values[i].count), .count = values[i].count};
        memcpy(damaged.bytes, values[i].bytes, values[i].count);
        damaged.bytes[damaged.count * 2 / 3] ^= (uint8_t)(i % 3 == 0 ? 1 : 0);
        damaged.count = i % 3 == 1 ? damaged.count - 1 : i % 3 == 2 ? 0 : damaged.count;
        redis_value_set(&store, names.keys[i], &damaged);
        shared_world b;
        shared_init(&b, &store);
        shared_open(&b);
        talk copy;
        talk_copy(&copy, &t);
        turn(&b.w, &copy, CAIRN_RESUME_EXACT, 5, &o); /* compares with the cold run */
        hits += o.record.source == CAIRN_SOURCE_SHARED ? 1 : 0;
        misses += o.record.source == CAIRN_SOURCE_NONE ? 1 : 0;
        talk_release(&copy);
        world_close(&b.w);
        test_free(damaged.bytes);
    }
    for (uint32_t i = 0; i < names.count; i++) {
        redis_value_release(&values[i]);
    }
    test_free(values);
    assert_true(hits > 0 && misses > 0);
    redis_names_release(&names);
    talk_release(&t);
    world_close(&a.w);
    server_end(&store);
}

/* The line is cut after so many bytes, in the middle of what the other server fetches. */
static void line_that_is_cut_in_the_middle_costs_time_only(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_open(&p, NULL);
    shared_open(&p.a);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    uint32_t whole = 0;
    for (uint64_t bytes = 1; whole < 2; bytes = bytes * 3 + 7) {
        proxy line;
        proxy_start(&line, p.store.port, bytes);
        shared_world b;
        shared_init(&b, &p.store);
        (void)snprintf(b.url, sizeof b.url, "redis://127.0.0.1:%d", line.port);
        shared_open(&b);
        talk copy;
        talk_copy(&copy, &p.t);
        turn(&b.w, &copy, CAIRN_RESUME_EXACT, 5, &o);
        whole += o.record.source == CAIRN_SOURCE_SHARED ? 1 : 0;
        assert_true(bytes < (1u << 30));
        talk_release(&copy);
        world_close(&b.w);
        proxy_end(&line);
    }
    shared_open(&p.b);
    pair_close(&p);
}

/* --- who may use what ------------------------------------------------------------------------------------------- */

static void another_key_other_weights_and_other_namespaces_find_nothing(void **state)
{
    (void)state;
    static const uint8_t key[32] = {1, 2, 3}, wrong[32] = {1, 2, 4};
    for (int kind = 0; kind < 3; kind++) {
        pair p;
        outcome o;
        pair_open(&p, NULL);
        p.a.shared.key = kind == 0 ? key : NULL;
        p.b.shared.key = kind == 0 ? wrong : NULL;
        p.b.w.replica.seed += kind == 1 ? 1 : 0;
        shared_open(&p.a);
        shared_open(&p.b);
        pair_talk(&p, CAIRN_RESUME_EXACT);
        rendered r;
        render(&r, &p.t, CAIRN_RESUME_EXACT);
        r.prompt.space.bytes[3] = kind == 2 ? 1 : 0;
        ask_and_compare(&p.b.w, &r, 3, &o);
        assert_int_equal(o.record.source, CAIRN_SOURCE_NONE);
        assert_int_equal(o.record.divergence, 0);
        assert_true(stats_of(&p.b).asked == 1 && stats_of(&p.b).found == 0);
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
    pair_open(&p, NULL);
    p.a.shared.key = p.b.shared.key = key;
    shared_open(&p.a);
    shared_open(&p.b);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    assert_int_equal(other_asks(&p, &o), CAIRN_SOURCE_SHARED);
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
    pair_open(&p, NULL);
    proxy_start(&line, p.store.port, UINT64_MAX);
    shared_open(&p.a);
    shared_open(&p.b);
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
        send_all(&fresh); /* what it sends counts, too */
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
        talk_usual(&t, other == 0 ? 1 : 100);
        rendered r;
        render(&r, &t, CAIRN_RESUME_EXACT);
        ask(&a.w, &r, 0, &o);
        send_all(&a);
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
    pair_open(&p, NULL);
    shared_open(&p.a);
    shared_open(&p.b);
    talk talks[3];
    rendered r;
    for (uint32_t i = 0; i < 3; i++) {
        talk_usual(&talks[i], 10 * i + 1);
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
    pair_open(&p, NULL);
    shared_open(&p.a);
    shared_open(&p.b);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    p.b.w.cache->sharer->read_ns_token = 0.001;
    assert_int_equal(other_asks(&p, &o), CAIRN_SOURCE_NONE);
    cairn_cache_shared_stats stats = stats_of(&p.b);
    assert_true(stats.dearer == 1 && stats.fetched == 0);
    assert_int_equal(o.record.reason, CAIRN_REASON_DEARER);
    assert_true(o.record.reason_position + 8 >= p.read);
    pair_close(&p);
}

/* Wait until the receiver has nothing in hand. */
static void asks_end(shared_world *s)
{
    cairn_sharer *sharer = s->w.cache->sharer;
    bool works = true;
    while (works) {
        cairn_sharer_wait(sharer, cairn_clock_now_ns(cairn_clock_system()) + SECOND_NS);
        works = false;
        (void)pthread_mutex_lock(&sharer->lock);
        for (uint32_t i = 0; i < sharer->count_asks; i++) {
            works = works || sharer->asks[i].phase != SHARER_FREE;
        }
        (void)pthread_mutex_unlock(&sharer->lock);
    }
}

/* One tenant is forgotten on one server: on no other server anything of it is found, and another tenant's is. */
static void forgotten_namespace_is_forgotten_for_all_servers(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_open(&p, NULL);
    shared_open(&p.a);
    shared_open(&p.b);
    talk_usual(&p.t, 1);
    rendered r;
    render(&r, &p.t, CAIRN_RESUME_EXACT);
    for (uint8_t tenant = 0; tenant < 2; tenant++) {
        r.prompt.space.bytes[0] = tenant;
        ask_and_compare(&p.a.w, &r, 3, &o);
        send_all(&p.a);
    }
    cairn_namespace space = {{0}};
    assert_ok(cairn_cache_forget(p.a.w.cache, &space, NULL));
    send_all(&p.a);
    for (uint8_t tenant = 0; tenant < 2; tenant++) {
        r.prompt.space.bytes[0] = tenant;
        ask_and_compare(&p.b.w, &r, 3, &o);
        assert_int_equal(o.record.source, tenant == 0 ? CAIRN_SOURCE_NONE : CAIRN_SOURCE_SHARED);
    }
    rendered_release(&r);
    pair_close(&p);
}

static void request_that_is_stopped_while_it_waits_leaves_no_trace(void **state)
{
    (void)state;
    pair p;
    outcome o;
    pair_open(&p, NULL);
    shared_open(&p.a);
    shared_open(&p.b);
    pair_talk(&p, CAIRN_RESUME_EXACT);
    rendered r;
    render(&r, &p.t, CAIRN_RESUME_EXACT);
    for (uint32_t steps = 0; steps < 8; steps++) {
        (void)ask_and_stop(&p.b.w, &r, steps);
        world_check(&p.b.w);
        assert_ok(cairn_cache_forget(p.b.w.cache, NULL, NULL));
    }
    asks_end(&p.b); /* those of requests that are gone */
    ask_and_compare(&p.b.w, &r, 3, &o);
    assert_int_equal(o.record.source, CAIRN_SOURCE_SHARED);
    rendered_release(&r);
    pair_close(&p);
}

/* Three servers, random conversations with edits, a balancer that throws dice, and a store that has its moods. */
static void random_fleets_give_exact_answers(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init_stream(&rng, cairn_test_seed("random_fleets", 7), 0);
    server store;
    redis_start(&store, NULL);
    shared_world fleet[3];
    talk talks[3];
    uint32_t shared = 0;
    memset(talks, 0, sizeof talks);
    for (int i = 0; i < 3; i++) {
        shared_init(&fleet[i], &store);
        fleet[i].w.check_every = 8;
        shared_open(&fleet[i]);
        talk_add(&talks[i], CAIRN_ROLE_SYSTEM, 3, 700);
    }
    for (uint32_t turns = 0; turns < 60; turns++) {
        shared_world *s = &fleet[cairn_rng_below(&rng, 3)];
        talk *t = &talks[cairn_rng_below(&rng, 3)];
        uint64_t die = cairn_rng_below(&rng, 12);
        outcome o;
        if (die == 0) {
            redis_do(&store, "FLUSHALL");
        } else if (die == 1) {
            server_kill(&store);
            server_start(&store);
        } else if (die <= 4 && t->count > 3) {
            talk_cut(t, 1 + (uint32_t)cairn_rng_below(&rng, t->count - 1));
        }
        talk_add(t, CAIRN_ROLE_USER, cairn_rng_u64(&rng), 50 + (uint32_t)cairn_rng_below(&rng, 500));
        turn(&s->w, t, CAIRN_RESUME_EXACT, (uint32_t)cairn_rng_below(&rng, 12), &o);
        shared += o.record.source == CAIRN_SOURCE_SHARED ? 1 : 0;
        if (cairn_rng_below(&rng, 4) != 0) {
            (void)cairn_cache_flush(s->w.cache, 20 * SECOND_NS);
        }
        if (t->count > 24) {
            talk_cut(t, 1);
        }
    }
    assert_true(shared > 3);
    for (int i = 0; i < 3; i++) {
        talk_release(&talks[i]);
        world_close(&fleet[i].w);
    }
    server_end(&store);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_read_on_one_server_is_resumed_on_the_other),
        cmocka_unit_test(every_kind_of_store_is_resumed_from),
        cmocka_unit_test(encrypted_blobs_are_shared_by_those_who_have_the_key),
        cmocka_unit_test(store_that_is_down_costs_time_only_and_is_used_when_it_comes),
        cmocka_unit_test(store_that_does_not_answer_is_waited_for_until_the_deadline),
        cmocka_unit_test(store_that_is_full_keeps_what_it_has),
        cmocka_unit_test(store_that_forgets_parts_is_a_miss),
        cmocka_unit_test(store_that_restarted_empty_is_filled_again),
        cmocka_unit_test(damaged_value_is_a_miss_whichever_it_is),
        cmocka_unit_test(line_that_is_cut_in_the_middle_costs_time_only),
        cmocka_unit_test(another_key_other_weights_and_other_namespaces_find_nothing),
        cmocka_unit_test(equal_prompt_of_another_namespace_takes_the_path_of_an_unknown_one),
        cmocka_unit_test(keys_and_sizes_show_no_token),
        cmocka_unit_test(server_that_is_never_idle_shares_all_the_same),
        cmocka_unit_test(what_is_read_faster_is_read),
        cmocka_unit_test(forgotten_namespace_is_forgotten_for_all_servers),
        cmocka_unit_test(request_that_is_stopped_while_it_waits_leaves_no_trace),
        cmocka_unit_test(random_fleets_give_exact_answers),
        cmocka_unit_test(url_that_means_nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
