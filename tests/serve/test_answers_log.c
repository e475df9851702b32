/*
 * Answers on disk: a restart changes nothing of what is known; nothing crosses namespaces or comes back after it was forgotten;
 * a disk that fails costs only that.
 */
#include <pthread.h>
#include <sched.h>

#include "base/io_faulty.h"
#include "base/io_memory.h"
#include "serve/answers_log.h"
#include "test_support.h"

static const cairn_namespace spaces[2] = {{.bytes = {1}}, {.bytes = {2}}};
static cairn_answers *answers;
static cairn_answers_log *logbook;

static void start(cairn_io *io, uint64_t bytes_max)
{
    assert_ok(cairn_answers_new(cairn_mem_default(), bytes_max, &answers));
    assert_ok(cairn_answers_log_new(cairn_mem_default(), io, "/store", NULL, &logbook, NULL));
    cairn_answers_attach(answers, logbook);
}

static void stop(void)
{
    cairn_answers_free(answers);
    cairn_answers_log_free(logbook);
}

static void text_of(uint32_t number, char text[64])
{
    (void)snprintf(text, 64, "{\"role\":\"assistant\",\"content\":\"Answer %u.\"}", number);
}

static cairn_hash128 talk(uint32_t number)
{
    cairn_hash128 conversation = {0, 0};
    json_t *message = json_pack("{s:s, s:i}", "role", "user", "content", (int)number);
    assert_ok(cairn_answers_follow(cairn_mem_default(), &conversation, message));
    json_decref(message);
    return conversation;
}

static void keep(const cairn_namespace *space, uint32_t number)
{
    char text[64];
    cairn_token tokens[40];
    text_of(number, text);
    for (uint32_t i = 0; i < 40; i++) {
        tokens[i] = (cairn_token)(number * 100 + i);
    }
    const cairn_answer_kept kept = {.origin = {.text = {.low = number, .high = 5},
                                               .text_bytes = 77,
                                               .chain = 99,
                                               .count_tokens = number + 3},
                                    .message = text,
                                    .message_bytes = strlen(text),
                                    .tokens = tokens,
                                    .count_tokens = 1 + number % 40};
    cairn_answers_keep(answers, space, talk(number), &kept);
}

/* Is it known, and all of it as it was kept? */
static bool known(const cairn_namespace *space, uint32_t number)
{
    char text[64];
    text_of(number, text);
    json_t *message = json_loads(text, 0, NULL);
    cairn_hash128 conversation = talk(number);
    assert_ok(cairn_answers_follow(cairn_mem_default(), &conversation, message));
    const cairn_answer_kept *found = cairn_answers_find(answers, space, conversation, message);
    if (found != NULL) {
        assert_int_equal(found->message_bytes, strlen(text));
        assert_memory_equal(found->message, text, found->message_bytes);
        assert_int_equal(found->count_tokens, 1 + number % 40);
        assert_int_equal(found->tokens[found->count_tokens - 1], number * 100 + number % 40);
        assert_true(found->origin.text.low == number && found->origin.text.high == 5);
        assert_int_equal(found->origin.text_bytes, 77);
        assert_true(found->origin.chain == 99);
        assert_int_equal(found->origin.count_tokens, number + 3);
    }
    cairn_answers_unref(answers, found);
    json_decref(message);
    return found != NULL;
}

static void what_was_answered_is_known_after_a_restart_in_its_namespace_alone(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    for (uint32_t run = 0; run < 3; run++) {
        start(cairn_io_memory_io(memory), 1 << 20);
        for (uint32_t i = 0; i < run * 50; i++) {
            assert_true(known(&spaces[0], i));
            assert_false(known(&spaces[1], i));
        }
        for (uint32_t i = run * 50; i < run * 50 + 50; i++) {
            keep(&spaces[0], i);
        }
        cairn_answers_log_settle(logbook);
        assert_ok(cairn_io_memory_power_loss(memory, run)); /* it is there before the program ends */
        stop();
    }
    cairn_io_memory_free(memory);
}

static void forgotten_answers_do_not_come_back(void **state)
{
    (void)state;
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    start(cairn_io_memory_io(memory), 1 << 20);
    for (uint32_t i = 0; i < 30; i++) {
        keep(&spaces[i % 2], i);
    }
    cairn_answers_forget(answers, &spaces[0]); /* also what still waits */
    stop();
    start(cairn_io_memory_io(memory), 1 << 20);
    for (uint32_t i = 0; i < 30; i++) {
        assert_int_equal(known(&spaces[i % 2], i), i % 2 == 1);
    }
    cairn_answers_forget(answers, NULL);
    stop();
    start(cairn_io_memory_io(memory), 1 << 20);
    for (uint32_t i = 0; i < 30; i++) {
        assert_false(known(&spaces[i % 2], i));
    }
    stop();
    cairn_io_memory_free(memory);
}

/* A read that stops in the middle until it is let go on. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool armed, held, released;
} hold = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
static cairn_io quick;

static cairn_status held_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                              cairn_error *reterr)
{
    (void)pthread_mutex_lock(&hold.lock);
    if (hold.armed && flags == CAIRN_IO_READ) {
        hold.held = true;
        (void)pthread_cond_broadcast(&hold.moved);
        while (!hold.released) {
            (void)pthread_cond_wait(&hold.moved, &hold.lock);
        }
    }
    (void)pthread_mutex_unlock(&hold.lock);
    return quick.open(self, path, flags, ret_file, reterr);
}

static void *load_one(void *unused)
{
    (void)unused;
    (void)known(&spaces[0], 1);
    return NULL;
}

static void *forget_one(void *unused)
{
    (void)unused;
    cairn_answers_forget(answers, &spaces[0]);
    return NULL;
}

/* A request asks for the namespace's answers, and they are on their way from disk when it is forgotten. */
static void namespace_forgotten_while_it_is_loaded_stays_forgotten(void **state)
{
    (void)state;
    enum { LOOKS = 100000 };
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    cairn_io *io = cairn_io_memory_io(memory);
    start(io, 1 << 20);
    keep(&spaces[0], 1);
    cairn_answers_log_settle(logbook);
    stop();
    quick = *io;
    io->open = held_open;
    start(io, 1 << 20);
    keep(&spaces[0], 2);
    cairn_answers_log_settle(logbook);
    pthread_t loads, forgets;
    cairn_answers_stats stats = {.kept = 1};
    (void)pthread_mutex_lock(&hold.lock);
    hold.armed = true;
    assert_int_equal(pthread_create(&loads, NULL, load_one, NULL), 0);
    while (!hold.held) {
        (void)pthread_cond_wait(&hold.moved, &hold.lock);
    }
    (void)pthread_mutex_unlock(&hold.lock);
    assert_int_equal(pthread_create(&forgets, NULL, forget_one, NULL), 0);
    /* It waits for what is on its way; one that did not would have emptied the memory by now. */
    for (int i = 0; i < LOOKS && stats.kept > 0; i++) {
        (void)sched_yield();
        cairn_answers_stats_get(answers, &stats);
    }
    (void)pthread_mutex_lock(&hold.lock);
    hold.released = true;
    (void)pthread_cond_broadcast(&hold.moved);
    (void)pthread_mutex_unlock(&hold.lock);
    assert_int_equal(pthread_join(loads, NULL), 0);
    assert_int_equal(pthread_join(forgets, NULL), 0);
    assert_false(known(&spaces[0], 1));
    assert_false(known(&spaces[0], 2));
    stop();
    cairn_io_memory_free(memory);
}

static void limit_of_memory_holds_while_a_namespace_is_loaded(void **state)
{
    (void)state;
    enum { LIMIT = 24 << 10 };
    cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
    start(cairn_io_memory_io(memory), 1 << 20);
    for (uint32_t i = 0; i < 300; i++) {
        keep(&spaces[0], i);
    }
    stop();
    start(cairn_io_memory_io(memory), LIMIT);
    assert_true(known(&spaces[0], 299)); /* the newest are those that stay */
    cairn_answers_stats stats;
    cairn_answers_stats_get(answers, &stats);
    assert_true(stats.bytes <= LIMIT && stats.kept > 10 && stats.kept < 300);
    stop();
    cairn_io_memory_free(memory);
}

static void disk_that_fails_costs_only_what_was_not_written(void **state)
{
    (void)state;
    const cairn_io_fault faults[] = {CAIRN_IO_FAULT_FAIL, CAIRN_IO_FAULT_TORN, CAIRN_IO_FAULT_FLIP,
                                     CAIRN_IO_FAULT_STOP};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
        for (uint64_t at = 1;; at += 1 + at / 8) {
            cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
            cairn_io_faulty faulty;
            cairn_io_faulty_init(&faulty, cairn_io_memory_io(memory), faults[f], at);
            for (int run = 0; run < 2; run++) {
                start(cairn_io_faulty_io(&faulty), 1 << 20);
                for (uint32_t i = 0; i < 5; i++) {
                    (void)known(&spaces[0], i); /* what is known is right: compared inside */
                    keep(&spaces[0], i);
                    assert_true(known(&spaces[0], i));
                }
                stop();
            }
            uint64_t hits = faulty.hits;
            cairn_io_faulty_release(&faulty);
            cairn_io_memory_free(memory);
            if (hits == 0) {
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_answered_is_known_after_a_restart_in_its_namespace_alone),
        cmocka_unit_test(forgotten_answers_do_not_come_back),
        cmocka_unit_test(namespace_forgotten_while_it_is_loaded_stays_forgotten),
        cmocka_unit_test(limit_of_memory_holds_while_a_namespace_is_loaded),
        cmocka_unit_test(disk_that_fails_costs_only_what_was_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
