/*
 * One directory, two hosts, a network file system between: what it does otherwise than a disk of one's own costs a miss or a write,
 * never a wrong byte, and is over when both look again.
 */
#include "base/rng.h"
#include "disk_support.h"
#include "store/network_view.h"

/* Two hosts and what they share. */
typedef struct network {
    cairn_io_memory *memory;
    cairn_io *files;
    network_view views[2];
    cairn_disk *disks[2];
} network;

static void network_open(network *n, uint64_t bytes_max, int64_t tick_ms)
{
    *n = (network){.memory = cairn_io_memory_new(cairn_mem_default(), 1 << 26)};
    n->files = cairn_io_memory_io(n->memory);
    for (int i = 0; i < 2; i++) {
        network_view_init(&n->views[i], n->files, tick_ms);
        assert_ok(support_open(&n->views[i].io, bytes_max, NULL, NULL, &n->disks[i]));
    }
}

static void network_close(network *n)
{
    for (int i = 0; i < 2; i++) {
        cairn_disk_close(n->disks[i]);
        network_view_release(&n->views[i]);
    }
    cairn_io_memory_free(n->memory);
}

/* Look again, at everything or at what seems to have changed. */
static void look(network *n, int host, bool all)
{
    network_view_refresh(&n->views[host]);
    assert_ok(cairn_disk_scan(n->disks[host], all, NULL));
}

static uint32_t find_on(network *n, int host, cairn_disk_found *found, uint32_t max)
{
    uint32_t count = 0;
    assert_ok(
        cairn_disk_find(n->disks[host], &space_a, path_one, SUPPORT_TOKENS_MAX, found, max, &count, NULL));
    return count;
}

static cairn_disk_stats stats_on(network *n, int host)
{
    cairn_disk_stats stats;
    cairn_disk_stats_get(n->disks[host], &stats);
    return stats;
}

static void call_that_is_carried_out_twice_is_carried_out_once(void **state)
{
    (void)state;
    uint64_t lost = 1;
    for (uint64_t at = 1; lost != 0; at++) {
        cairn_io_memory *memory = cairn_io_memory_new(cairn_mem_default(), 1 << 24);
        network_view view;
        cairn_disk *disk = NULL;
        cairn_disk_found found[8];
        char name[CAIRN_BLOB_NAME_BYTES];
        network_view_init(&view, cairn_io_memory_io(memory), 1);
        view.lose_at = at;
        assert_ok(support_open(&view.io, 1 << 24, NULL, NULL, &disk));
        for (uint32_t end = 300; end <= 500; end += 100) {
            assert_ok(support_put(disk, &space_a, CAIRN_BLOB_STATE, path_one, end, end, 30000, 1, name));
        }
        assert_ok(cairn_disk_drop(disk, name, NULL));
        uint32_t count = support_find(disk, &space_a, path_one, 1000, found, 8);
        assert_int_equal(count, 2);
        for (uint32_t i = 0; i < count; i++) {
            assert_ok(support_get(disk, &found[i].row));
        }
        assert_int_equal(support_names(cairn_io_memory_io(memory), "/store/tmp"), 0);
        cairn_disk_close(disk);
        lost = view.lost;
        network_view_release(&view);
        cairn_io_memory_free(memory);
    }
}

static void blob_that_the_other_host_removes_while_it_is_read_is_a_miss(void **state)
{
    (void)state;
    uint64_t stale = 1, tried = 0;
    for (uint64_t at = 1; stale != 0; at++, tried++) {
        network n;
        cairn_disk_found found[4];
        char name[CAIRN_BLOB_NAME_BYTES];
        network_open(&n, 1 << 24, 1);
        assert_ok(support_put(n.disks[0], &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700000, 1, name));
        look(&n, 1, false);
        assert_int_equal(find_on(&n, 1, found, 4), 1);
        n.views[1].remove_at = n.views[1].reads + at;
        cairn_status status = support_get(n.disks[1], &found[0].row);
        stale = n.views[1].stale;
        assert_status(status, stale != 0 ? CAIRN_IO : CAIRN_OK);
        assert_int_equal(find_on(&n, 1, found, 4), stale != 0 ? 0 : 1);
        look(&n, 1, false);
        assert_int_equal(stats_on(&n, 1).set_aside, 0); /* gone, not damaged */
        /* And back, by the host that still thinks that it is there: nothing stands in the way. */
        look(&n, 0, false);
        assert_ok(support_put(n.disks[0], &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700000, 1, name));
        look(&n, 1, false);
        assert_int_equal(find_on(&n, 1, found, 4), 1);
        n.views[1].remove_at = 0;
        assert_ok(support_get(n.disks[1], &found[0].row));
        network_close(&n);
    }
    assert_true(tried > 3);
}

static void listing_that_lags_hides_what_is_new_and_shows_what_is_gone(void **state)
{
    (void)state;
    network n;
    cairn_disk_found found[4];
    char first[CAIRN_BLOB_NAME_BYTES], second[CAIRN_BLOB_NAME_BYTES];
    network_open(&n, 1 << 24, 1);
    n.views[1].lags = true;
    assert_ok(support_put(n.disks[0], &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, first));
    look(&n, 1, false);
    assert_ok(support_put(n.disks[0], &space_a, CAIRN_BLOB_STATE, path_one, 400, 400, 700, 1, second));
    assert_ok(cairn_disk_drop(n.disks[0], first, NULL));
    assert_ok(cairn_disk_scan(n.disks[1], true, NULL)); /* the old list */
    assert_int_equal(find_on(&n, 1, found, 4), 1);
    assert_string_equal(found[0].row.name, first);
    assert_status(support_get(n.disks[1], &found[0].row), CAIRN_NOTFOUND);
    assert_ok(cairn_disk_scan(n.disks[1], true, NULL)); /* still lists it: it can't be opened */
    assert_int_equal(find_on(&n, 1, found, 4), 0);
    /* What this host writes it knows, whatever the list says. */
    assert_ok(support_put(n.disks[1], &space_a, CAIRN_BLOB_STATE, path_one, 500, 500, 700, 1, first));
    assert_int_equal(find_on(&n, 1, found, 4), 1);
    look(&n, 1, false);
    assert_int_equal(find_on(&n, 1, found, 4), 2);
    for (int i = 0; i < 2; i++) {
        assert_ok(support_get(n.disks[1], &found[i].row));
    }
    assert_int_equal(stats_on(&n, 1).set_aside, 0);
    assert_true(n.views[1].lagged > 0);
    network_close(&n);
}

/* Ends of two states whose files lie in one folder. */
static void neighbours(cairn_disk *disk, uint32_t ends[2])
{
    uint32_t in_folder[256] = {0};
    for (uint32_t end = 1;; end++) {
        cairn_blob_meta meta = support_meta(disk, &space_a, CAIRN_BLOB_STATE, path_one, end, end, 700);
        char name[CAIRN_BLOB_NAME_BYTES], digits[3];
        assert_ok(cairn_disk_name(disk, &meta, name, NULL));
        (void)snprintf(digits, sizeof digits, "%.2s", name);
        unsigned long folder = strtoul(digits, NULL, 16);
        if (in_folder[folder] != 0) {
            ends[0] = in_folder[folder];
            ends[1] = end;
            return;
        }
        in_folder[folder] = end;
    }
}

static void file_that_came_within_a_tick_is_found_when_all_folders_are_looked_at(void **state)
{
    (void)state;
    network n;
    uint32_t ends[2];
    cairn_disk_found found[4];
    char name[CAIRN_BLOB_NAME_BYTES];
    network_open(&n, 1 << 24, 1000000);
    neighbours(n.disks[0], ends);
    assert_ok(support_put(n.disks[0], &space_a, CAIRN_BLOB_STATE, path_one, ends[0], ends[0], 700, 1, name));
    look(&n, 1, false);
    assert_int_equal(find_on(&n, 1, found, 4), 1);
    assert_ok(support_put(n.disks[0], &space_a, CAIRN_BLOB_STATE, path_one, ends[1], ends[1], 700, 1, name));
    look(&n, 1, false); /* the folder's time is what it was */
    assert_int_equal(find_on(&n, 1, found, 4), 1);
    look(&n, 1, true);
    assert_int_equal(find_on(&n, 1, found, 4), 2);
    network_close(&n);
}

static void file_put(cairn_io *io, const char *path)
{
    cairn_file *file = NULL;
    assert_ok(cairn_io_open(io, path, CAIRN_IO_WRITE | CAIRN_IO_CREATE, &file, NULL));
    assert_ok(cairn_io_pwrite(file, "x", 1, 0, NULL));
    assert_ok(cairn_io_close(file, NULL));
}

static void names_that_the_file_system_makes_are_left_alone(void **state)
{
    (void)state;
    network n;
    cairn_disk_found found[4];
    char name[CAIRN_BLOB_NAME_BYTES], path[256];
    network_open(&n, 1 << 24, 1);
    assert_ok(support_put(n.disks[0], &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, name));
    (void)snprintf(path, sizeof path, "/store/%.2s/.nfs00000001", name);
    file_put(n.files, path);
    file_put(n.files, "/store/bad/.nfs00000002");
    file_put(n.files, "/store/.nfs00000003");
    look(&n, 1, true);
    assert_int_equal(find_on(&n, 1, found, 4), 1);
    cairn_disk_stats stats = stats_on(&n, 1);
    assert_true(stats.blobs == 1 && stats.set_aside == 0);
    /* A file that this host has open itself: it goes when it is closed. */
    cairn_file *file = NULL;
    (void)snprintf(path, sizeof path, "/store/%.2s/%.64s.blob", name, name);
    assert_ok(cairn_io_open(&n.views[1].io, path, CAIRN_IO_READ, &file, NULL));
    assert_ok(cairn_disk_drop(n.disks[1], name, NULL));
    look(&n, 1, true);
    look(&n, 0, true);
    assert_true(stats_on(&n, 0).blobs == 0 && stats_on(&n, 1).blobs == 0);
    uint8_t byte = 0;
    assert_ok(cairn_io_pread(file, &byte, 1, 0, NULL));
    cairn_io_discard(file);
    assert_ok(support_put(n.disks[1], &space_a, CAIRN_BLOB_STATE, path_one, 300, 300, 700, 1, name));
    assert_int_equal(find_on(&n, 1, found, 4), 1);
    assert_ok(support_get(n.disks[1], &found[0].row));
    network_close(&n);
}

/* Files whose names are those of blobs, in all folders. */
static uint64_t blobs_there(cairn_io *io)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < 256; i++) {
        char folder[32];
        (void)snprintf(folder, sizeof folder, "/store/%02x", i);
        count += support_names(io, folder);
    }
    return count;
}

static void two_hosts_agree_whatever_the_file_system_does(void **state)
{
    (void)state;
    enum { STEPS = 1500, ENDS = 40, BYTES_MAX = 300000 };
    uint64_t seed = cairn_test_seed("network", 11), gets = 0, misses = 0, lost = 0, lagged = 0;
    for (uint64_t round = 0; round < 4; round++) {
        cairn_rng rng;
        network n;
        cairn_disk_found found[64];
        cairn_rng_init_stream(&rng, seed, round);
        network_open(&n, BYTES_MAX, 1 + (int64_t)round * 7);
        for (uint32_t step = 0; step < STEPS; step++) {
            int host = (int)cairn_rng_below(&rng, 2);
            network_view *view = &n.views[host];
            uint32_t end = 100 + 50 * (uint32_t)cairn_rng_below(&rng, ENDS);
            char name[CAIRN_BLOB_NAME_BYTES];
            view->lags = cairn_rng_below(&rng, 3) != 0;
            view->lose_at = cairn_rng_below(&rng, 8) == 0 ? view->changed + 1 + cairn_rng_below(&rng, 4) : 0;
            switch (cairn_rng_below(&rng, 8)) {
            case 0:
            case 1:
            case 2: {
                double value = 1e-3 * (double)(1 + cairn_rng_below(&rng, 1000));
                cairn_status status = support_put(n.disks[host], &space_a, CAIRN_BLOB_STATE, path_one, end,
                                                  end, 9000 + end, value, name);
                assert_true(status == CAIRN_OK || status == CAIRN_NOSPACE); /* what is there is worth more */
                break;
            }
            case 3:
            case 4:
            case 5: {
                uint32_t count = find_on(&n, host, found, 64);
                if (count > 0) {
                    const cairn_disk_row *row = &found[cairn_rng_below(&rng, count)].row;
                    cairn_status status = support_get(n.disks[host], row); /* wrong bytes would fail inside */
                    assert_true(status == CAIRN_OK || status == CAIRN_NOTFOUND);
                    gets += status == CAIRN_OK ? 1 : 0;
                    misses += status != CAIRN_OK ? 1 : 0;
                }
                break;
            }
            case 6:
                network_view_refresh(view);
                break;
            default:
                assert_ok(cairn_disk_scan(n.disks[host], cairn_rng_below(&rng, 4) == 0, NULL));
                break;
            }
        }
        for (int host = 0; host < 2; host++) {
            n.views[host].lags = false;
            n.views[host].lose_at = 0;
            look(&n, host, true); /* and what is too much goes */
        }
        look(&n, 0, true);
        for (int host = 0; host < 2; host++) {
            cairn_disk_stats stats = stats_on(&n, host);
            assert_int_equal(stats.blobs, blobs_there(n.files));
            assert_true(stats.blobs > 5 && stats.file_bytes <= BYTES_MAX && stats.set_aside == 0);
            uint32_t count = find_on(&n, host, found, 64);
            assert_int_equal(count, stats.blobs);
            for (uint32_t i = 0; i < count; i++) {
                assert_ok(support_get(n.disks[host], &found[i].row));
            }
            lost += n.views[host].lost;
            lagged += n.views[host].lagged;
        }
        assert_int_equal(support_names(n.files, "/store/tmp"), 0);
        network_close(&n);
    }
    assert_true(gets > 100 && misses > 5 && lost > 50 && lagged > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(call_that_is_carried_out_twice_is_carried_out_once),
        cmocka_unit_test(blob_that_the_other_host_removes_while_it_is_read_is_a_miss),
        cmocka_unit_test(listing_that_lags_hides_what_is_new_and_shows_what_is_gone),
        cmocka_unit_test(file_that_came_within_a_tick_is_found_when_all_folders_are_looked_at),
        cmocka_unit_test(names_that_the_file_system_makes_are_left_alone),
        cmocka_unit_test(two_hosts_agree_whatever_the_file_system_does),
    };
    return cmocka_run_group_tests(tests, support_paths, NULL);
}
