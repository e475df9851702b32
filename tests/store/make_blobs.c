/*
 * make_blobs - writes a plain and an encrypted store and a description of what is in them, for the reader in the other
 * language (blob_reader.test.mjs).
 *
 *   make_blobs DIR      DIR/plain, DIR/sealed, DIR/expected.json
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/tier_disk.h"

enum { TOKENS = 900, BLOBS = 5 };

typedef struct blob_plan {
    cairn_blob_kind kind;
    uint32_t begin, end;
    uint64_t payload_bytes;
} blob_plan;

static const blob_plan plans[BLOBS] = {
    {CAIRN_BLOB_STATE, 700, 700, 5000},
    {CAIRN_BLOB_STATE, 512, 512, CAIRN_BLOB_PIECE_BYTES + 1000},
    {CAIRN_BLOB_ROWS, 300, 812, 2 * CAIRN_BLOB_PIECE_BYTES},
    {CAIRN_BLOB_ROWS, 812, 813, 1},
    {CAIRN_BLOB_ROWS, 0, 2, 77},
};
static cairn_token tokens[TOKENS];
static const cairn_namespace space = {{0xc0, 0xff, 0xee, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xfe}};
static uint8_t key[CAIRN_DISK_KEY_BYTES];

static void must(cairn_status status, const char *what)
{
    if (status != CAIRN_OK) {
        fprintf(stderr, "make_blobs: %s: %s\n", what, cairn_status_message(status));
        exit(1);
    }
}

static void put(cairn_disk *disk, const blob_plan *plan)
{
    cairn_path_root root;
    cairn_blob_meta meta = {.space = space,
                            .kind = plan->kind,
                            .begin = plan->begin,
                            .end = plan->end,
                            .payload_bytes = plan->payload_bytes,
                            .provenance = plan->end % 2 == 0 ? 1 : 0,
                            .cut_digest = UINT64_C(0xfedcba9876543210) + plan->end,
                            .count_runs = plan->kind == CAIRN_BLOB_STATE ? 0
                                          : plan->end - plan->begin > 1  ? 2
                                                                         : 1};
    meta.boundary =
        (cairn_boundary){.position = plan->end, .kinds = 0x0105, .role = 3, .message = plan->end / 100};
    uint32_t base = cairn_blob_base(plan->kind, plan->begin, plan->end);
    must(cairn_disk_root(disk, &space, &root, NULL), "root");
    must(cairn_path_digests(&root, tokens, plan->end, &base, 1, &meta.path_base, NULL), "base");
    must(cairn_path_digests(&root, tokens, plan->end, &meta.begin, 1, &meta.path_begin, NULL), "begin");
    must(cairn_path_digests(&root, tokens, plan->end, &meta.end, 1, &meta.path_end, NULL), "end");
    uint8_t(*marks)[CAIRN_BLOB_MARK_BYTES] = calloc(TOKENS, sizeof *marks);
    uint8_t *payload = malloc(plan->payload_bytes);
    if (marks == NULL || payload == NULL) {
        must(CAIRN_NOMEM, "memory");
    }
    if (plan->kind == CAIRN_BLOB_ROWS) {
        must(cairn_path_marks(&root, tokens, plan->begin, plan->end, marks, NULL), "marks");
    }
    for (uint64_t i = 0; i < plan->payload_bytes; i++) {
        payload[i] = (uint8_t)(i * 31 + plan->end * 7 + (i >> 8));
    }
    cairn_blob_run runs[2] = {{.rows_end = plan->begin + 1, .cut = plan->begin + 9, .digest = 11},
                              {.rows_end = plan->end, .cut = plan->end + 3, .digest = 0}};
    char name[CAIRN_BLOB_NAME_BYTES];
    must(cairn_disk_put(disk, &meta, (const uint8_t(*)[CAIRN_BLOB_MARK_BYTES])marks, runs, payload, 1.0, name,
                        NULL),
         "put");
    free(marks);
    free(payload);
}

static void hex(FILE *out, const char *name, const uint8_t *bytes, size_t count)
{
    fprintf(out, "\"%s\":\"", name);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%02x", bytes[i]);
    }
    fprintf(out, "\",");
}

static void describe(const char *dir, const uint8_t *fingerprint)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/expected.json", dir);
    FILE *out = fopen(path, "w");
    if (out == NULL) {
        must(CAIRN_IO, path);
        return;
    }
    fputc('{', out);
    hex(out, "namespace", space.bytes, sizeof space.bytes);
    hex(out, "key", key, sizeof key);
    hex(out, "fingerprint", fingerprint, CAIRN_FINGERPRINT_BYTES);
    fprintf(out, "\"tokens\":[");
    for (int i = 0; i < TOKENS; i++) {
        fprintf(out, "%s%d", i == 0 ? "" : ",", (int)tokens[i]);
    }
    fprintf(out, "],\"blobs\":[");
    for (int i = 0; i < BLOBS; i++) {
        fprintf(out, "%s{\"kind\":%d,\"begin\":%u,\"end\":%u,\"payload_bytes\":%llu}", i == 0 ? "" : ",",
                (int)plans[i].kind, plans[i].begin, plans[i].end, (unsigned long long)plans[i].payload_bytes);
    }
    fprintf(out, "]}\n");
    if (fclose(out) != 0) {
        must(CAIRN_IO, path);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_blobs DIR\n");
        return 2;
    }
    for (uint32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (cairn_token)((i * 2654435761u) >> 14) - (i % 50 == 3 ? 300000 : 0);
    }
    for (uint8_t i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)(i * 7 + 1);
    }
    cairn_disk_options options = {.bytes_max = UINT64_C(1) << 30};
    memset(options.fingerprint, 0x5a, sizeof options.fingerprint);
    options.fingerprint[31] = 1;
    for (int sealed = 0; sealed < 2; sealed++) {
        char dir[1024];
        cairn_disk *disk = NULL;
        (void)snprintf(dir, sizeof dir, "%s/%s", argv[1], sealed ? "sealed" : "plain");
        options.dir = dir;
        options.key = sealed ? key : NULL;
        must(cairn_disk_open(cairn_mem_default(), cairn_io_posix(), &options, &disk, NULL), dir);
        for (int i = 0; i < BLOBS; i++) {
            put(disk, &plans[i]);
        }
        cairn_disk_close(disk);
    }
    describe(argv[1], options.fingerprint);
    return 0;
}
