/*
 * A writer ends at a random moment, again and again: each entry is whole or absent, what was reported as written is there, and
 * nothing is left lying about. Some hundreds of times by SIGKILL on real files; thousands of times on a disk in memory that
 * loses power after a random call.
 *
 *   test_disk_kill [KILLS [POWER_LOSSES]]
 */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io_faulty.h"
#include "disk_support.h"

enum { KILLS_USUAL = 200, LOSSES_USUAL = 2000, PUTS_MAX = 400, BUDGET = 24 << 20 };
enum { LOSS_PUTS = 6, LOSS_ROUNDS = 50, LOSS_BUDGET = 400 << 10 }; /* of one disk in memory */

static const cairn_namespace space = {{7}};
static cairn_token tokens[SUPPORT_TOKENS_MAX];
static int kills = KILLS_USUAL, losses = LOSSES_USUAL;

static cairn_status store_open(const char *dir, cairn_disk **ret_disk)
{
    cairn_disk_options options = {.dir = dir, .bytes_max = BUDGET};
    memset(options.fingerprint, 0x5a, sizeof options.fingerprint);
    return cairn_disk_open(cairn_mem_default(), cairn_io_posix(), &options, ret_disk, NULL);
}

static void die(int signal_number)
{
    (void)signal_number;
    (void)kill(getpid(), SIGKILL);
}

/* The position of the n-th blob of a round. */
static uint32_t position_of(int round, int put)
{
    return 1 + (uint32_t)(round * 37 + put * 11) % (SUPPORT_TOKENS_MAX - 600);
}

/* In the child: write until the alarm ends it; each blob that is durable is reported by one byte. */
static void write_until_killed(const char *dir, int round, uint64_t delay_us, int report)
{
    struct itimerval timer = {.it_value = {.tv_sec = 0, .tv_usec = (suseconds_t)(delay_us % 1000000 + 1)}};
    cairn_disk *disk = NULL;
    (void)signal(SIGALRM, die);
    if (round % 2 == 0) { /* also while it opens */
        (void)setitimer(ITIMER_REAL, &timer, NULL);
    }
    if (store_open(dir, &disk) != CAIRN_OK || cairn_disk_scan(disk, false, NULL) != CAIRN_OK) {
        _exit(3);
    }
    if (round % 2 == 1) {
        (void)setitimer(ITIMER_REAL, &timer, NULL);
    }
    for (int i = 0; i < PUTS_MAX; i++) {
        char name[CAIRN_BLOB_NAME_BYTES];
        uint32_t at = position_of(round, i);
        bool rows = i % 3 == 1;
        cairn_status status = support_put(disk, &space, rows ? CAIRN_BLOB_ROWS : CAIRN_BLOB_STATE, tokens,
                                          rows ? at - 1 : at, rows ? at + 400 : at,
                                          3000 + (uint64_t)(i % 5) * 90000, 1000.0 * (round + 1) + i, name);
        uint8_t byte = (uint8_t)(status == CAIRN_OK ? 1 : 2);
        if (write(report, &byte, 1) != 1) {
            _exit(4);
        }
    }
    (void)pause(); /* all written: the alarm is still to come */
    _exit(5);
}

typedef struct check_list {
    cairn_disk_row rows[4096];
    uint32_t count;
} check_list;

static bool note_row(void *ctx, const cairn_disk_row *row)
{
    check_list *list = ctx;
    list->rows[list->count++] = *row;
    return list->count < sizeof list->rows / sizeof *list->rows;
}

static bool count_name(void *ctx, const char *name)
{
    (void)name;
    ++*(uint32_t *)ctx;
    return true;
}

static uint32_t names_in(const char *dir, const char *folder)
{
    char path[1200];
    uint32_t count = 0;
    (void)snprintf(path, sizeof path, "%s/%s", dir, folder);
    assert_ok(cairn_io_list(cairn_io_posix(), path, count_name, &count, NULL));
    return count;
}

/* Gives the number of entries, all of which are whole. */
static uint32_t check_store(const char *dir, int round, int acknowledged)
{
    static check_list list;
    cairn_disk *disk = NULL;
    cairn_disk_stats stats;
    assert_ok(store_open(dir, &disk));
    assert_ok(cairn_disk_scan(disk, false, NULL));
    list.count = 0;
    assert_ok(cairn_disk_each(disk, note_row, &list, NULL));
    for (uint32_t i = 0; i < list.count; i++) {
        assert_ok(support_get(disk, &list.rows[i]));
    }
    cairn_disk_stats_get(disk, &stats);
    assert_int_equal(stats.set_aside, 0);
    assert_int_equal(names_in(dir, "bad"), 0);
    assert_int_equal(names_in(dir, "tmp"), 0);
    assert_true(stats.file_bytes <= BUDGET);
    /* The last one that was reported is worth more than all before: it can't have been removed for others. */
    if (acknowledged > 0) {
        uint32_t at = position_of(round, acknowledged - 1);
        bool rows = (acknowledged - 1) % 3 == 1, found = false;
        for (uint32_t i = 0; i < list.count && !found; i++) {
            const cairn_blob_meta *meta = &list.rows[i].meta;
            found = rows ? meta->begin == at - 1 && meta->end == at + 400 : meta->end == at;
        }
        assert_true(found);
    }
    cairn_disk_close(disk);
    return list.count;
}

static void remove_tree(const char *dir)
{
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
        _exit(127);
    }
    int end = 1;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_int_equal(end, 0);
}

static void killed_writer_leaves_each_entry_whole_or_absent(void **state)
{
    (void)state;
    char dir[1024];
    cairn_rng rng;
    uint64_t entries = 0, reported = 0, killed = 0;
    (void)snprintf(dir, sizeof dir, "%s/disk-kill-%d", CAIRN_BUILD_DIR, (int)getpid());
    cairn_rng_init(&rng, cairn_test_seed("killed_writer", 20));
    support_tokens(1, 700, tokens, SUPPORT_TOKENS_MAX);
    remove_tree(dir);
    for (int round = 0; round < kills; round++) {
        int report[2];
        assert_int_equal(pipe(report), 0);
        uint64_t delay_us = cairn_rng_below(&rng, round % 2 == 0 ? 5000 : 60000);
        (void)fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(report[0]);
            write_until_killed(dir, round, delay_us, report[1]);
        }
        (void)close(report[1]);
        uint8_t byte;
        int acknowledged = 0, sure = 0;
        while (read(report[0], &byte, 1) == 1) {
            acknowledged++;
            sure = byte == 1 ? acknowledged : sure;
        }
        (void)close(report[0]);
        int end = 0;
        assert_int_equal(waitpid(child, &end, 0), child);
        assert_true(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL);
        entries += check_store(dir, round, sure == acknowledged ? sure : 0);
        reported += (uint64_t)acknowledged;
        killed++;
    }
    printf("%llu kills, %llu entries reported, %llu read again\n", (unsigned long long)killed,
           (unsigned long long)reported, (unsigned long long)entries);
    assert_true(reported > 0 && entries > 0);
    remove_tree(dir);
}

/* Write until the call at which it all ends. Gives the ends of those that are durable, for sure. */
static uint32_t write_until_stopped(cairn_io *io, uint64_t round, uint32_t ends[LOSS_PUTS])
{
    cairn_disk *disk = NULL;
    uint32_t sure = 0;
    if (support_open(io, LOSS_BUDGET, NULL, NULL, &disk) != CAIRN_OK) {
        return 0;
    }
    for (uint32_t i = 0; i < LOSS_PUTS; i++) {
        char name[CAIRN_BLOB_NAME_BYTES];
        uint32_t at = 100 + (uint32_t)((round * 13 + i * 7) % 700);
        bool rows = i % 3 == 1;
        /* Each is worth more than all before, so that none of them makes room for another one of this round. */
        if (support_put(disk, &space, rows ? CAIRN_BLOB_ROWS : CAIRN_BLOB_STATE, tokens, rows ? at - 50 : at,
                        at, 300 + i * 2000, 1e6 * (double)(round + 1) + i, name) == CAIRN_OK) {
            ends[sure++] = at;
        }
    }
    cairn_disk_close(disk);
    return sure;
}

static void check_after_loss(cairn_io *io, const uint32_t *ends, uint32_t sure)
{
    static check_list list;
    cairn_disk *disk = NULL;
    cairn_disk_stats stats;
    assert_ok(support_open(io, LOSS_BUDGET, NULL, NULL, &disk));
    list.count = 0;
    assert_ok(cairn_disk_each(disk, note_row, &list, NULL));
    for (uint32_t i = 0; i < list.count; i++) {
        assert_ok(support_get(disk, &list.rows[i]));
    }
    cairn_disk_stats_get(disk, &stats);
    /* Files that were removed may be back; what then goes to make room is chosen without the values, which were in the index. */
    for (uint32_t k = 0; k < sure && stats.evicted == 0; k++) {
        bool found = false;
        for (uint32_t i = 0; i < list.count && !found; i++) {
            found = list.rows[i].meta.end == ends[k];
        }
        assert_true(found);
    }
    assert_int_equal(stats.set_aside, 0);
    assert_true(stats.file_bytes <= LOSS_BUDGET);
    cairn_disk_close(disk);
}

static void power_lost_after_any_call_leaves_each_entry_whole_or_absent(void **state)
{
    (void)state;
    cairn_rng rng;
    cairn_rng_init(&rng, cairn_test_seed("power_lost", 21));
    cairn_io_memory *memory = NULL;
    uint64_t stopped = 0, reported = 0;
    support_tokens(1, 700, tokens, SUPPORT_TOKENS_MAX);
    for (int round = 0; round < losses; round++) {
        uint32_t ends[LOSS_PUTS];
        if (round % LOSS_ROUNDS == 0) {
            cairn_io_memory_free(memory);
            memory = cairn_io_memory_new(cairn_mem_default(), 1 << 22);
            assert_non_null(memory);
        }
        /* Opening looks at 256 folders; most of the moments lie behind that. */
        uint64_t at =
            cairn_rng_chance(&rng, 0.15) ? 1 + cairn_rng_below(&rng, 280) : 280 + cairn_rng_below(&rng, 500);
        cairn_io_faulty faulty;
        cairn_io_faulty_init(&faulty, cairn_io_memory_io(memory), CAIRN_IO_FAULT_STOP, at);
        uint32_t sure = write_until_stopped(cairn_io_faulty_io(&faulty), (uint64_t)round, ends);
        stopped += faulty.hits != 0 ? 1 : 0;
        reported += sure;
        cairn_io_faulty_release(&faulty);
        assert_ok(cairn_io_memory_power_loss(memory, cairn_rng_u64(&rng)));
        check_after_loss(cairn_io_memory_io(memory), ends, sure);
    }
    cairn_io_memory_free(memory);
    printf("%llu of %d stopped before the end, %llu entries reported\n", (unsigned long long)stopped, losses,
           (unsigned long long)reported);
    assert_true(stopped * 2 > (uint64_t)losses && reported > (uint64_t)losses);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_writer_leaves_each_entry_whole_or_absent),
        cmocka_unit_test(power_lost_after_any_call_leaves_each_entry_whole_or_absent)};
    if (argc > 1) {
        kills = (int)strtol(argv[1], NULL, 10);
    }
    if (argc > 2) {
        losses = (int)strtol(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
