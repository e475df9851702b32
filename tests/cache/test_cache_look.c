/*
 * Looking at a cache: how a known path goes on where a prompt parts from it, and the tree of all of them.
 */
#include "cache_support.h"

static outcome o;

typedef struct seen {
    uint32_t count, states, slots, end;
    uint64_t tokens;
    bool stop;
} seen;

static bool see(void *ctx, const cairn_cache_node *node)
{
    seen *s = ctx;
    assert_true(node->depth == 0 || node->end > node->begin);
    s->count++;
    s->tokens += node->end - node->begin;
    s->states += node->count_states;
    s->slots += node->slot != UINT32_MAX;
    s->end = node->end > s->end ? node->end : s->end;
    return !s->stop;
}

static void the_known_side_is_what_was_read_and_written(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    world_open(&w);
    talk t = {0};
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 90);
    talk_add(&t, CAIRN_ROLE_USER, 2, 200);
    rendered first, second;
    render(&first, &t, CAIRN_RESUME_FAST);
    cairn_token known[32];
    uint32_t position = 99;
    assert_int_equal(cairn_cache_beside(w.cache, &first.prompt, &position, known, 32), 0);
    assert_int_equal(position, 0);
    ask(&w, &first, 8, &o);

    /* All of it is known, and the answer goes on. */
    uint32_t count = cairn_cache_beside(w.cache, &first.prompt, &position, known, 32);
    assert_int_equal(position, first.prompt.count);
    assert_true(count >= 7 && count <= 8);
    assert_memory_equal(known, o.answer, count * sizeof *known);

    talk_cut(&t, 1);
    talk_add(&t, CAIRN_ROLE_USER, 3, 150);
    render(&second, &t, CAIRN_RESUME_FAST);
    uint32_t same = common(first.tokens, first.prompt.count, second.tokens, second.prompt.count);
    uint64_t decoded = world_decoded(&w);
    assert_int_equal(cairn_cache_beside(w.cache, &second.prompt, &position, known, 32), 32);
    assert_int_equal(position, same);
    assert_memory_equal(known, first.tokens + same, sizeof known);
    assert_int_equal(world_decoded(&w), decoded);

    /* Another namespace knows nothing. */
    cairn_prompt other = second.prompt;
    other.space.bytes[0] ^= 1;
    assert_int_equal(cairn_cache_beside(w.cache, &other, &position, known, 32), 0);
    assert_int_equal(position, 0);

    ask(&w, &second, 8, &o);
    assert_int_equal(o.record.divergence, same);
    seen s = {0};
    cairn_cache_walk(w.cache, &second.prompt.space, see, &s);
    cairn_cache_stats stats;
    cairn_cache_stats_get(w.cache, &stats);
    assert_int_equal(s.tokens, stats.tokens_known);
    assert_int_equal(s.states, stats.states);
    assert_true(s.count >= 4); /* the root, the shared part, two branches */
    assert_true(s.slots >= 1);
    s = (seen){.stop = true};
    cairn_cache_walk(w.cache, &second.prompt.space, see, &s);
    assert_int_equal(s.count, 1);
    s = (seen){0};
    cairn_cache_walk(w.cache, &other.space, see, &s);
    assert_int_equal(s.count, 0);
    rendered_release(&first);
    rendered_release(&second);
    talk_release(&t);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_known_side_is_what_was_read_and_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
