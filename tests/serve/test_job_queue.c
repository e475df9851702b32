/*
 * Owners take turns, and a flood of one gives way to another.
 */
#include "test_support.h"

#include "serve/job_queue.h"

/* A queue holds what it is given; of a job it looks at the owner only. */
static cairn_job *job_of(uint8_t owner, uint64_t id)
{
    cairn_job *job = cairn_job_new(cairn_mem_default(), id, 1024);
    assert_non_null(job);
    job->owner.bytes[0] = owner;
    return job;
}

static void takes(cairn_job_queue *queue, uint64_t id)
{
    cairn_job *job = cairn_job_queue_take(queue);
    assert_non_null(job);
    assert_int_equal(job->id, id);
    cairn_job_queue_begun(queue, job);
    cairn_job_unref(job);
}

static void one_owner_is_served_in_order(void **state)
{
    (void)state;
    cairn_job_queue queue = {0};
    assert_null(cairn_job_queue_take(&queue));
    for (uint64_t i = 1; i <= 3; i++)
        cairn_job_queue_push(&queue, job_of(1, i));
    cairn_job *first = cairn_job_queue_take(&queue);
    assert_int_equal(first->id, 1);
    cairn_job_queue_push_front(&queue, first); /* no slot yet */
    for (uint64_t i = 1; i <= 3; i++)
        takes(&queue, i);
    assert_int_equal(queue.count, 0);
    cairn_job_queue_push(&queue, job_of(1, 4)); /* the end of the list is right again */
    takes(&queue, 4);
}

static void owners_take_turns_whatever_the_length_of_their_lines(void **state)
{
    (void)state;
    cairn_job_queue queue = {0};
    for (uint64_t i = 1; i <= 6; i++)
        cairn_job_queue_push(&queue, job_of(1, i));
    takes(&queue, 1);
    cairn_job_queue_push(&queue, job_of(2, 20));
    cairn_job_queue_push(&queue, job_of(2, 21));
    cairn_job_queue_push(&queue, job_of(3, 30));
    const uint64_t order[] = {20, 30, 2, 21, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        takes(&queue, order[i]);
}

static void more_owners_than_are_remembered_are_all_served(void **state)
{
    (void)state;
    cairn_job_queue queue = {0};
    uint64_t seen = 0;
    for (int i = 0; i < 3 * CAIRN_JOB_QUEUE_OWNERS; i++)
        cairn_job_queue_push(&queue, job_of((uint8_t)(i % (2 * CAIRN_JOB_QUEUE_OWNERS)), (uint64_t)i));
    cairn_job *job;
    while ((job = cairn_job_queue_take(&queue)) != NULL) {
        cairn_job_queue_begun(&queue, job);
        cairn_job_unref(job);
        seen++;
    }
    assert_int_equal(seen, 3 * CAIRN_JOB_QUEUE_OWNERS);
}

static void the_newest_of_a_flood_gives_way_and_nobody_else(void **state)
{
    (void)state;
    cairn_job_queue queue = {0};
    cairn_job *other = job_of(2, 99), *same = job_of(1, 98);
    assert_null(cairn_job_queue_make_way(&queue, other));
    cairn_job_queue_push(&queue, job_of(1, 1));
    assert_null(cairn_job_queue_make_way(&queue, other)); /* one each is no flood */
    cairn_job_queue_push(&queue, job_of(2, 20));
    cairn_job_queue_push(&queue, job_of(1, 2));
    cairn_job_queue_push(&queue, job_of(1, 3));
    cairn_job_queue_push(&queue, job_of(2, 21));
    assert_null(cairn_job_queue_make_way(&queue, same));
    assert_null(cairn_job_queue_make_way(&queue, other)); /* three and two */
    cairn_job_queue_push(&queue, job_of(1, 4));
    cairn_job *gone = cairn_job_queue_make_way(&queue, other);
    assert_non_null(gone);
    assert_int_equal(gone->id, 4);
    cairn_job_unref(gone);
    cairn_job_unref(other);
    cairn_job_unref(same);
    const uint64_t order[] = {1, 20, 2, 21, 3};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
        takes(&queue, order[i]);
}

static bool is_even(void *ctx, cairn_job *job)
{
    (void)ctx;
    return job->id % 2 == 0;
}

static void a_sweep_takes_out_what_leaves_and_keeps_the_order(void **state)
{
    (void)state;
    cairn_job_queue queue = {0};
    for (uint64_t i = 2; i <= 8; i++)
        cairn_job_queue_push(&queue, job_of(1, i));
    uint64_t sum = 0;
    for (cairn_job *gone = cairn_job_queue_sweep(&queue, is_even, NULL); gone != NULL;) {
        cairn_job *next = gone->next;
        sum += gone->id;
        cairn_job_unref(gone);
        gone = next;
    }
    assert_int_equal(sum, 2 + 4 + 6 + 8);
    assert_int_equal(queue.count, 3);
    cairn_job_queue_push(&queue, job_of(1, 9));
    for (uint64_t i = 3; i <= 9; i += 2)
        takes(&queue, i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_owner_is_served_in_order),
        cmocka_unit_test(owners_take_turns_whatever_the_length_of_their_lines),
        cmocka_unit_test(more_owners_than_are_remembered_are_all_served),
        cmocka_unit_test(the_newest_of_a_flood_gives_way_and_nobody_else),
        cmocka_unit_test(a_sweep_takes_out_what_leaves_and_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
