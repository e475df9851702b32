/*
 * Writing behind a server that has no idle moment: what kill -9 costs then, and what it costs the requests.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "base/io_memory.h"
#include "cache/keeper_internal.h"
#include "cache_support.h"

#define SECOND_NS UINT64_C(1000000000)

enum { BLOCK = CAIRN_KEEPER_BLOCK_TOKENS, MS_NS = 1000000, TOKEN_MS = 4 };

typedef struct busy_world {
    world w;
    cairn_cache_disk disk;
    cairn_io_memory *memory;
} busy_world;

static void busy_init(busy_world *b, uint32_t slots)
{
    world_init(&b->w);
    b->memory = cairn_io_memory_new(cairn_mem_default(), 256u << 20);
    assert_non_null(b->memory);
    b->disk =
        (cairn_cache_disk){.dir = "/store", .bytes_max = 128u << 20, .io = cairn_io_memory_io(b->memory)};
    b->w.replica.slots = slots;
}

static void busy_open(busy_world *b)
{
    b->w.options.disk = &b->disk;
    world_open(&b->w);
    assert_non_null(b->w.cache->keeper);
}

/* The writer has done what it was given. Nothing more is handed over. */
static void writer_catches_up(busy_world *b)
{
    cairn_keeper *keeper = b->w.cache->keeper;
    for (bool writing = true; writing;) {
        cairn_keeper_wait(keeper, cairn_clock_now_ns(cairn_clock_system()) + SECOND_NS / 100);
        cairn_keeper_settle(keeper);
        writing = cairn_keeper_writing(keeper);
    }
}

/* As kill -9 and a loss of power leave it: no flush, what was not synced is gone. */
static void kill_it(busy_world *b)
{
    world_close(&b->w);
    assert_ok(cairn_io_memory_power_loss(b->memory, 7));
    busy_open(b);
}

static void talk_of(talk *t, uint64_t seed, uint32_t words)
{
    memset(t, 0, sizeof *t);
    talk_add(t, CAIRN_ROLE_SYSTEM, seed, 700);
    talk_add(t, CAIRN_ROLE_USER, seed + 1, words);
}

/* One request that goes on and on: a token more, or the next step of its reading. */
static void step(busy_world *b, cairn_request *request)
{
    if (cairn_request_phase(request) == CAIRN_PHASE_READY) {
        const float *logits = cairn_request_logits(request);
        assert_ok(cairn_request_push(request, logits_greedy(logits, b->w.replica.vocab_size)));
    }
    assert_ok(cairn_cache_step(b->w.cache, &request, 1, NULL));
}

static void end_request(busy_world *b, cairn_request *request)
{
    cairn_cache_end(b->w.cache, request, CAIRN_END_STOPPED);
    cairn_request_free(request);
}

/* Tokens that have to be read again, of those that were read when it was killed after so many steps. */
static uint32_t read_again_after(uint32_t steps, uint32_t *ret_reached)
{
    busy_world b;
    busy_init(&b, 1);
    b.w.replica.cost.token_ns = TOKEN_MS * MS_NS;
    busy_open(&b);
    talk t;
    rendered r;
    outcome o;
    cairn_request *request;
    talk_of(&t, 3, 12000);
    render(&r, &t, CAIRN_RESUME_FAST);
    assert_ok(cairn_cache_begin(b.w.cache, &r.prompt, &request, NULL));
    for (uint32_t i = 0; i < steps && cairn_request_phase(request) != CAIRN_PHASE_READY; i++) {
        step(&b, request);
        writer_catches_up(&b);
    }
    *ret_reached = cairn_request_record(request)->read;
    end_request(&b, request); /* nothing of what ending would hand over is written any more */
    kill_it(&b);
    ask(&b.w, &r, 1, &o);
    rendered_release(&r);
    talk_release(&t);
    world_close(&b.w);
    cairn_io_memory_free(b.memory);
    return o.record.resume < *ret_reached ? *ret_reached - o.record.resume : 0;
}

/* However far it is: FRONT_S of reading, a block, and the two steps between them are all that is lost. */
static void prompt_that_is_being_read_is_kept_as_it_is_read(void **state)
{
    (void)state;
    const uint32_t bound = KEEPER_FRONT_S * 1000 / TOKEN_MS + 3 * BLOCK;
    uint32_t worst = 0, last = 0;
    for (uint32_t steps = 1; steps <= 27; steps += 2) {
        uint32_t reached = 0;
        uint32_t again = read_again_after(steps, &reached);
        assert_true(reached > last);
        last = reached;
        worst = again > worst ? again : worst;
        assert_true(again <= bound);
    }
    printf("of %u tokens at most %u are read again, bound %u\n", last, worst, bound);
    assert_true(last > 2 * bound);
}

/* One slot, one conversation after the other, each request behind the one before: no call of idle or flush ever. */
static void server_that_is_never_idle_loses_little_to_a_kill(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("never_idle", 4));
    for (int round = 0; round < 4; round++) {
        busy_world b;
        busy_init(&b, 1 + (uint32_t)round % 2);
        busy_open(&b);
        talk talks[3];
        uint32_t prompts[3] = {0};
        outcome o;
        for (uint32_t i = 0; i < 3; i++) {
            talk_of(&talks[i], 100 * i + (uint64_t)round, 1500);
        }
        uint64_t turns = 12 + cairn_rng_below(&rng, 12);
        for (uint64_t i = 0; i < turns; i++) {
            uint32_t which = i < 3 ? (uint32_t)i : (uint32_t)cairn_rng_below(&rng, 3);
            rendered r;
            cairn_request *request;
            uint32_t answer = 30;
            cairn_token tokens[30];
            if (i >= 3) {
                talk_add(&talks[which], CAIRN_ROLE_USER, cairn_rng_u64(&rng), 200);
            }
            render(&r, &talks[which], CAIRN_RESUME_FAST);
            assert_ok(cairn_cache_begin(b.w.cache, &r.prompt, &request, NULL));
            while (answer > 0) {
                step(&b, request);
                writer_catches_up(&b);
                if (cairn_request_phase(request) == CAIRN_PHASE_READY) {
                    tokens[30 - answer--] =
                        logits_greedy(cairn_request_logits(request), b.w.replica.vocab_size);
                }
            }
            end_request(&b, request);
            talk_add_answer(&talks[which], tokens, 30);
            prompts[which] = r.prompt.count;
            rendered_release(&r);
        }
        kill_it(&b);
        for (uint32_t i = 0; i < 3; i++) {
            rendered r;
            talk_add(&talks[i], CAIRN_ROLE_USER, 9, 20);
            render(&r, &talks[i], CAIRN_RESUME_FAST);
            ask(&b.w, &r, 1, &o);
            assert_true(o.record.resume + 2 * BLOCK >= prompts[i]);
            rendered_release(&r);
            talk_release(&talks[i]);
        }
        world_close(&b.w);
        cairn_io_memory_free(b.memory);
    }
}

/* Copying costs 8 ms a block here: while an answer is written it takes a fiftieth of the time, else a tenth. */
static void copying_beside_requests_takes_its_part_of_the_time_and_no_more(void **state)
{
    (void)state;
    busy_world b;
    busy_init(&b, 1);
    b.w.replica.cost.rows_call_ns = 8 * MS_NS;
    b.w.replica.cost.token_ns = MS_NS / 50; /* a fast reader: keeping up would take more than its part */
    b.w.replica.cost.decode_call_ns = 2 * MS_NS;
    busy_open(&b);
    talk t;
    rendered r;
    cairn_request *request;
    talk_of(&t, 3, 12000);
    render(&r, &t, CAIRN_RESUME_FAST);
    assert_ok(cairn_cache_begin(b.w.cache, &r.prompt, &request, NULL));
    const cairn_replica_counters *counters = cairn_replica_counters_get(b.w.engine);
    const uint64_t parts[2] = {KEEPER_PART_READING, KEEPER_PART_ANSWERING};
    uint64_t copies[2] = {0}, begin_ns = b.w.clock_ns, last_ns = 0;
    for (int answers = 0; answers < 2; answers++) {
        begin_ns = b.w.clock_ns;
        for (uint32_t i = 0; answers ? i < 1000 : cairn_request_phase(request) != CAIRN_PHASE_READY; i++) {
            uint64_t before = counters->calls[CAIRN_REPLICA_ROWS_EXPORT], at_ns = b.w.clock_ns;
            step(&b, request);
            writer_catches_up(&b);
            uint64_t copied = counters->calls[CAIRN_REPLICA_ROWS_EXPORT] - before;
            assert_true(copied <= 1);
            if (copied == 1) {
                assert_true(last_ns == 0 || !answers || at_ns - last_ns >= 8 * MS_NS * parts[1] ||
                            copies[1] == 0);
                last_ns = at_ns;
            }
            copies[answers] += copied;
        }
        uint64_t took_ns = b.w.clock_ns - begin_ns;
        printf("%s: %llu copies in %llu ms\n", answers ? "answering" : "reading",
               (unsigned long long)copies[answers], (unsigned long long)(took_ns / MS_NS));
        assert_true(copies[answers] * 8 * MS_NS * parts[answers] <= took_ns + 8 * MS_NS * parts[answers]);
        assert_true(copies[answers] > 1);
    }
    end_request(&b, request);
    rendered_release(&r);
    talk_release(&t);
    world_close(&b.w);
    cairn_io_memory_free(b.memory);
}

/* --- a disk that hangs -------------------------------------------------------------------------------------- */

static cairn_io sane;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opens = PTHREAD_COND_INITIALIZER;
static bool gate_open = true;
static uint64_t waits;
static pthread_t engine_thread;
static atomic_uint_fast64_t own_calls; /* of the engine's thread */

static cairn_status gate_sync(cairn_file *file, cairn_error *reterr)
{
    (void)pthread_mutex_lock(&gate);
    waits += gate_open ? 0 : 1;
    (void)pthread_cond_broadcast(&gate_opens);
    while (!gate_open) {
        (void)pthread_cond_wait(&gate_opens, &gate);
    }
    (void)pthread_mutex_unlock(&gate);
    return sane.file_sync(file, reterr);
}

static cairn_status gate_file_open(cairn_io *self, const char *path, unsigned flags, cairn_file **ret_file,
                                   cairn_error *reterr)
{
    if (pthread_equal(pthread_self(), engine_thread)) {
        atomic_fetch_add(&own_calls, 1);
    }
    return sane.open(self, path, flags, ret_file, reterr);
}

/* A sync that never comes back: reading and answering go on, and no step opens a file. */
static void disk_that_hangs_holds_up_no_token(void **state)
{
    (void)state;
    busy_world b;
    busy_init(&b, 2);
    sane = *cairn_io_memory_io(b.memory);
    cairn_io_memory_io(b.memory)->file_sync = gate_sync;
    cairn_io_memory_io(b.memory)->open = gate_file_open;
    engine_thread = pthread_self();
    busy_open(&b);
    talk t;
    rendered r;
    outcome o;
    cairn_request *request;
    talk_of(&t, 3, 4000);
    render(&r, &t, CAIRN_RESUME_FAST);
    (void)pthread_mutex_lock(&gate);
    gate_open = false;
    (void)pthread_mutex_unlock(&gate);
    assert_ok(cairn_cache_begin(b.w.cache, &r.prompt, &request, NULL));
    uint64_t before = atomic_load(&own_calls);
    for (uint32_t i = 0; i < 400; i++) {
        step(&b, request);
        if (i == 4) { /* the writer has a block in hand, and hangs */
            (void)pthread_mutex_lock(&gate);
            while (waits == 0) {
                (void)pthread_cond_wait(&gate_opens, &gate);
            }
            (void)pthread_mutex_unlock(&gate);
        }
    }
    assert_true(cairn_request_record(request)->answer_tokens > 300);
    assert_int_equal(atomic_load(&own_calls), before);
    end_request(&b, request);
    (void)pthread_mutex_lock(&gate);
    gate_open = true;
    (void)pthread_cond_broadcast(&gate_opens);
    (void)pthread_mutex_unlock(&gate);
    assert_true(cairn_cache_flush(b.w.cache, 60 * SECOND_NS));
    kill_it(&b);
    ask(&b.w, &r, 3, &o);
    assert_true(o.record.resume + BLOCK > r.prompt.count);
    rendered_release(&r);
    talk_release(&t);
    world_close(&b.w);
    cairn_io_memory_free(b.memory);
}

/* What was learned of divergences: written while the server runs, not only when it ends. */
static void learned_counts_outlive_a_kill(void **state)
{
    (void)state;
    busy_world b;
    outcome o;
    busy_init(&b, 1);
    busy_open(&b);
    talk t;
    talk_of(&t, 3, 900);
    for (uint64_t i = 0; i < 6; i++) {
        talk_cut(&t, 2);
        talk_add(&t, CAIRN_ROLE_USER, 50 + i, 200);
        turn(&b.w, &t, CAIRN_RESUME_FAST, 5, &o);
    }
    static uint8_t before[1 << 14], after[1 << 14];
    b.w.clock_ns += 61 * SECOND_NS;
    turn(&b.w, &t, CAIRN_RESUME_FAST, 5, &o);
    size_t count = cairn_core_counts_save(b.w.cache->core, before, sizeof before);
    cairn_keeper *keeper = b.w.cache->keeper;
    (void)pthread_mutex_lock(&keeper->lock);
    while (keeper->page != NULL || keeper->page_writing) {
        (void)pthread_cond_wait(&keeper->done, &keeper->lock);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    kill_it(&b);
    assert_int_equal(cairn_core_counts_save(b.w.cache->core, after, sizeof after), count);
    assert_memory_equal(after, before, count);
    talk_release(&t);
    world_close(&b.w);
    cairn_io_memory_free(b.memory);
}

/* A job that rows of memory used is used again for a state: the state is written, whatever rows the disk has. */
static void state_is_kept_by_a_job_that_kept_rows_of_memory_before(void **state)
{
    (void)state;
    busy_world b;
    outcome o;
    busy_init(&b, 1);
    busy_open(&b);
    talk t;
    talk_of(&t, 3, 1500);
    turn(&b.w, &t, CAIRN_RESUME_FAST, 20, &o);
    writer_catches_up(&b);
    for (int i = 0; i < KEEPER_JOBS; i++) {
        assert_int_equal(b.w.cache->keeper->jobs[i].phase, JOB_FREE);
        b.w.cache->keeper->jobs[i].covered = true; /* as such rows leave it */
    }
    assert_true(cairn_cache_flush(b.w.cache, 20 * SECOND_NS));
    uint32_t before = o.record.prompt_tokens;
    kill_it(&b);
    talk_add(&t, CAIRN_ROLE_USER, 9, 100);
    turn(&b.w, &t, CAIRN_RESUME_FAST, 5, &o);
    assert_true(o.record.resume + 8 >= before + 20);
    talk_release(&t);
    world_close(&b.w);
    cairn_io_memory_free(b.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_that_is_being_read_is_kept_as_it_is_read),
        cmocka_unit_test(server_that_is_never_idle_loses_little_to_a_kill),
        cmocka_unit_test(copying_beside_requests_takes_its_part_of_the_time_and_no_more),
        cmocka_unit_test(disk_that_hangs_holds_up_no_token),
        cmocka_unit_test(learned_counts_outlive_a_kill),
        cmocka_unit_test(state_is_kept_by_a_job_that_kept_rows_of_memory_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
