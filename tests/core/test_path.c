/*
 * test_path - the tree of token paths against a naive list of paths.
 */
#include "base/mem_test.h"
#include "base/rng.h"
#include "core/path.h"
#include "test_support.h"

enum { PATHS = 400, LONG = 120, SLOTS = 3 };

typedef struct naive {
    cairn_token tokens[PATHS][LONG];
    uint32_t lengths[PATHS];
    uint32_t count;
} naive;

static uint32_t common(const cairn_token *a, uint32_t na, const cairn_token *b, uint32_t nb)
{
    uint32_t i = 0;
    while (i < na && i < nb && a[i] == b[i]) {
        i++;
    }
    return i;
}

static void verified(const cairn_tree *tree)
{
    cairn_error error = {0};
    if (cairn_tree_verify(tree, &error) != CAIRN_OK) {
        fail_msg("%s", error.detail);
    }
}

/* A path near an earlier one, or a new one. */
static uint32_t make_path(cairn_rng *rng, const naive *n, cairn_token *out)
{
    uint32_t keep = 0;
    if (n->count > 0 && cairn_rng_chance(rng, 0.8)) {
        uint32_t from = (uint32_t)cairn_rng_below(rng, n->count);
        keep = (uint32_t)cairn_rng_below(rng, n->lengths[from] + 1);
        memcpy(out, n->tokens[from], keep * sizeof *out);
    }
    uint32_t length = keep + (uint32_t)cairn_rng_below(rng, LONG - keep + 1);
    for (uint32_t i = keep; i < length; i++) {
        out[i] = (cairn_token)cairn_rng_below(rng, 3);
    }
    return length;
}

static void tree_equals_the_list_of_paths(void **state)
{
    (void)state;
    uint64_t seed = cairn_test_seed("path", 5);
    for (uint64_t round = 0; round < 30; round++) {
        cairn_rng rng;
        cairn_rng_init_stream(&rng, seed, round);
        cairn_mem_test heap;
        cairn_mem_test_init(&heap, 0);
        cairn_ledger ledger;
        cairn_ledger_init(&ledger, 1 << 24, 1 << 24);
        cairn_tree tree;
        assert_ok(cairn_tree_init(&tree, &heap.mem, &ledger, SLOTS));
        cairn_namespace name = {{0}};
        uint32_t root = cairn_space_at(&tree, cairn_tree_space(&tree, &name, true))->root;
        naive *n = test_calloc(1, sizeof *n);
        for (uint32_t i = 0; i < PATHS / 2; i++) {
            cairn_token tokens[LONG];
            uint32_t length = make_path(&rng, n, tokens);
            uint32_t best = 0;
            for (uint32_t j = 0; j < n->count; j++) {
                uint32_t c = common(tokens, length, n->tokens[j], n->lengths[j]);
                best = c > best ? c : best;
            }
            uint32_t node;
            assert_int_equal(cairn_tree_match(&tree, root, tokens, length, &node), best);
            uint32_t slot = (uint32_t)cairn_rng_below(&rng, SLOTS);
            cairn_tree_cursor_set(&tree, slot, root, 0);
            uint32_t at = 0;
            while (at < length) { /* in pieces, as reading does */
                uint32_t piece = 1 + (uint32_t)cairn_rng_below(&rng, length - at);
                assert_ok(cairn_tree_extend(&tree, slot, tokens + at, piece, length - at));
                at += piece;
            }
            assert_int_equal(cairn_tree_match(&tree, root, tokens, length, &node), length);
            memcpy(n->tokens[n->count], tokens, sizeof tokens);
            n->lengths[n->count++] = length;
            for (uint32_t j = 0; j < SLOTS; j++) { /* of two cursors */
                const cairn_cursor *c = &tree.cursors[j];
                if (c->node != CAIRN_NONE) {
                    assert_true(cairn_tree_common(&tree, j, node, length) <= c->position);
                }
            }
            assert_int_equal(cairn_tree_common(&tree, slot, node, length), length);
            verified(&tree);
        }
        /* Leaves may go one by one; the index shrinks to the root. */
        for (uint32_t j = 0; j < SLOTS; j++) {
            cairn_tree_cursor_set(&tree, j, CAIRN_NONE, 0);
        }
        uint64_t before = ledger.index_bytes;
        for (bool gone = true; gone;) {
            gone = false;
            for (uint32_t i = tree.oldest; i != CAIRN_NONE && !gone; i = cairn_node_at(&tree, i)->newer) {
                if (cairn_tree_leaf_free(&tree, i)) {
                    cairn_tree_leaf_remove(&tree, i);
                    gone = true;
                }
            }
            verified(&tree);
        }
        assert_int_equal(tree.count_tokens, 0);
        assert_int_equal(tree.nodes.count, 1);
        assert_true(ledger.index_bytes < before);
        test_free(n);
        cairn_tree_release(&tree);
        assert_int_equal(ledger.index_bytes, 0);
        assert_int_equal(cairn_mem_test_leaked(&heap), 0);
        cairn_mem_test_release(&heap);
    }
}

static void a_million_tokens_in_one_path(void **state)
{
    (void)state;
    enum { MANY = 1000000, BATCH = 2048 };
    cairn_ledger ledger;
    cairn_ledger_init(&ledger, 1 << 30, 1 << 30);
    cairn_tree tree;
    assert_ok(cairn_tree_init(&tree, cairn_mem_default(), &ledger, 1));
    cairn_namespace name = {{0}};
    uint32_t root = cairn_space_at(&tree, cairn_tree_space(&tree, &name, true))->root;
    cairn_token *tokens = malloc(MANY * sizeof *tokens);
    assert_non_null(tokens);
    for (uint32_t i = 0; i < MANY; i++) {
        tokens[i] = (cairn_token)(i * 2654435761u >> 12);
    }
    cairn_tree_cursor_set(&tree, 0, root, 0);
    for (uint32_t i = 0; i < MANY; i += BATCH) {
        uint32_t count = MANY - i < BATCH ? MANY - i : BATCH;
        assert_ok(cairn_tree_extend(&tree, 0, tokens + i, count, MANY - i));
        assert_true(cairn_tree_mark(&tree, tree.cursors[0].node, i + count, true) != CAIRN_NONE);
    }
    uint32_t node;
    assert_int_equal(cairn_tree_match(&tree, root, tokens, MANY, &node), MANY);
    assert_true(ledger.index_bytes <= UINT64_C(8) * MANY);
    verified(&tree);
    tokens[500000] ^= 1;
    assert_int_equal(cairn_tree_match(&tree, root, tokens, MANY, &node), 500000);
    free(tokens);
    cairn_tree_release(&tree);
}

static void a_full_index_refuses_and_stays_whole(void **state)
{
    (void)state;
    for (uint64_t room = 0; room < 6000; room += 150) {
        cairn_ledger ledger;
        cairn_ledger_init(&ledger, 1 << 20, room);
        ledger.index_bytes_max = room;
        cairn_tree tree;
        assert_ok(cairn_tree_init(&tree, cairn_mem_default(), &ledger, 1));
        cairn_namespace name = {{0}};
        uint32_t space = cairn_tree_space(&tree, &name, true);
        for (int i = 0; i < 20 && space != CAIRN_NONE; i++) {
            cairn_token tokens[50];
            for (int j = 0; j < 50; j++) {
                tokens[j] = j < i * 2 ? 0 : i;
            }
            cairn_tree_cursor_set(&tree, 0, cairn_space_at(&tree, space)->root, 0);
            (void)(cairn_tree_extend(&tree, 0, tokens, 50, 50) == CAIRN_OK);
            verified(&tree);
            assert_true(ledger.index_bytes <= room);
        }
        cairn_tree_release(&tree);
        assert_int_equal(ledger.index_bytes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_equals_the_list_of_paths),
        cmocka_unit_test(a_million_tokens_in_one_path),
        cmocka_unit_test(a_full_index_refuses_and_stays_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
