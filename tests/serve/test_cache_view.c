/*
 * The picture of the cache: the tree is whole while it is small, and bounded when it is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "serve/cache_view.h"

static const cairn_namespace here = {.bytes = {1}};

static json_t *print(const cairn_cache_view *view, bool counts)
{
    cairn_buf text;
    cairn_buf_init(&text, cairn_mem_default(), SIZE_MAX / 4);
    assert_int_equal(cairn_cache_view_print(view, counts, &text), CAIRN_OK);
    json_t *value = json_loadb(cairn_buf_str(&text), text.len_bytes, 0, NULL);
    cairn_buf_release(&text);
    assert_non_null(value);
    return value;
}

/* A view with a random tree: a long path with branches, used at random times; parents never older. */
static void grow(cairn_cache_view *view, uint32_t count, uint64_t seed)
{
    cairn_rng rng;
    cairn_rng_init(&rng, seed);
    view->room = view->count = count;
    view->nodes = cairn_mem_array(view->mem, count, sizeof *view->nodes);
    assert_non_null(view->nodes);
    view->now_ns = 1u << 30;
    uint64_t used[64];
    uint32_t depth = 0;
    for (uint32_t i = 0; i < count; i++) {
        depth = i == 0 ? 0 : 1 + (uint32_t)(cairn_rng_below(&rng, depth < 60 ? depth + 1 : 60));
        uint64_t above = depth == 0 ? view->now_ns : used[depth - 1];
        used[depth] = above - cairn_rng_below(&rng, 1000);
        view->nodes[i] = (cairn_cache_node){.depth = depth,
                                            .begin = depth == 0 ? 0 : (depth - 1) * 10,
                                            .end = depth * 10,
                                            .count_states = depth > 0,
                                            .states = {depth * 10},
                                            .slot = UINT32_MAX,
                                            .used_ns = used[depth]};
    }
}

static void count_all(const json_t *nodes, uint64_t *ret_nodes, uint64_t *ret_tokens)
{
    size_t i;
    json_t *node;
    *ret_nodes = json_array_size(nodes);
    *ret_tokens = 0;
    json_int_t depth = -1;
    json_array_foreach((json_t *)nodes, i, node)
    {
        const json_t *more = json_object_get(node, "more");
        json_int_t own = json_integer_value(json_object_get(node, "depth"));
        assert_true(own <= depth + 1); /* its parent is there */
        depth = own;
        *ret_nodes += (uint64_t)json_integer_value(json_object_get(more, "nodes"));
        *ret_tokens += (uint64_t)(json_integer_value(json_object_get(node, "end")) -
                                  json_integer_value(json_object_get(node, "begin")) +
                                  json_integer_value(json_object_get(more, "tokens")));
    }
}

static void a_tree_of_any_size_is_counted_whole(void **state)
{
    (void)state;
    const char *given = getenv("CAIRN_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 7;
    print_message("seed %llu\n", (unsigned long long)seed);
    const uint32_t counts[] = {1, 2, 100, CAIRN_CACHE_VIEW_SHOWN, CAIRN_CACHE_VIEW_SHOWN + 1, 10000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        cairn_cache_view view;
        cairn_cache_view_init(&view, cairn_mem_default(), &here);
        grow(&view, counts[i], seed + i);
        uint64_t tokens = 0;
        for (uint32_t n = 0; n < view.count; n++)
            tokens += view.nodes[n].end - view.nodes[n].begin;
        json_t *all = print(&view, true);
        const json_t *tree = json_object_get(all, "tree"), *nodes = json_object_get(tree, "nodes");
        uint64_t got_nodes, got_tokens;
        count_all(nodes, &got_nodes, &got_tokens);
        assert_int_equal(got_nodes, counts[i]);
        assert_int_equal(got_tokens, tokens);
        assert_true(json_array_size(nodes) <= CAIRN_CACHE_VIEW_SHOWN);
        assert_int_equal(json_integer_value(json_object_get(tree, "total")), counts[i]);
        json_decref(all);
        cairn_cache_view_release(&view);
    }
}

/* As a walk that knows times of pieces only might give it: a root that was never used, parents older than children. */
static void children_used_after_their_parents_are_counted_whole_too(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, 11);
    cairn_cache_view view;
    cairn_cache_view_init(&view, cairn_mem_default(), &here);
    grow(&view, 3 * CAIRN_CACHE_VIEW_SHOWN, 11);
    for (uint32_t i = 0; i < view.count; i++)
        view.nodes[i].used_ns = i == 0 ? 0 : 1 + cairn_rng_below(&rng, 100000);
    uint64_t got_nodes, got_tokens;
    json_t *all = print(&view, true);
    const json_t *nodes = json_object_get(json_object_get(all, "tree"), "nodes");
    count_all(nodes, &got_nodes, &got_tokens);
    assert_int_equal(got_nodes, view.count);
    assert_true(json_array_size(nodes) <= CAIRN_CACHE_VIEW_SHOWN);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(nodes, 0), "depth")), 0);
    json_decref(all);
    cairn_cache_view_release(&view);
}

static void counts_over_all_namespaces_are_left_out_when_asked(void **state)
{
    (void)state;
    cairn_cache_view view;
    cairn_cache_view_init(&view, cairn_mem_default(), &here);
    json_t *with = print(&view, true), *without = print(&view, false);
    assert_non_null(json_object_get(with, "held"));
    assert_non_null(json_object_get(with, "since_start"));
    assert_null(json_object_get(without, "held"));
    assert_null(json_object_get(without, "since_start"));
    assert_non_null(json_object_get(without, "bytes"));
    json_decref(with);
    json_decref(without);
    cairn_cache_view_release(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_of_any_size_is_counted_whole),
        cmocka_unit_test(children_used_after_their_parents_are_counted_whole_too),
        cmocka_unit_test(counts_over_all_namespaces_are_left_out_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
