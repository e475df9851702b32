/*
 * bench_disk - what the disk tier costs: opening a directory of many files, and reading blobs back.
 *
 *   bench_disk open DIR [FILES]     opening with and without its index (100,000 files)
 *   bench_disk read DIR             blobs of the sizes of a 0.8B hybrid model, against a plain read of the same files
 *
 * DIR is made and removed. Prints CSV lines: what, value, unit. Each figure of `read` is the best of five, from the
 * system's file cache: what the tier adds is then seen best.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/machine.h"
#include "store/read_pool.h"
#include "store/tier_disk.h"

enum {
    FILES = 100000,
    STATE_BYTES = 20 << 20,
    ROW_BYTES = 12 << 10,
    BLOCK = 512,
    BLOCKS = 64,
    BEST_OF = 5,
    PLACE_BYTES = STATE_BYTES + (1 << 20),
    AHEAD = 8
};

static const cairn_namespace space = {{1, 2, 3}};
static const uint8_t key[CAIRN_DISK_KEY_BYTES] = {5};
static uint8_t *bytes;

static void must(cairn_status status, const char *what)
{
    if (status != CAIRN_OK) {
        (void)fprintf(stderr, "bench_disk: %s: %s\n", what, cairn_status_message(status));
        exit(1);
    }
}

static uint64_t now_ns(void)
{
    return cairn_clock_now_ns(cairn_clock_system());
}

static cairn_status no_sync(cairn_file *file, cairn_error *reterr)
{
    (void)file;
    (void)reterr;
    return CAIRN_OK;
}

static cairn_status no_dir_sync(cairn_io *self, const char *path, cairn_error *reterr)
{
    (void)self;
    (void)path;
    (void)reterr;
    return CAIRN_OK;
}

static void remove_tree(const char *dir)
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
        _exit(127);
    }
    (void)waitpid(child, NULL, 0);
}

static cairn_disk *store_open(const char *dir, const uint8_t *with_key)
{
    cairn_disk *disk = NULL;
    cairn_disk_options options = {.dir = dir, .bytes_max = UINT64_C(1) << 40, .key = with_key};
    must(cairn_disk_open(cairn_mem_default(), cairn_io_posix(), &options, &disk, NULL), "open");
    return disk;
}

/* Blobs whose path is the number, so that they differ without a long path. */
static cairn_blob_meta meta_of(cairn_disk *disk, cairn_blob_kind kind, uint32_t number, uint32_t begin,
                               uint32_t end, uint64_t payload_bytes)
{
    cairn_token path[4] = {(cairn_token)number, 7, 7, 7};
    uint32_t at = 4;
    cairn_path_root root;
    cairn_blob_meta meta = {
        .space = space, .kind = kind, .begin = begin, .end = end, .payload_bytes = payload_bytes};
    must(cairn_disk_root(disk, &space, &root, NULL), "root");
    must(cairn_path_digests(&root, path, 4, &at, 1, &meta.path_end, NULL), "digest");
    meta.path_begin = meta.path_base = meta.path_end;
    meta.count_runs = kind == CAIRN_BLOB_ROWS ? 1 : 0;
    return meta;
}

static void put(cairn_disk *disk, const cairn_blob_meta *meta, char name[CAIRN_BLOB_NAME_BYTES])
{
    static uint8_t marks[BLOCK][CAIRN_BLOB_MARK_BYTES];
    cairn_blob_run run = {.rows_end = meta->end, .cut = meta->end, .digest = 1};
    must(cairn_disk_put(disk, meta, (const uint8_t(*)[CAIRN_BLOB_MARK_BYTES])marks, &run, bytes, 1.0, name,
                        NULL),
         "put");
}

static void bench_open(const char *dir, uint32_t files)
{
    cairn_io *io = cairn_io_posix(); /* what is measured is opening, not syncing what was made for it */
    cairn_io sane = *io;
    char name[CAIRN_BLOB_NAME_BYTES];
    io->file_sync = no_sync;
    io->dir_sync = no_dir_sync;
    cairn_disk *disk = store_open(dir, NULL);
    uint64_t begin = now_ns();
    for (uint32_t i = 0; i < files; i++) {
        cairn_blob_meta meta = meta_of(disk, CAIRN_BLOB_STATE, i, 4, 4, 1);
        put(disk, &meta, name);
    }
    printf("put one small file,%.3f,ms\n", (double)(now_ns() - begin) * 1e-6 / files);
    *io = sane;
    cairn_disk_close(disk);
    const char *const what[2] = {"with its index", "without its index"};
    for (int anew = 0; anew < 2; anew++) {
        if (anew == 1) {
            char path[4096];
            (void)snprintf(path, sizeof path, "%s/index.0.db", dir);
            (void)unlink(path);
        }
        begin = now_ns();
        disk = store_open(dir, NULL);
        printf("open %u files %s,%.1f,ms\n", files, what[anew], (double)(now_ns() - begin) * 1e-6);
        cairn_token path[5] = {77, 7, 7, 7, 1};
        cairn_disk_found found[8];
        uint32_t count = 0;
        begin = now_ns();
        must(cairn_disk_find(disk, &space, path, 5, found, 8, &count, NULL), "find");
        printf("first look-up,%.3f,ms\n", (double)(now_ns() - begin) * 1e-6);
        begin = now_ns();
        must(cairn_disk_scan(disk, false, NULL), "scan");
        printf("look through the folders %s (in the background),%.1f,ms\n", what[anew],
               (double)(now_ns() - begin) * 1e-6);
        begin = now_ns();
        must(cairn_disk_scan(disk, false, NULL), "scan");
        printf("look again,%.1f,ms\n", (double)(now_ns() - begin) * 1e-6);
        cairn_disk_close(disk);
    }
}

static char names[BLOCKS + 1][CAIRN_BLOB_NAME_BYTES];
static cairn_blob_meta metas[BLOCKS + 1];

/* Where the i-th blob is read to: like the cache's own memory not one place that stays in the processor's. */
static uint8_t *place_of(uint8_t *out, uint32_t i)
{
    return out + (uint64_t)(i % AHEAD) * PLACE_BYTES;
}

/* Read all the files plainly, as a program without checks would. Gives their bytes. */
static uint64_t read_plainly(const char *dir, uint8_t *out)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= BLOCKS; i++) {
        char path[4096];
        cairn_file *file = NULL;
        cairn_io_stat stat;
        (void)snprintf(path, sizeof path, "%.3900s/%.2s/%.64s.blob", dir, names[i], names[i]);
        must(cairn_io_open(cairn_io_posix(), path, CAIRN_IO_READ, &file, NULL), "open a file");
        must(cairn_io_file_stat(file, &stat, NULL), "stat");
        must(cairn_io_pread(file, place_of(out, i), stat.size_bytes, 0, NULL), "read");
        cairn_io_discard(file);
        sum += stat.size_bytes;
    }
    return sum;
}

static cairn_status get_one(const cairn_read *read, uint64_t *ret_digest)
{
    size_t i = (size_t)((const char *)read->blob - names[0]) / sizeof names[0];
    return cairn_disk_get(read->source, names[i], &metas[i], read->out, ret_digest, NULL);
}

/* Read and check them as the cache does: several at once, by the pool's threads and the one that waits. */
static void read_by_pool(cairn_disk *disk, cairn_read_pool *pool, uint8_t *out)
{
    static cairn_read reads[BLOCKS + 1];
    memset(reads, 0, sizeof reads);
    for (uint32_t next = 0, started = 0; next <= BLOCKS; next++) {
        for (; started <= BLOCKS && started < next + AHEAD; started++) {
            reads[started] = (cairn_read){.get = get_one,
                                          .source = disk,
                                          .blob = names[started],
                                          .out = place_of(out, started),
                                          .out_bytes = metas[started].payload_bytes};
            cairn_read_start(pool, &reads[started]);
        }
        cairn_read_help(pool, &reads[next]);
        must(reads[next].status, "get");
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The best of a few rounds: by the clock, and by what all threads worked. */
typedef struct best {
    uint64_t begin_ns, begin_cpu_ns, ns, cpu_ns;
} best;

static void round_begin(best *b)
{
    b->begin_cpu_ns = cpu_ns();
    b->begin_ns = now_ns();
}

static void round_end(best *b)
{
    uint64_t ns = now_ns() - b->begin_ns, worked_ns = cpu_ns() - b->begin_cpu_ns;
    b->ns = b->ns == 0 || ns < b->ns ? ns : b->ns;
    b->cpu_ns = b->cpu_ns == 0 || worked_ns < b->cpu_ns ? worked_ns : b->cpu_ns;
}

static void best_print(const best *b, const char *what, const char *how, uint64_t total)
{
    printf("%s (%s),%.2f,GB/s\n", what, how, (double)total / (double)b->ns);
    printf("%s (%s) of processor time,%.2f,GB/s\n", what, how, (double)total / (double)b->cpu_ns);
}

static void blobs_make(cairn_disk *disk, const uint8_t *with_key)
{
    for (uint32_t i = 0; i <= BLOCKS; i++) {
        bool state = i == BLOCKS;
        cairn_path_root root;
        cairn_namespace shown;
        metas[i] = meta_of(disk, state ? CAIRN_BLOB_STATE : CAIRN_BLOB_ROWS, i, state ? 32768 : i * BLOCK,
                           state ? 32768 : (i + 1) * BLOCK, state ? STATE_BYTES : BLOCK * ROW_BYTES);
        put(disk, &metas[i], names[i]);
        must(cairn_blob_space(&space, with_key, &shown, &root, NULL), "space");
        metas[i].space = shown;
    }
}

static void bench_read(const char *dir)
{
    uint8_t *out = cairn_mem_alloc(cairn_mem_default(), (size_t)AHEAD * PLACE_BYTES);
    cairn_read_pool *pool = NULL;
    unsigned threads = cairn_machine_processors() - 1;
    must(out != NULL ? CAIRN_OK : CAIRN_NOMEM, "buffers");
    must(cairn_read_pool_new(cairn_mem_default(), threads < 3 ? threads : 3, &pool, NULL), "threads");
    for (int sealed = 0; sealed < 2; sealed++) {
        remove_tree(dir);
        cairn_disk *disk = store_open(dir, sealed ? key : NULL);
        best plain = {0}, one = {0}, several = {0};
        uint64_t total = 0;
        blobs_make(disk, sealed ? key : NULL);
        for (int round = 0; round < BEST_OF; round++) {
            round_begin(&plain);
            total = read_plainly(dir, out);
            round_end(&plain);
            round_begin(&one);
            for (uint32_t i = 0; i <= BLOCKS; i++) {
                must(cairn_disk_get(disk, names[i], &metas[i], place_of(out, i), NULL, NULL), "get");
            }
            round_end(&one);
            round_begin(&several);
            read_by_pool(disk, pool, out);
            round_end(&several);
        }
        const char *how = sealed ? "encrypted" : "plain";
        printf("32k tokens of rows and a state (%s),%.0f,MB\n", how, (double)total * 1e-6);
        best_print(&plain, "read without checks", how, total);
        best_print(&one, "read and check", how, total);
        best_print(&several, "read and check by several threads", how, total);
        cairn_disk_close(disk);
    }
    cairn_read_pool_free(pool);
    cairn_mem_release(cairn_mem_default(), out, (size_t)AHEAD * PLACE_BYTES);
}

int main(int argc, char **argv)
{
    if (argc < 3 || (strcmp(argv[1], "open") != 0 && strcmp(argv[1], "read") != 0)) {
        (void)fprintf(stderr, "usage: bench_disk open|read DIR [FILES]\n");
        return 2;
    }
    bytes = cairn_mem_alloc(cairn_mem_default(), STATE_BYTES + (1 << 20));
    if (bytes == NULL) {
        return 1;
    }
    for (size_t i = 0; i < STATE_BYTES; i++) {
        bytes[i] = (uint8_t)(i * 7 + (i >> 9));
    }
    remove_tree(argv[2]);
    printf("what,value,unit\n");
    if (strcmp(argv[1], "open") == 0) {
        bench_open(argv[2], argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : FILES);
    } else {
        bench_read(argv[2]);
    }
    remove_tree(argv[2]);
    cairn_mem_release(cairn_mem_default(), bytes, STATE_BYTES + (1 << 20));
    return 0;
}
