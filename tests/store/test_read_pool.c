/* Several reads at once: each is done once, in order of its start, also by who waits; what is taken back is not read. */
#include <pthread.h>

#include "store/read_pool.h"
#include "store/tier_ram.h"
#include "test_support.h"

enum { READS = 200, BYTES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held;       /* gets wait */
static unsigned inside; /* gets that wait */
static unsigned begun[READS], count_begun;

/* `blob` points to its number; every seventh can't be read. */
static cairn_status get(const cairn_read *read, uint64_t *ret_digest)
{
    unsigned number = *(const unsigned *)read->blob;
    (void)pthread_mutex_lock(&lock);
    begun[count_begun++] = number;
    inside++;
    (void)pthread_cond_broadcast(&changed);
    while (held) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    inside--;
    (void)pthread_mutex_unlock(&lock);
    memset(read->out, (int)number, read->out_bytes);
    *ret_digest = cairn_tier_ram_digest(read->out, read->out_bytes);
    return number % 7 == 3 ? CAIRN_CORRUPT : CAIRN_OK;
}

typedef struct reads {
    unsigned numbers[READS];
    uint8_t bytes[READS][BYTES];
    cairn_read items[READS];
} reads;

static void reads_init(reads *r)
{
    memset(r, 0, sizeof *r);
    count_begun = inside = 0;
    held = false;
    for (unsigned i = 0; i < READS; i++) {
        r->numbers[i] = i;
        r->items[i] =
            (cairn_read){.get = get, .blob = &r->numbers[i], .out = r->bytes[i], .out_bytes = BYTES};
    }
}

static void hold(bool on)
{
    (void)pthread_mutex_lock(&lock);
    held = on;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static void wait_until_inside(unsigned count)
{
    (void)pthread_mutex_lock(&lock);
    while (inside < count) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    (void)pthread_mutex_unlock(&lock);
}

static void each_is_read_once_and_says_how_it_went(void **state)
{
    (void)state;
    static reads r;
    for (unsigned threads = 0; threads <= 4; threads += 2) {
        cairn_read_pool *pool = NULL;
        reads_init(&r);
        assert_ok(cairn_read_pool_new(cairn_mem_default(), threads, &pool, NULL));
        for (unsigned i = 0; i < READS; i++) {
            cairn_read_start(pool, &r.items[i]);
        }
        for (unsigned i = 0; i < READS; i++) {
            cairn_read_help(pool, &r.items[i]);
            assert_true(cairn_read_done(pool, &r.items[i]));
            assert_status(r.items[i].status, i % 7 == 3 ? CAIRN_CORRUPT : CAIRN_OK);
            if (r.items[i].status == CAIRN_OK) {
                assert_int_equal(r.bytes[i][BYTES - 1], (uint8_t)i);
                assert_true(r.items[i].digest == cairn_tier_ram_digest(r.bytes[i], BYTES));
            }
        }
        assert_int_equal(count_begun, READS);
        for (unsigned i = 0; i < READS && threads == 0; i++) {
            assert_int_equal(begun[i], i);
        }
        cairn_read_pool_free(pool);
    }
}

static void several_are_under_way_at_once(void **state)
{
    (void)state;
    static reads r;
    cairn_read_pool *pool = NULL;
    reads_init(&r);
    assert_ok(cairn_read_pool_new(cairn_mem_default(), 3, &pool, NULL));
    hold(true);
    for (unsigned i = 0; i < 5; i++) {
        cairn_read_start(pool, &r.items[i]);
    }
    wait_until_inside(3); /* would never end with one after the other */
    assert_false(cairn_read_done(pool, &r.items[0]));
    hold(false);
    for (unsigned i = 0; i < 5; i++) {
        cairn_read_help(pool, &r.items[i]);
    }
    cairn_read_pool_free(pool);
}

static void what_is_taken_back_is_not_read_any_more(void **state)
{
    (void)state;
    static reads r;
    cairn_read_pool *pool = NULL;
    reads_init(&r);
    assert_ok(cairn_read_pool_new(cairn_mem_default(), 1, &pool, NULL));
    hold(true);
    for (unsigned i = 0; i < 6; i++) {
        cairn_read_start(pool, &r.items[i]);
    }
    wait_until_inside(1);
    const unsigned back[] = {5, 2, 1};
    for (unsigned i = 0; i < 3; i++) {
        cairn_read_cancel(pool, &r.items[back[i]]);
        assert_status(r.items[back[i]].status, CAIRN_CANCELLED);
    }
    cairn_read_start(pool, &r.items[6]); /* the end of the queue is where it should be */
    hold(false);
    cairn_read_cancel(pool, &r.items[0]); /* waits for what runs */
    assert_ok(r.items[0].status);
    const unsigned rest[] = {3, 4, 6};
    for (unsigned i = 0; i < 3; i++) {
        cairn_read_help(pool, &r.items[rest[i]]);
    }
    /* The helping thread and the pool's pass each other, so only which ones were read is certain. */
    assert_int_equal(count_begun, 4);
    unsigned read = 0;
    for (unsigned i = 0; i < count_begun; i++) {
        read |= 1U << begun[i];
    }
    assert_int_equal(read, 1U << 0 | 1U << 3 | 1U << 4 | 1U << 6);
    cairn_read_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_read_once_and_says_how_it_went),
        cmocka_unit_test(several_are_under_way_at_once),
        cmocka_unit_test(what_is_taken_back_is_not_read_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
