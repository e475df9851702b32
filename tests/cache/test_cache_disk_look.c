/* What the disk holds, as a tree: cache_disk_look. And when it was written. */
#include "base/io_memory.h"
#include "cache_support.h"

enum { NODES_MAX = 256, SPANS = 64 };

typedef struct picture {
    uint32_t count;
    cairn_cache_node nodes[NODES_MAX];
} picture;

static bool take(void *ctx, const cairn_cache_node *node)
{
    picture *p = ctx;
    assert_true(p->count < NODES_MAX);
    p->nodes[p->count++] = *node;
    return true;
}

static bool take_two(void *ctx, const cairn_cache_node *node)
{
    (void)take(ctx, node);
    return ((picture *)ctx)->count < 2;
}

/*
 * Parents stand before their children, which begin where they end and were used no later; what begins inside of another file
 * hangs on the root.
 */
static void check_tree(const picture *p)
{
    uint32_t ends[NODES_MAX] = {0};
    uint64_t used_ns[NODES_MAX] = {p->nodes[0].used_ns};
    assert_true(p->count >= 1);
    assert_int_equal(p->nodes[0].depth, 0);
    assert_int_equal(p->nodes[0].end, 0);
    for (uint32_t i = 1; i < p->count; i++) {
        const cairn_cache_node *node = &p->nodes[i];
        assert_true(node->depth >= 1 && node->depth <= p->nodes[i - 1].depth + 1);
        assert_true(node->end > node->begin && node->row_bytes > 0);
        assert_true(node->depth == 1 || node->begin == ends[node->depth - 1]);
        ends[node->depth] = node->end;
        assert_true(node->used_ns > 0 && node->used_ns <= used_ns[node->depth - 1]);
        used_ns[node->depth] = node->used_ns;
        for (uint32_t k = 0; k < node->count_states && k < 16; k++)
            assert_true(node->states[k] > node->begin && node->states[k] <= node->end);
    }
}

static uint32_t farthest(const picture *p)
{
    uint32_t end = 0;
    for (uint32_t i = 1; i < p->count; i++)
        end = p->nodes[i].end > end ? p->nodes[i].end : end;
    return end;
}

static void both_branches_are_shown_and_no_other_namespace(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 256u << 20);
    assert_non_null(memory);
    cairn_cache_disk disk = {.dir = "/store", .bytes_max = 128u << 20, .io = cairn_io_memory_io(memory)};
    w.options.disk = &disk;
    world_open(&w);
    static picture p;
    cairn_namespace own = {{0}}, other = {{7}};
    assert_ok(cairn_cache_disk_walk(w.cache, &own, take, &p, NULL));
    assert_int_equal(p.count, 1); /* the root alone */

    talk t = {0};
    static outcome o;
    talk_add(&t, CAIRN_ROLE_SYSTEM, 1, 900);
    talk_add(&t, CAIRN_ROLE_USER, 2, 1400);
    turn(&w, &t, CAIRN_RESUME_FAST, 5, &o);
    uint32_t first = o.record.prompt_tokens;
    talk_cut(&t, 1);
    talk_add(&t, CAIRN_ROLE_USER, 3, 700);
    turn(&w, &t, CAIRN_RESUME_FAST, 5, &o);
    assert_true(cairn_cache_flush(w.cache, UINT64_C(60000000000)));
    memset(&p, 0, sizeof p);
    assert_ok(cairn_cache_disk_walk(w.cache, &own, take, &p, NULL));
    check_tree(&p);
    assert_true(farthest(&p) >= first);
    uint32_t starts = 0, ends = 0, states = 0;
    for (uint32_t i = 1; i < p.count; i++) {
        starts += p.nodes[i].begin == 0;
        ends += p.nodes[i].end >= o.record.prompt_tokens;
        states += p.nodes[i].count_states;
    }
    assert_int_equal(starts, 1); /* what both begin with is one file */
    assert_true(ends >= 2 && states >= 2);

    memset(&p, 0, sizeof p);
    assert_ok(cairn_cache_disk_walk(w.cache, &own, take_two, &p, NULL));
    assert_int_equal(p.count, 2); /* the visitor stops the walk */
    memset(&p, 0, sizeof p);
    assert_ok(cairn_cache_disk_walk(w.cache, &other, take, &p, NULL));
    assert_int_equal(p.count, 1);

    cairn_span spans[SPANS];
    uint32_t count = cairn_cache_disk_writes(w.cache, &own, 0, spans, SPANS);
    assert_true(count >= 4);
    for (uint32_t i = 0; i < count; i++)
        assert_true(spans[i].kind == CAIRN_SPAN_BEHIND && spans[i].bytes > 0 &&
                    spans[i].end_ns >= spans[i].begin_ns);
    assert_int_equal(cairn_cache_disk_writes(w.cache, &own, 0, spans, 2), 2);
    assert_int_equal(cairn_cache_disk_writes(w.cache, &own, UINT64_MAX, spans, SPANS), 0);
    assert_int_equal(cairn_cache_disk_writes(w.cache, &other, 0, spans, SPANS), 0);
    talk_release(&t);
    world_close(&w);
    cairn_io_memory_free(memory);
}

static void without_a_disk_there_is_nothing(void **state)
{
    (void)state;
    world w;
    world_init(&w);
    world_open(&w);
    static picture p;
    cairn_namespace own = {{0}};
    cairn_span span;
    assert_ok(cairn_cache_disk_walk(w.cache, &own, take, &p, NULL));
    assert_int_equal(p.count, 0);
    assert_int_equal(cairn_cache_disk_writes(w.cache, &own, 0, &span, 1), 0);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_branches_are_shown_and_no_other_namespace),
        cmocka_unit_test(without_a_disk_there_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
