/*
 * store_change - see the header.
 */
#include "cli/store_change.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/disk_plan.h"
#include "cli/term.h"
#include "serve/namespace.h"
#include "store/note_log.h"

enum { LEFTOVER_AGE_S = 3600 };

/* --- what was asked for ------------------------------------------------------------------------------------------ */

/* The first key of a file of API keys. */
static bool first_key(cairn_buf *text, const char *file, const char **ret_key, cairn_error *reterr)
{
    if (cairn_io_read_file(cairn_io_posix(), file, text, reterr) != CAIRN_OK)
        return false;
    char *save = NULL;
    for (char *line = strtok_r((char *)text->bytes, "\r\n", &save); line != NULL;
         line = strtok_r(NULL, "\r\n", &save)) {
        if (line[0] != '#') {
            *ret_key = line;
            return true;
        }
    }
    (void)cairn_error_set(reterr, CAIRN_INVALID, "store: api key", "%s holds none", file);
    return false;
}

/* The namespace that the server gives to this key and salt, as files show it. */
static cairn_status shown_space(const char *dir, const char *api_key, cairn_store_ask *ask,
                                cairn_error *reterr)
{
    uint8_t secret[CAIRN_KEYS_SECRET_BYTES];
    cairn_namespace space, shown;
    cairn_path_root root;
    cairn_keys *keys = NULL;
    char authorization[1024];
    cairn_status status = cairn_disk_plan_secret_load(dir, secret, reterr);
    if (status == CAIRN_OK) {
        status = cairn_keys_new(cairn_mem_default(), secret, api_key != NULL ? &api_key : NULL,
                                api_key != NULL ? 1 : 0, &keys, reterr);
    }
    if (status != CAIRN_OK)
        return status;
    (void)snprintf(authorization, sizeof authorization, "Bearer %s", api_key != NULL ? api_key : "");
    status = cairn_keys_namespace(keys, authorization, ask->salt, &space);
    cairn_keys_free(keys);
    if (status == CAIRN_OK)
        status = cairn_blob_space(&space, ask->key, &shown, &root, reterr);
    if (status == CAIRN_OK)
        cairn_store_hex(shown.bytes, sizeof shown.bytes, ask->space_hex);
    return status;
}

int cairn_store_ask_complete(const char *dir, cairn_store_ask *ask)
{
    cairn_error error = {0};
    if (ask->key_file != NULL) {
        int code = cairn_disk_plan_key(ask->key_file, "--cache-key", NULL, ask->key_bytes);
        if (code != 0)
            return code;
        ask->key = ask->key_bytes;
    }
    if (ask->space != NULL) {
        size_t digits = strspn(ask->space, "0123456789abcdef");
        if (digits == 0 || digits > 32 || ask->space[digits] != '\0')
            return cairn_term_usage("store", "--namespace: up to 32 hexadecimal digits are expected");
        memcpy(ask->space_hex, ask->space, digits + 1);
        return 0;
    }
    if (ask->salt == NULL && ask->api_key_file == NULL)
        return 0;
    cairn_buf text;
    const char *api_key = NULL;
    cairn_buf_init(&text, cairn_mem_default(), 1 << 20);
    bool fine = ask->api_key_file == NULL || first_key(&text, ask->api_key_file, &api_key, &error);
    fine = fine && shown_space(dir, api_key, ask, &error) == CAIRN_OK;
    cairn_buf_release(&text);
    if (!fine) {
        cairn_term_fail("the namespace can't be found", &error,
                        "`cairn store tree DIR` shows which there are.");
    }
    return fine ? 0 : 1;
}

bool cairn_store_in_space(const cairn_store_item *item, const cairn_store_ask *ask)
{
    char hex[33];
    if (ask->space_hex[0] == '\0')
        return true;
    cairn_store_hex(item->meta.space.bytes, sizeof item->meta.space.bytes, hex);
    return item->status == CAIRN_OK && strncmp(hex, ask->space_hex, strlen(ask->space_hex)) == 0;
}

const cairn_store_item *cairn_store_find(const cairn_store_list *list, const char *digits)
{
    const cairn_store_item *found = NULL;
    size_t length = strlen(digits), count = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->items[i].name, digits, length) == 0) {
            found = &list->items[i];
            count++;
        }
    }
    if (count == 1)
        return found;
    (void)fprintf(stderr, "cairn: %s: %s\n", digits,
                  count == 0 ? "no file's name begins so" : "more than one file's name begins so");
    return NULL;
}

/* --- verify ------------------------------------------------------------------------------------------------------ */

static json_t *problem_json(const char *name, const char *why)
{
    return json_pack("{s:s, s:s}", "name", name, "why", why);
}

int cairn_store_verify(const cairn_store_list *list, const cairn_store_ask *ask)
{
    size_t checked = 0, bad = 0;
    uint64_t bytes = 0;
    json_t *problems = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const cairn_store_item *item = &list->items[i];
        cairn_error error = {0};
        char why[CAIRN_STORE_WHY];
        if (item->status == CAIRN_OK && !cairn_store_in_space(item, ask))
            continue;
        cairn_term_progress("checking %zu of %zu", i + 1, list->count);
        cairn_status status =
            item->status != CAIRN_OK ? item->status : cairn_store_check(list, item, ask->key, &error);
        checked++;
        bytes += item->file_bytes;
        if (status == CAIRN_OK)
            continue;
        bad++;
        (void)snprintf(why, sizeof why, "%s%s%.100s", cairn_status_message(status),
                       error.detail[0] != '\0' ? ": " : "", error.detail);
        (void)json_array_append_new(problems,
                                    problem_json(item->name, item->why[0] != '\0' ? item->why : why));
        if (!ask->json) {
            cairn_term_progress("%s", "");
            printf("%.12s  %s\n", item->name, item->why[0] != '\0' ? item->why : why);
        }
    }
    cairn_term_progress("%s", "");
    bad += list->unreadable;
    if (ask->json) {
        json_t *sum = json_pack("{s:I, s:I, s:I, s:I, s:o}", "files", (json_int_t)checked, "bytes",
                                (json_int_t)bytes, "bad", (json_int_t)bad, "folders_unreadable",
                                (json_int_t)list->unreadable, "problems", problems);
        (void)json_dumpf(sum, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        (void)fputc('\n', stdout);
        json_decref(sum);
    } else {
        char size[CAIRN_UNITS_TEXT];
        cairn_units_print_bytes(bytes, size);
        printf("%zu file%s, %s: %zu bad\n", checked, checked == 1 ? "" : "s", size, bad);
        json_decref(problems);
    }
    return bad == 0 ? 0 : 1;
}

/* --- removing ---------------------------------------------------------------------------------------------------- */

/* What was removed so far. */
typedef struct removal {
    const cairn_store_list *list;
    const cairn_store_ask *ask;
    json_t *names;
    size_t count, failed;
    uint64_t bytes;
} removal;

static void remove_file(removal *r, const char *path, const char *shown, uint64_t bytes, const char *why)
{
    cairn_error error = {0};
    cairn_status status = r->ask->dry_run ? CAIRN_OK : cairn_io_unlink(cairn_io_posix(), path, &error);
    if (status != CAIRN_OK && status != CAIRN_NOTFOUND) {
        r->failed++;
        cairn_term_fail("a file can't be removed", &error, NULL);
        return;
    }
    r->count++;
    r->bytes += bytes;
    (void)json_array_append_new(r->names, problem_json(shown, why));
    if (!r->ask->json)
        printf("%s %s  %s\n", r->ask->dry_run ? "would remove" : "removed", shown, why);
}

static void remove_item(removal *r, const cairn_store_item *item, const char *why)
{
    char path[CAIRN_STORE_PATH];
    cairn_store_path(r->list, item->name, path);
    remove_file(r, path, item->name, item->file_bytes, why);
}

static int removal_end(removal *r)
{
    if (r->ask->json) {
        json_t *sum = json_pack("{s:I, s:I, s:I, s:b, s:o}", "files", (json_int_t)r->count, "bytes",
                                (json_int_t)r->bytes, "failed", (json_int_t)r->failed, "dry_run",
                                r->ask->dry_run, "removed", r->names);
        (void)json_dumpf(sum, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        (void)fputc('\n', stdout);
        json_decref(sum);
    } else {
        char size[CAIRN_UNITS_TEXT];
        cairn_units_print_bytes(r->bytes, size);
        printf("%zu file%s, %s %s\n", r->count, r->count == 1 ? "" : "s", size,
               r->ask->dry_run ? "would go" : "removed");
        json_decref(r->names);
    }
    return r->failed == 0 ? 0 : 1;
}

typedef struct leftovers {
    removal *r;
    const char *folder, *why;
    uint64_t age_s, now_s;
} leftovers;

static bool leftover_remove(void *ctx, const char *name)
{
    leftovers *l = ctx;
    char path[CAIRN_STORE_PATH], shown[300];
    cairn_io_stat stat;
    (void)snprintf(path, sizeof path, "%.3700s/%s/%.255s", l->r->list->dir, l->folder, name);
    (void)snprintf(shown, sizeof shown, "%s/%.255s", l->folder, name);
    if (cairn_io_stat_path(cairn_io_posix(), path, &stat, NULL) == CAIRN_OK &&
        stat.kind == CAIRN_IO_KIND_FILE && (uint64_t)(stat.modified_ms / 1000) + l->age_s <= l->now_s)
        remove_file(l->r, path, shown, stat.size_bytes, l->why);
    return true;
}

static int oldest_first(const void *a, const void *b)
{
    const cairn_store_item *const *x = a, *const *y = b;
    uint64_t s = (*x)->meta.created_s, t = (*y)->meta.created_s;
    return s != t ? (s < t ? -1 : 1) : strcmp((*x)->name, (*y)->name);
}

/* Sound files by age: those that are too old, then the oldest until the rest fits. */
static void gc_sound(removal *r, uint64_t now_s)
{
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    const cairn_store_item **sound = cairn_mem_array(cairn_mem_default(), r->list->count + 1, sizeof *sound);
    size_t count = 0;
    uint64_t left = 0;
    if (sound == NULL) {
        r->failed++;
        return;
    }
    for (size_t i = 0; i < r->list->count; i++) {
        const cairn_store_item *item = &r->list->items[i];
        if (item->status == CAIRN_OK && cairn_store_in_space(item, r->ask)) {
            sound[count++] = item;
            left += item->file_bytes;
        }
    }
    if (count > 0) {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
        qsort(sound, count, sizeof *sound, oldest_first);
    }
    for (size_t i = 0; i < count; i++) {
        bool old = r->ask->older_s > 0 && sound[i]->meta.created_s + r->ask->older_s < now_s;
        bool over = r->ask->bytes_max > 0 && left > r->ask->bytes_max;
        if (!old && !over)
            break;
        remove_item(r, sound[i], old ? "old" : "beyond the size");
        left -= sound[i]->file_bytes;
    }
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    cairn_mem_array_release(cairn_mem_default(), sound, r->list->count + 1, sizeof *sound);
}

int cairn_store_gc(const cairn_store_list *list, const cairn_store_ask *ask)
{
    removal r = {.list = list, .ask = ask, .names = json_array()};
    int64_t now = cairn_clock_wall_seconds(cairn_clock_system());
    uint64_t now_s = now > 0 ? (uint64_t)now : 0;
    char path[CAIRN_STORE_PATH];
    leftovers bad = {.r = &r, .folder = "bad", .why = "was set aside", .now_s = now_s};
    leftovers tmp = {
        .r = &r, .folder = "tmp", .why = "was never finished", .now_s = now_s, .age_s = LEFTOVER_AGE_S};
    (void)snprintf(path, sizeof path, "%.3900s/bad", list->dir);
    (void)!cairn_io_list(cairn_io_posix(), path, leftover_remove, &bad, NULL);
    (void)snprintf(path, sizeof path, "%.3900s/tmp", list->dir);
    (void)!cairn_io_list(cairn_io_posix(), path, leftover_remove, &tmp, NULL);
    for (size_t i = 0; i < list->count; i++) {
        cairn_status status = list->items[i].status; /* what can't be read now may be fine later */
        if (status == CAIRN_CORRUPT || status == CAIRN_UNSUPPORTED)
            remove_item(&r, &list->items[i], status == CAIRN_CORRUPT ? "damaged" : "another format");
    }
    gc_sound(&r, now_s);
    return removal_end(&r);
}

/* Files of answers (docs/format/answers.md): their names begin with the namespace's. */
static bool answers_remove(void *ctx, const char *name)
{
    leftovers *l = ctx;
    const char *space = l->r->ask->space_hex;
    return strncmp(name, space, strlen(space)) != 0 || leftover_remove(ctx, name);
}

static void remove_answers(removal *r, const char *why)
{
    char path[CAIRN_STORE_PATH];
    leftovers answers = {.r = r, .folder = CAIRN_NOTE_FOLDER, .why = why, .now_s = UINT64_MAX};
    (void)snprintf(path, sizeof path, "%.3900s/" CAIRN_NOTE_FOLDER, r->list->dir);
    (void)!cairn_io_list(cairn_io_posix(), path, answers_remove, &answers, NULL);
}

int cairn_store_rm(const cairn_store_list *list, const cairn_store_ask *ask)
{
    bool by_space = ask->space_hex[0] != '\0';
    if ((ask->count_names > 0) + by_space + ask->all != 1) {
        return cairn_term_usage(
            "store", "rm: say what to remove: names, --namespace, --salt, --api-key-file or --all");
    }
    removal r = {.list = list, .ask = ask, .names = json_array()};
    for (size_t k = 0; k < ask->count_names; k++) {
        const cairn_store_item *item = cairn_store_find(list, ask->names[k]);
        if (item == NULL) {
            r.failed++;
        } else {
            remove_item(&r, item, "by name");
        }
    }
    for (size_t i = 0; i < list->count && ask->count_names == 0; i++) {
        if (ask->all || cairn_store_in_space(&list->items[i], ask))
            remove_item(&r, &list->items[i], ask->all ? "all" : "its namespace");
    }
    if (ask->count_names == 0)
        remove_answers(&r, ask->all ? "all" : "its namespace");
    return removal_end(&r);
}
