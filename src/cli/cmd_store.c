/*
 * store - `cairn store`: looks into a disk tier's directory and, only when asked to, removes something from it.
 *
 *   ls  show  tree  verify     change nothing, also where the directory is damaged
 *   gc  rm                     remove files, and say which
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/store_change.h"
#include "cli/store_list.h"
#include "cli/term.h"

enum { ARGS_MAX = 64, SHORT = 12 };

static void print_json(json_t *value)
{
    (void)json_dumpf(value, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    (void)fputc('\n', stdout);
    json_decref(value);
}

/* --- ls ---------------------------------------------------------------------------------------------------------- */

static void print_head(void)
{
    printf("%-12s  %-5s  %10s  %10s  %10s  %-8s  %-8s  %-16s  %s\n", "name", "kind", "begin", "end", "size",
           "space", "model", "made (UTC)", "how");
}

static void print_item(const cairn_store_item *item)
{
    char size[CAIRN_UNITS_TEXT], made[32], space[9], print[9];
    cairn_units_print_bytes(item->file_bytes, size);
    if (item->status != CAIRN_OK) {
        printf("%.12s  %-5s  %10s  %10s  %10s  %s\n", item->name, "?", "", "", size, item->why);
        return;
    }
    const cairn_blob_meta *m = &item->meta;
    time_t at = (time_t)m->created_s;
    struct tm parts;
    if (gmtime_r(&at, &parts) == NULL || strftime(made, sizeof made, "%Y-%m-%d %H:%M", &parts) == 0)
        (void)snprintf(made, sizeof made, "?");
    cairn_store_hex(m->space.bytes, 4, space);
    cairn_store_hex(m->fingerprint, 4, print);
    printf("%.12s  %-5s  %10u  %10u  %10s  %-8s  %-8s  %-16s  %s%s\n", item->name,
           m->kind == CAIRN_BLOB_STATE ? "state" : "rows", m->begin, m->end, size, space, print, made,
           m->provenance != 0 ? "answer" : "prompt",
           (m->flags & CAIRN_BLOB_ENCRYPTED) != 0 ? ", encrypted" : "");
}

static void print_sum(const cairn_store_list *list, size_t shown, uint64_t shown_bytes)
{
    char size[CAIRN_UNITS_TEXT];
    cairn_units_print_bytes(shown_bytes, size);
    printf("%zu file%s, %s", shown, shown == 1 ? "" : "s", size);
    if (list->damaged > 0)
        printf("; %zu with a header that can't be used", list->damaged);
    if (list->unreadable > 0)
        printf("; %zu folder%s can't be listed", list->unreadable, list->unreadable == 1 ? "" : "s");
    printf("\n");
}

static int run_ls(const cairn_store_list *list, const cairn_store_ask *ask)
{
    json_t *array = json_array();
    size_t shown = 0;
    uint64_t bytes = 0;
    if (!ask->json)
        print_head();
    for (size_t i = 0; i < list->count; i++) {
        const cairn_store_item *item = &list->items[i];
        if (!cairn_store_in_space(item, ask))
            continue;
        shown++;
        bytes += item->file_bytes;
        if (ask->json) {
            (void)json_array_append_new(array, cairn_store_json(item));
        } else {
            print_item(item);
        }
    }
    if (ask->json) {
        print_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "dir", list->dir, "files", (json_int_t)shown,
                             "bytes", (json_int_t)bytes, "damaged", (json_int_t)list->damaged,
                             "folders_unreadable", (json_int_t)list->unreadable, "blobs", array));
    } else {
        print_sum(list, shown, bytes);
        json_decref(array);
    }
    return 0;
}

/* --- show -------------------------------------------------------------------------------------------------------- */

static int run_show(const cairn_store_list *list, const cairn_store_ask *ask)
{
    json_t *array = json_array();
    int code = 0;
    for (size_t k = 0; k < ask->count_names; k++) {
        const cairn_store_item *item = cairn_store_find(list, ask->names[k]);
        if (item == NULL) {
            code = 1;
            continue;
        }
        cairn_error error = {0};
        cairn_status status =
            item->status != CAIRN_OK ? item->status : cairn_store_check(list, item, ask->key, &error);
        json_t *value = cairn_store_json(item);
        (void)json_object_set_new(value, "bytes_checked", json_boolean(status == CAIRN_OK));
        code = status != CAIRN_OK ? 1 : code;
        if (status != CAIRN_OK && item->why[0] == '\0') {
            char text[200];
            (void)snprintf(text, sizeof text, "%s%s%.120s", cairn_status_message(status),
                           error.detail[0] != '\0' ? ": " : "", error.detail);
            (void)json_object_set_new(value, "status", json_string(cairn_status_name(status)));
            (void)json_object_set_new(value, "why", json_string(text));
        }
        (void)json_array_append_new(array, value);
    }
    if (ask->json) {
        print_json(array);
        return code;
    }
    size_t index;
    json_t *value, *field;
    json_array_foreach(array, index, value)
    {
        const char *name;
        json_object_foreach(value, name, field)
        {
            printf("%-16s ", name);
            (void)json_dumpf(field, stdout, JSON_ENCODE_ANY);
            (void)fputc('\n', stdout);
        }
        (void)fputc('\n', stdout);
    }
    json_decref(array);
    return code;
}

/* --- tree -------------------------------------------------------------------------------------------------------- */

typedef struct branch {
    const cairn_store_list *list;
    const cairn_store_ask *ask;
    bool *done; /* bool[list->count] */
    json_t *out;
} branch;

static bool same_owner(const cairn_blob_meta *a, const cairn_blob_meta *b)
{
    return memcmp(a->space.bytes, b->space.bytes, sizeof a->space.bytes) == 0 &&
           memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

static json_t *branch_add(branch *b, size_t index, int depth, json_t *into)
{
    const cairn_store_item *item = &b->list->items[index];
    b->done[index] = true;
    if (!b->ask->json) {
        char size[CAIRN_UNITS_TEXT];
        cairn_units_print_bytes(item->file_bytes, size);
        printf("%*s%s", depth * 2, "", item->meta.kind == CAIRN_BLOB_STATE ? "* state at " : "- rows ");
        if (item->meta.kind == CAIRN_BLOB_ROWS)
            printf("%u to ", item->meta.begin);
        printf("%u, %s, %s, %.12s\n", item->meta.end, size, item->meta.provenance != 0 ? "answer" : "prompt",
               item->name);
        return NULL;
    }
    json_t *value = cairn_store_json(item);
    (void)json_object_set_new(value, "next", json_array());
    (void)json_array_append(into, value);
    json_decref(value);
    return json_object_get(value, "next");
}

/* The state that stands next on these rows after `after`, before their end; SIZE_MAX: none. */
static size_t state_inside(const branch *b, const cairn_store_item *rows, uint32_t after)
{
    size_t next = SIZE_MAX;
    for (size_t i = 0; i < b->list->count; i++) {
        const cairn_store_item *item = &b->list->items[i];
        uint32_t at = item->meta.end;
        if (!b->done[i] && item->status == CAIRN_OK && item->meta.kind == CAIRN_BLOB_STATE && at > after &&
            at < rows->meta.end && (next == SIZE_MAX || at < b->list->items[next].meta.end) &&
            same_owner(&rows->meta, &item->meta) &&
            cairn_store_passes(b->list, rows, at, &item->meta.path_end))
            next = i;
    }
    return next;
}

/* States that stand on these rows, in their order, and the rows that go on from there. */
static void branch_follow(branch *b, size_t index, int depth, json_t *into)
{
    json_t *next = branch_add(b, index, depth, into);
    const cairn_blob_meta *meta = &b->list->items[index].meta;
    for (size_t i = 0, after = meta->begin; meta->kind == CAIRN_BLOB_ROWS;
         after = b->list->items[i].meta.end) {
        i = state_inside(b, &b->list->items[index], (uint32_t)after);
        if (i == SIZE_MAX)
            break;
        (void)branch_add(b, i, depth + 1, next);
    }
    for (int states = 1; states >= 0 && meta->kind == CAIRN_BLOB_ROWS; states--) {
        for (size_t i = 0; i < b->list->count; i++) {
            const cairn_store_item *item = &b->list->items[i];
            if (b->done[i] || item->status != CAIRN_OK || !same_owner(meta, &item->meta) ||
                (item->meta.kind == CAIRN_BLOB_STATE) != (states == 1) ||
                memcmp(item->meta.path_begin.bytes, meta->path_end.bytes, CAIRN_PATH_DIGEST_BYTES) != 0)
                continue;
            if (states == 1) {
                (void)branch_add(b, i, depth + 1, next);
            } else { /* a chain of blocks is not indented further and further */
                branch_follow(b, i, depth, next);
            }
        }
    }
}

static void owner_tree(branch *b, size_t first)
{
    char space[2 * CAIRN_NAMESPACE_BYTES + 1], print[2 * CAIRN_FINGERPRINT_BYTES + 1];
    const cairn_blob_meta *owner = &b->list->items[first].meta;
    cairn_store_hex(owner->space.bytes, sizeof owner->space.bytes, space);
    cairn_store_hex(owner->fingerprint, sizeof owner->fingerprint, print);
    json_t *paths = json_array();
    if (!b->ask->json)
        printf("namespace %s\nmodel     %.16s\n", space, print);
    for (int pass = 0; pass < 3;
         pass++) { /* from the first token; then what lost its beginning: rows, states */
        for (size_t i = 0; i < b->list->count; i++) {
            const cairn_store_item *item = &b->list->items[i];
            bool starts = pass == 0   ? item->meta.kind == CAIRN_BLOB_ROWS && item->meta.begin == 0
                          : pass == 1 ? item->meta.kind == CAIRN_BLOB_ROWS
                                      : true;
            if (!b->done[i] && item->status == CAIRN_OK && same_owner(owner, &item->meta) && starts)
                branch_follow(b, i, 1, paths);
        }
    }
    if (b->ask->json) {
        (void)json_array_append_new(
            b->out, json_pack("{s:s, s:s, s:o}", "namespace", space, "fingerprint", print, "paths", paths));
    } else {
        json_decref(paths);
    }
}

static int run_tree(const cairn_store_list *list, const cairn_store_ask *ask)
{
    branch b = {.list = list, .ask = ask, .out = json_array()};
    b.done = cairn_mem_array(cairn_mem_default(), list->count + 1, sizeof *b.done);
    if (b.done == NULL)
        return 1;
    for (size_t i = 0; i < list->count; i++) {
        if (!b.done[i] && list->items[i].status == CAIRN_OK && cairn_store_in_space(&list->items[i], ask))
            owner_tree(&b, i);
    }
    cairn_mem_array_release(cairn_mem_default(), b.done, list->count + 1, sizeof *b.done);
    if (ask->json) {
        print_json(b.out);
    } else {
        print_sum(list, list->count, list->file_bytes);
        json_decref(b.out);
    }
    return 0;
}

/* --- the command ------------------------------------------------------------------------------------------------- */

static const struct verb {
    const char *name;
    int (*run)(const cairn_store_list *list, const cairn_store_ask *ask);
    bool needs_names;
} verbs[] = {{"ls", run_ls, false},         {"show", run_show, true},
             {"tree", run_tree, false},     {"verify", cairn_store_verify, false},
             {"gc", cairn_store_gc, false}, {"rm", cairn_store_rm, false}};

static int wrong(const char *problem)
{
    return cairn_term_usage("store", problem);
}

/* Without their key nobody knows whose encrypted files are: who asks for a tenant must not take silence for "none". */
static int encrypted_left_out(const cairn_store_list *list, const cairn_store_ask *ask)
{
    size_t count = 0;
    for (size_t i = 0; i < list->count && ask->key == NULL; i++) {
        const cairn_store_item *item = &list->items[i];
        count += item->status == CAIRN_OK && (item->meta.flags & CAIRN_BLOB_ENCRYPTED) != 0 ? 1 : 0;
    }
    if (count == 0 || (ask->salt == NULL && ask->api_key_file == NULL))
        return 0;
    (void)fprintf(stderr,
                  "cairn: %zu encrypted file%s left out: whose they are can't be told without --cache-key\n",
                  count, count == 1 ? " was" : "s were");
    return 1;
}

static int run_verb(const struct verb *verb, const char *dir, cairn_store_ask *ask)
{
    cairn_store_list list;
    cairn_error error = {0};
    if (verb->needs_names && ask->count_names == 0)
        return wrong("which file? `cairn store ls DIR` lists names; their first digits will do");
    int code = cairn_store_ask_complete(dir, ask);
    if (code != 0)
        return code;
    if (cairn_store_list_fill(dir, &list, &error) != CAIRN_OK) {
        cairn_term_fail("the store can't be read", &error,
                        "Give the directory of --cache-disk; without that option it is ~/.cache/cairn.");
        return 1;
    }
    code = verb->run(&list, ask);
    if (encrypted_left_out(&list, ask) != 0)
        code = 1;
    cairn_store_list_release(&list);
    if (fflush(stdout) != 0)
        code = 1;
    return code;
}

// NOLINTNEXTLINE(readability-function-size): a table of options
int cairn_cmd_store(int argc, const char **argv)
{
    cairn_store_ask ask = {0};
    int64_t older_days = 0;
    const cairn_option options[] = {
        {.kind = CAIRN_OPTION_FLAG, .name = "json", .value = &ask.json, .help = "print JSON"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "namespace",
         .value = &ask.space,
         .arg = "HEX",
         .help = "only this namespace, as ls and tree show it; its first\ndigits will do"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "salt",
         .value = &ask.salt,
         .arg = "TEXT",
         .help = "only the namespace of requests with this cache_salt"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "api-key-file",
         .value = &ask.api_key_file,
         .arg = "FILE",
         .help = "only the namespace of requests with the key in this file\n(with --salt: with both)"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "cache-key",
         .value = &ask.key_file,
         .arg = "FILE",
         .help = "the key of an encrypted directory; verify then decrypts, too"},
        {.kind = CAIRN_OPTION_BYTES,
         .name = "max",
         .value = &ask.bytes_max,
         .arg = "SIZE",
         .help = "gc: remove the oldest files until the rest fits"},
        {.kind = CAIRN_OPTION_INT,
         .name = "older",
         .value = &older_days,
         .arg = "DAYS",
         .min = 0,
         .max = 100000,
         .help = "gc: remove files older than this; 0: no limit (0)"},
        {.kind = CAIRN_OPTION_FLAG, .name = "all", .value = &ask.all, .help = "rm: everything"},
        {.kind = CAIRN_OPTION_FLAG,
         .name = "dry-run",
         .value = &ask.dry_run,
         .help = "gc, rm: say what would go, remove nothing"},
    };
    const cairn_option_set set = {
        .usage = "cairn store ls|show|tree|verify|gc|rm DIR [NAME...] [options]",
        .about = "Looks into a directory of --cache-disk.\n\n"
                 "  ls       list its files\n"
                 "  show     all about some of them, their bytes checked\n"
                 "  tree     paths, and the rows and states on them\n"
                 "  verify   check every byte of every file; ends with 1 if something is damaged\n"
                 "  gc       remove leftovers, files whose header can't be used, and what --max and\n"
                 "           --older say; what else verify finds goes with rm\n"
                 "  rm       remove files by name, a namespace, or --all\n\n"
                 "Only gc and rm change anything. A server that uses the directory notices by itself.",
        .options = options,
        .count = sizeof options / sizeof options[0],
        .tail = "examples:\n"
                "  cairn store ls ~/.cache/cairn\n"
                "  cairn store verify ~/.cache/cairn --json\n"
                "  cairn store rm ~/.cache/cairn --salt tenant-7\n"};
    const char *rest[ARGS_MAX];
    int code = cairn_options_take(&set, "store", argc, argv, rest, ARGS_MAX);
    if (code >= 0)
        return code;
    ask.older_s = (uint64_t)older_days * 86400;
    if (rest[0] == NULL)
        return wrong("say what to do: ls, show, tree, verify, gc or rm");
    const struct verb *verb = NULL;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        verb = strcmp(verbs[i].name, rest[0]) == 0 ? &verbs[i] : verb;
    if (verb == NULL)
        return wrong("say what to do first, then DIR: ls, show, tree, verify, gc or rm");
    if (rest[1] == NULL)
        return wrong("the directory is missing: that of --cache-disk, usually ~/.cache/cairn");
    ask.names = rest + 2;
    while (ask.names[ask.count_names] != NULL)
        ask.count_names++;
    return run_verb(verb, rest[1], &ask);
}
