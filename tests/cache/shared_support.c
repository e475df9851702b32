/*
 * shared_support - see the header.
 */
#include "shared_support.h"

#include "base/clock.h"

void shared_init(shared_world *s, const server *store)
{
    memset(s, 0, sizeof *s);
    world_init(&s->w);
    (void)snprintf(s->url, sizeof s->url, "%s", redis_url(store));
    /* A busy machine is no reason to miss: only tests of deadlines have short ones. */
    s->shared = (cairn_cache_shared){.url = s->url, .ttl_s = 600, .deadline_ns = 20 * SECOND_NS};
    s->w.replica.cut_sensitive = true;
}

void shared_open(shared_world *s)
{
    s->w.options.shared = &s->shared;
    world_open(&s->w);
    if (s->w.cache->sharer == NULL) {
        fail_msg("%s: %s", s->w.cache->sharer_error.where, s->w.cache->sharer_error.detail);
    }
}

cairn_cache_shared_stats shared_stats(const shared_world *s)
{
    cairn_cache_shared_stats stats;
    cairn_cache_shared_stats_get(s->w.cache, &stats);
    return stats;
}

void shared_send_all(shared_world *s)
{
    assert_true(cairn_cache_flush(s->w.cache, 60 * SECOND_NS));
}

void shared_asks_end(shared_world *s)
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

void pair_init(pair *p, const char *const *more)
{
    redis_start(&p->store, more);
    shared_init(&p->a, &p->store);
    shared_init(&p->b, &p->store);
}

void pair_open(pair *p)
{
    shared_open(&p->a);
    shared_open(&p->b);
}

void pair_talk(pair *p, cairn_resume_mode mode)
{
    outcome o;
    talk_long(&p->t, 1);
    turn(&p->a.w, &p->t, mode, 20, &o);
    p->read = o.record.prompt_tokens;
    shared_send_all(&p->a);
    talk_add(&p->t, CAIRN_ROLE_USER, 9, 100);
}

void pair_start(pair *p, cairn_resume_mode mode)
{
    pair_init(p, NULL);
    pair_open(p);
    pair_talk(p, mode);
}

void pair_close(pair *p)
{
    talk_release(&p->t);
    world_close(&p->a.w);
    world_close(&p->b.w);
    server_end(&p->store);
}

cairn_source pair_other_asks(pair *p, outcome *o)
{
    turn(&p->b.w, &p->t, CAIRN_RESUME_EXACT, 10, o);
    return o->record.source;
}
