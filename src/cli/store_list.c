/*
 * store_list - see the header.
 */
#include "cli/store_list.h"

#include <stdlib.h>
#include <string.h>

enum { FOLDERS = 256, ITEMS_AT_FIRST = 256 };

void cairn_store_path(const cairn_store_list *list, const char *name, char ret_path[CAIRN_STORE_PATH])
{
    (void)snprintf(ret_path, CAIRN_STORE_PATH, "%.3900s/%.2s/%s.blob", list->dir, name, name);
}

bool cairn_store_passes(const cairn_store_list *list, const cairn_store_item *rows, uint32_t position,
                        const cairn_path_digest *digest)
{
    char path[CAIRN_STORE_PATH];
    cairn_file *file = NULL;
    cairn_disk_header header = {0};
    bool passes = false;
    cairn_store_path(list, rows->name, path);
    if (cairn_io_open(cairn_io_posix(), path, CAIRN_IO_READ, &file, NULL) != CAIRN_OK)
        return false;
    if (cairn_disk_header_load(cairn_mem_default(), file, &header, NULL) == CAIRN_OK) {
        passes =
            memcmp(cairn_blob_header_mark(header.bytes, &header.layout, position - header.meta.begin - 1),
                   digest->bytes, CAIRN_BLOB_MARK_BYTES) == 0;
        cairn_disk_header_release(cairn_mem_default(), &header);
    }
    cairn_io_discard(file);
    return passes;
}

void cairn_store_hex(const uint8_t *bytes, size_t count, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}

static bool note_file(void *ctx, const char *file)
{
    cairn_store_list *list = ctx;
    char name[CAIRN_BLOB_NAME_BYTES];
    if (!cairn_blob_file_parse(file, name))
        return true;
    if (list->count == list->room) {
        size_t room = list->room == 0 ? ITEMS_AT_FIRST : list->room * 2;
        void *items =
            cairn_mem_array_resize(cairn_mem_default(), list->items, list->room, room, sizeof *list->items);
        if (items == NULL) {
            list->failed = true;
            return false;
        }
        list->items = items;
        list->room = room;
    }
    cairn_store_item *item = &list->items[list->count++];
    memset(item, 0, sizeof *item);
    memcpy(item->name, name, sizeof item->name);
    return true;
}

static cairn_status header_read(const cairn_store_list *list, cairn_store_item *item, cairn_error *reterr)
{
    char path[CAIRN_STORE_PATH];
    cairn_file *file = NULL;
    cairn_io_stat stat;
    cairn_disk_header header = {0};
    cairn_store_path(list, item->name, path);
    cairn_status status = cairn_io_open(cairn_io_posix(), path, CAIRN_IO_READ, &file, reterr);
    if (status != CAIRN_OK)
        return status;
    status = file->io->file_stat(file, &stat, reterr);
    if (status == CAIRN_OK) {
        item->file_bytes = stat.size_bytes;
        item->modified_ms = stat.modified_ms;
        status = cairn_disk_header_load(cairn_mem_default(), file, &header, reterr);
    }
    if (status == CAIRN_OK) {
        char named[CAIRN_BLOB_NAME_BYTES];
        item->meta = header.meta;
        item->layout = header.layout;
        cairn_disk_header_release(cairn_mem_default(), &header);
        cairn_blob_name(&item->meta, named);
        if (strcmp(named, item->name) != 0)
            status = cairn_error_set(reterr, CAIRN_CORRUPT, "store: name", "the file holds another blob");
    }
    cairn_io_discard(file);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const cairn_store_item *x = a, *y = b;
    return strcmp(x->name, y->name);
}

cairn_status cairn_store_list_fill(const char *dir, cairn_store_list *list, cairn_error *reterr)
{
    cairn_io_stat stat;
    memset(list, 0, sizeof *list);
    list->dir = dir;
    cairn_status status = cairn_io_stat_path(cairn_io_posix(), dir, &stat, reterr);
    if (status != CAIRN_OK)
        return status;
    if (stat.kind != CAIRN_IO_KIND_FOLDER)
        return cairn_error_set(reterr, CAIRN_IO, "store: list", "%s is no directory", dir);
    for (int i = 0; i < FOLDERS && !list->failed; i++) {
        char path[CAIRN_STORE_PATH];
        (void)snprintf(path, sizeof path, "%.3900s/%02x", dir, (unsigned)i);
        cairn_status seen = cairn_io_list(cairn_io_posix(), path, note_file, list, NULL);
        list->unreadable += seen != CAIRN_OK && seen != CAIRN_NOTFOUND ? 1 : 0;
    }
    if (list->failed) {
        cairn_store_list_release(list);
        return cairn_error_set(reterr, CAIRN_NOMEM, "store: list", NULL);
    }
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, by_name);
    for (size_t i = 0; i < list->count; i++) {
        cairn_error error = {0};
        cairn_store_item *item = &list->items[i];
        item->status = header_read(list, item, &error);
        list->file_bytes += item->file_bytes;
        if (item->status != CAIRN_OK) {
            list->damaged++;
            (void)snprintf(item->why, sizeof item->why, "%s%s%.100s", cairn_status_message(item->status),
                           error.detail[0] != '\0' ? ": " : "", error.detail);
        }
    }
    return CAIRN_OK;
}

void cairn_store_list_release(cairn_store_list *list)
{
    cairn_mem_array_release(cairn_mem_default(), list->items, list->room, sizeof *list->items);
    list->items = NULL;
    list->count = list->room = 0;
}

cairn_status cairn_store_check(const cairn_store_list *list, const cairn_store_item *item, const uint8_t *key,
                               cairn_error *reterr)
{
    char path[CAIRN_STORE_PATH];
    cairn_file *file = NULL;
    cairn_disk_header header = {0};
    cairn_store_path(list, item->name, path);
    cairn_status status = cairn_io_open(cairn_io_posix(), path, CAIRN_IO_READ, &file, reterr);
    if (status != CAIRN_OK)
        return status;
    status = cairn_disk_header_load(cairn_mem_default(), file, &header, reterr);
    if (status == CAIRN_OK) {
        bool sealed = (header.meta.flags & CAIRN_BLOB_ENCRYPTED) != 0;
        status = sealed && key == NULL ? cairn_disk_stored_check(cairn_mem_default(), file, &header, reterr)
                                       : cairn_disk_payload_read(cairn_mem_default(), file, &header,
                                                                 sealed ? key : NULL, NULL, NULL, reterr);
        cairn_disk_header_release(cairn_mem_default(), &header);
    }
    cairn_io_discard(file);
    return status;
}

json_t *cairn_store_json(const cairn_store_item *item)
{
    const cairn_blob_meta *m = &item->meta;
    char space[2 * CAIRN_NAMESPACE_BYTES + 1], print[2 * CAIRN_FINGERPRINT_BYTES + 1], begin[33], end[33];
    if (item->status != CAIRN_OK) {
        return json_pack("{s:s, s:I, s:s, s:s}", "name", item->name, "file_bytes",
                         (json_int_t)item->file_bytes, "status", cairn_status_name(item->status), "why",
                         item->why);
    }
    cairn_store_hex(m->space.bytes, sizeof m->space.bytes, space);
    cairn_store_hex(m->fingerprint, sizeof m->fingerprint, print);
    cairn_store_hex(m->path_begin.bytes, sizeof m->path_begin.bytes, begin);
    cairn_store_hex(m->path_end.bytes, sizeof m->path_end.bytes, end);
    return json_pack(
        "{s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "name",
        item->name, "file_bytes", (json_int_t)item->file_bytes, "status", "OK", "kind",
        m->kind == CAIRN_BLOB_STATE ? "state" : "rows", "begin", (json_int_t)m->begin, "end",
        (json_int_t)m->end, "payload_bytes", (json_int_t)m->payload_bytes, "decoded", m->provenance != 0,
        "encrypted", (m->flags & CAIRN_BLOB_ENCRYPTED) != 0, "namespace", space, "fingerprint", print,
        "path_begin", begin, "path_end", end, "created_s", (json_int_t)m->created_s, "pieces",
        (json_int_t)item->layout.count_pieces, "runs", (json_int_t)m->count_runs, "boundary_kinds",
        (json_int_t)m->boundary.kinds, "message", (json_int_t)m->boundary.message);
}
