/*
 * A writer is killed with SIGKILL at a random moment, again and again, on real files: each entry is whole or absent,
 * what was reported as written is there, and nothing is left lying about.
 *
 *   test_disk_kill [KILLS]
 */
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "disk_support.h"

enum { KILLS_USUAL = 250, PUTS_MAX = 400, BUDGET = 24 << 20 };

static const cairn_namespace space = {{7}};
static cairn_token tokens[SUPPORT_TOKENS_MAX];
static int kills = KILLS_USUAL;

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
        uint64_t delay_us = cairn_rng_below(&rng, round % 2 == 0 ? 5000 : 150000);
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

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_writer_leaves_each_entry_whole_or_absent)};
    if (argc > 1) {
        kills = (int)strtol(argv[1], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
