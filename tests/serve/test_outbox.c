/*
 * Bytes from the engine's thread to the connection's: nothing lost, no wake missed, memory bounded.
 */
#include "test_support.h"

#include <pthread.h>

#include "serve/outbox.h"

static void give(cairn_outbox *box, const char *text, cairn_status expected)
{
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 1 << 20);
    assert_ok(cairn_buf_append_str(&buf, text));
    assert_status(cairn_outbox_put(box, &buf), expected);
    assert_int_equal(buf.len_bytes, 0);
    cairn_buf_release(&buf);
}

static void a_stream_may_begin_with_its_first_bytes(void **state)
{
    (void)state;
    cairn_outbox box;
    size_t n = 0;
    char out[16];
    cairn_outbox_init(&box, cairn_mem_default(), 100);
    assert_int_equal(cairn_outbox_wait(&box, false, NULL, &n), CAIRN_OUTBOX_SLEEP);
    give(&box, "abc", CAIRN_OK);
    assert_int_equal(cairn_outbox_wait(&box, false, NULL, &n), CAIRN_OUTBOX_READY);
    assert_int_equal(cairn_outbox_take(&box, out, 2, &n, NULL), CAIRN_OUTBOX_BYTES);
    assert_int_equal(n, 2);
    assert_int_equal(cairn_outbox_take(&box, out, 2, &n, NULL), CAIRN_OUTBOX_BYTES);
    assert_int_equal(n, 1);
    assert_int_equal(cairn_outbox_take(&box, out, 2, &n, NULL), CAIRN_OUTBOX_SLEEP);
    cairn_outbox_end(&box);
    assert_int_equal(cairn_outbox_take(&box, out, 2, &n, NULL), CAIRN_OUTBOX_END);
    cairn_outbox_release(&box);
}

static void it_knows_when_the_first_bytes_were_taken(void **state)
{
    (void)state;
    cairn_outbox box;
    cairn_clock_virtual clock;
    size_t n = 0;
    char out[16];
    cairn_clock_virtual_init(&clock, 0);
    cairn_outbox_init(&box, cairn_mem_default(), 100);
    box.clock = &clock.clock;
    cairn_clock_virtual_advance(&clock, 5);
    give(&box, "abc", CAIRN_OK);
    assert_int_equal(cairn_outbox_taken_ns(&box), 0);
    cairn_clock_virtual_advance(&clock, 2);
    assert_int_equal(cairn_outbox_take(&box, out, 2, &n, NULL), CAIRN_OUTBOX_BYTES);
    cairn_clock_virtual_advance(&clock, 2);
    assert_int_equal(cairn_outbox_take(&box, out, 2, &n, NULL), CAIRN_OUTBOX_BYTES);
    assert_int_equal(cairn_outbox_taken_ns(&box), 7);
    cairn_outbox_release(&box);
}

static void a_whole_answer_waits_for_its_end(void **state)
{
    (void)state;
    cairn_outbox box;
    size_t n = 0;
    cairn_outbox_init(&box, cairn_mem_default(), 100);
    give(&box, "abc", CAIRN_OK);
    assert_int_equal(cairn_outbox_wait(&box, true, NULL, &n), CAIRN_OUTBOX_SLEEP);
    cairn_outbox_end(&box);
    assert_int_equal(cairn_outbox_wait(&box, true, NULL, &n), CAIRN_OUTBOX_READY);
    assert_int_equal(n, 3);
    cairn_outbox_release(&box);
}

static void a_failure_before_the_start_is_an_error_and_later_a_cut(void **state)
{
    (void)state;
    cairn_outbox box;
    size_t n = 0;
    char out[4];
    cairn_api_error error = {0};
    cairn_api_error_set(&error, 500, "server_error", NULL, "broken");
    cairn_outbox_init(&box, cairn_mem_default(), 100);
    cairn_outbox_fail(&box, &error);
    assert_int_equal(cairn_outbox_wait(&box, false, NULL, &n), CAIRN_OUTBOX_FAILED);
    assert_string_equal(box.error.message, "broken");
    cairn_outbox_release(&box);
    cairn_outbox_init(&box, cairn_mem_default(), 100);
    give(&box, "abc", CAIRN_OK);
    cairn_outbox_fail(&box, &error);
    assert_int_equal(cairn_outbox_take(&box, out, 4, &n, NULL), CAIRN_OUTBOX_CANCELLED);
    cairn_outbox_release(&box);
}

static int drained;

static void count_drain(void *writer)
{
    (void)writer;
    drained++;
}

static void a_slow_reader_is_bounded_and_the_writer_hears_when_it_goes_on(void **state)
{
    (void)state;
    static char big[CAIRN_OUTBOX_HIGH_BYTES + 1], out[CAIRN_OUTBOX_HIGH_BYTES];
    cairn_outbox box;
    size_t n = 0;
    memset(big, 'x', sizeof big - 1);
    cairn_outbox_init(&box, cairn_mem_default(), CAIRN_OUTBOX_HIGH_BYTES + 10);
    box.drained = count_drain;
    drained = 0;
    give(&box, "12345", CAIRN_OK);
    assert_false(cairn_outbox_is_full(&box));
    give(&box, big, CAIRN_OK);
    assert_true(cairn_outbox_is_full(&box));
    give(&box, "1234567890", CAIRN_LIMIT);
    assert_int_equal(cairn_outbox_take(&box, out, 4, &n, NULL), CAIRN_OUTBOX_BYTES);
    assert_int_equal(drained, 0);
    assert_int_equal(cairn_outbox_take(&box, out, 8, &n, NULL), CAIRN_OUTBOX_BYTES);
    assert_int_equal(drained, 1);
    assert_false(cairn_outbox_is_full(&box));
    cairn_outbox_release(&box);
}

static void a_cancelled_one_takes_nothing_more(void **state)
{
    (void)state;
    cairn_outbox box;
    size_t n = 0;
    cairn_outbox_init(&box, cairn_mem_default(), 100);
    assert_true(cairn_outbox_cancel(&box));
    assert_false(cairn_outbox_cancel(&box));
    give(&box, "abc", CAIRN_CANCELLED);
    assert_int_equal(cairn_outbox_wait(&box, false, NULL, &n), CAIRN_OUTBOX_CANCELLED);
    cairn_outbox_release(&box);
    cairn_outbox_init(&box, cairn_mem_default(), 100);
    cairn_outbox_end(&box);
    assert_false(cairn_outbox_cancel(&box)); /* it had ended: nobody was cut off */
    cairn_outbox_release(&box);
}

/* Two threads: the reader sleeps on a condition that `wake` signals. */
typedef struct pair {
    cairn_outbox box;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool asleep;
    uint64_t sum, count;
} pair;

static void on_sleep(void *reader)
{
    pair *p = reader;
    pthread_mutex_lock(&p->lock);
    p->asleep = true;
    pthread_mutex_unlock(&p->lock);
}

static void on_wake(void *reader)
{
    pair *p = reader;
    pthread_mutex_lock(&p->lock);
    p->asleep = false;
    pthread_cond_signal(&p->cond);
    pthread_mutex_unlock(&p->lock);
}

static void *read_all(void *arg)
{
    pair *p = arg;
    for (;;) {
        char out[7];
        size_t n = 0;
        cairn_outbox_state got = cairn_outbox_take(&p->box, out, sizeof out, &n, on_sleep);
        if (got == CAIRN_OUTBOX_END)
            return NULL;
        if (got == CAIRN_OUTBOX_SLEEP) {
            pthread_mutex_lock(&p->lock);
            while (p->asleep)
                pthread_cond_wait(&p->cond, &p->lock);
            pthread_mutex_unlock(&p->lock);
        }
        for (size_t i = 0; i < n; i++)
            p->sum = p->sum * 31 + (uint8_t)out[i];
        p->count += n;
    }
}

static void no_byte_and_no_wake_is_lost_between_two_threads(void **state)
{
    (void)state;
    enum { PIECES = 20000 };
    static pair p;
    pthread_t reader;
    cairn_outbox_init(&p.box, cairn_mem_default(), 1 << 20);
    p.box.wake = on_wake;
    p.box.reader = &p;
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.cond, NULL);
    assert_int_equal(pthread_create(&reader, NULL, read_all, &p), 0);
    uint64_t sum = 0, count = 0;
    cairn_buf buf;
    cairn_buf_init(&buf, cairn_mem_default(), 100);
    for (uint32_t i = 0; i < PIECES; i++) {
        for (uint32_t k = 0; k < i % 4; k++) {
            uint8_t byte = (uint8_t)(i * 7 + k);
            assert_ok(cairn_buf_append_byte(&buf, byte));
            sum = sum * 31 + byte;
            count++;
        }
        assert_ok(cairn_outbox_put(&p.box, &buf));
    }
    cairn_outbox_end(&p.box);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_true(p.count == count && p.sum == sum);
    cairn_buf_release(&buf);
    cairn_outbox_release(&p.box);
    pthread_mutex_destroy(&p.lock);
    pthread_cond_destroy(&p.cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_may_begin_with_its_first_bytes),
        cmocka_unit_test(it_knows_when_the_first_bytes_were_taken),
        cmocka_unit_test(a_whole_answer_waits_for_its_end),
        cmocka_unit_test(a_failure_before_the_start_is_an_error_and_later_a_cut),
        cmocka_unit_test(a_slow_reader_is_bounded_and_the_writer_hears_when_it_goes_on),
        cmocka_unit_test(a_cancelled_one_takes_nothing_more),
        cmocka_unit_test(no_byte_and_no_wake_is_lost_between_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
