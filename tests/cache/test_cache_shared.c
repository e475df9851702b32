/*
 * Two servers and one store: what one has read the other resumes, exactly; and whatever the store does costs time
 * only. The store is a real redis-server, which the tests start, freeze, fill, empty and kill.
 */
#include <unistd.h>

#include "cache/sharer_internal.h"
#include "cache_support.h"
#include "store/server_support.h"

#define SECOND_NS UINT64_C(1000000000)

typedef struct shared_world {
    world w;
    cairn_cache_shared shared;
    char url[128];
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
        assert_true(stats.found == 1 && stats.fetched > 0 && stats.fetch_failures == 0 && stats.failures == 0);

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversation_read_on_one_server_is_resumed_on_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
