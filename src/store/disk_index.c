/*
 * disk_index - see the header. It must not open, read or list blob files.
 *
 * The SQLite file is a cache: synchronous is off, and whatever is wrong with it makes a new one.
 */
#include "store/disk_index.h"

#include <assert.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/lock.h"

/* The table's own version (PRAGMA user_version); another one is renewed. */
enum {
    INDEX_VERSION = 1,
    KEY_BYTES = CAIRN_NAMESPACE_BYTES + CAIRN_FINGERPRINT_BYTES + CAIRN_PATH_DIGEST_BYTES
};

static const char schema[] = "CREATE TABLE blobs(name TEXT PRIMARY KEY, key BLOB, kind INT, provenance INT, "
                             "flags INT, begin INT, end INT,"
                             " count_runs INT, cut_digest INT, payload_bytes INT, created_s INT, path_begin "
                             "BLOB, path_end BLOB, kinds INT,"
                             " role INT, message INT, file_bytes INT, used_s INT, value REAL) WITHOUT ROWID;"
                             "CREATE INDEX blobs_key ON blobs(key);"
                             "CREATE INDEX blobs_value ON blobs(value, used_s);"
                             "CREATE TABLE folders(name TEXT PRIMARY KEY, modified_ms INT) WITHOUT ROWID;"
                             "CREATE TABLE written(day INTEGER PRIMARY KEY, bytes INT);"
                             "PRAGMA user_version=1;";
static_assert(INDEX_VERSION == 1, "the schema sets user_version");

#define COLUMNS                                                                                         \
    "name, key, kind, provenance, flags, begin, end, count_runs, cut_digest, payload_bytes, created_s," \
    " path_begin, path_end, kinds, role, message, file_bytes, used_s, value"

typedef enum index_statement {
    ST_PUT,
    ST_DROP,
    ST_HAS,
    ST_USE,
    ST_CLOCK,
    ST_FIND,
    ST_EACH_VALUE,
    ST_EACH_NAME,
    ST_TOTAL,
    ST_FOLDER,
    ST_FOLDER_SET,
    ST_NAMES,
    ST_WRITTEN,
    ST_WRITTEN_ADD,
    ST_BEGIN,
    ST_COMMIT,
    ST_COUNT
} index_statement;

static const char *const statements[ST_COUNT] = {
    [ST_PUT] = ("INSERT OR REPLACE INTO blobs(" COLUMNS ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
    [ST_DROP] = "DELETE FROM blobs WHERE name=? RETURNING kind, file_bytes",
    [ST_HAS] = "SELECT kind, file_bytes FROM blobs WHERE name=?",
    [ST_USE] = "UPDATE blobs SET used_s=?2, value=?3 WHERE name=?1",
    [ST_CLOCK] = ("UPDATE blobs SET value=value-(used_s-?1)/86400.0, used_s=?1 WHERE used_s>?1"),
    [ST_FIND] = ("SELECT " COLUMNS " FROM blobs WHERE key=?"),
    [ST_EACH_VALUE] = ("SELECT " COLUMNS " FROM blobs ORDER BY value, used_s, name"),
    [ST_EACH_NAME] = ("SELECT " COLUMNS " FROM blobs ORDER BY name"),
    [ST_TOTAL] = "SELECT count(*), coalesce(sum(kind=1),0), coalesce(sum(file_bytes),0) FROM blobs",
    [ST_FOLDER] = "SELECT modified_ms FROM folders WHERE name=?",
    [ST_FOLDER_SET] = "INSERT OR REPLACE INTO folders(name, modified_ms) VALUES(?,?)",
    [ST_NAMES] = ("SELECT " COLUMNS " FROM blobs WHERE name >= ?1 AND name < ?1 || 'g' ORDER BY name"),
    [ST_WRITTEN] = "SELECT bytes FROM written WHERE day=?",
    [ST_WRITTEN_ADD] = ("INSERT INTO written(day, bytes) VALUES(?,?) ON CONFLICT(day) DO UPDATE SET "
                        "bytes=bytes+excluded.bytes"),
    [ST_BEGIN] = "BEGIN",
    [ST_COMMIT] = "COMMIT",
};

struct cairn_disk_index {
    const cairn_mem *mem;
    sqlite3 *db;
    sqlite3_stmt *statement[ST_COUNT];
    pthread_mutex_t lock;
    pthread_mutex_t total_lock; /* over what follows: sums can be had while a statement waits for the disk */
    cairn_disk_total total;
};

static cairn_status sql_error(cairn_disk_index *index, const char *where, cairn_error *reterr)
{
    int code = index->db != NULL ? sqlite3_errcode(index->db) : SQLITE_NOMEM;
    cairn_status status = code == SQLITE_NOMEM                              ? CAIRN_NOMEM
                          : code == SQLITE_BUSY || code == SQLITE_LOCKED    ? CAIRN_BUSY
                          : code == SQLITE_FULL                             ? CAIRN_NOSPACE
                          : code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? CAIRN_CORRUPT
                                                                            : CAIRN_IO;
    return cairn_error_set(reterr, status, where, "%s",
                           index->db != NULL ? sqlite3_errmsg(index->db) : "no memory");
}

static void db_close(cairn_disk_index *index)
{
    for (int i = 0; i < ST_COUNT; i++) {
        (void)sqlite3_finalize(index->statement[i]);
        index->statement[i] = NULL;
    }
    (void)sqlite3_close(index->db);
    index->db = NULL;
}

static bool db_version_matches(cairn_disk_index *index)
{
    sqlite3_stmt *query = NULL;
    bool matches = sqlite3_prepare_v2(index->db, "PRAGMA user_version", -1, &query, NULL) == SQLITE_OK &&
                   sqlite3_step(query) == SQLITE_ROW && sqlite3_column_int(query, 0) == INDEX_VERSION;
    (void)sqlite3_finalize(query);
    return matches;
}

static bool total_read(cairn_disk_index *index)
{
    sqlite3_stmt *query = index->statement[ST_TOTAL];
    if (sqlite3_step(query) != SQLITE_ROW) {
        return false;
    }
    index->total.blobs = (uint64_t)sqlite3_column_int64(query, 0);
    index->total.states = (uint64_t)sqlite3_column_int64(query, 1);
    index->total.file_bytes = (uint64_t)sqlite3_column_int64(query, 2);
    (void)sqlite3_reset(query);
    return true;
}

/* Is there nothing in the file yet? */
static bool db_is_new(cairn_disk_index *index)
{
    sqlite3_stmt *query = NULL;
    bool is_new =
        sqlite3_prepare_v2(index->db, "SELECT count(*) FROM sqlite_schema", -1, &query, NULL) == SQLITE_OK &&
        sqlite3_step(query) == SQLITE_ROW && sqlite3_column_int(query, 0) == 0;
    (void)sqlite3_finalize(query);
    return is_new;
}

/* Open, and make the tables where there are none; *ret_new says so. */
static cairn_status db_open(cairn_disk_index *index, const char *path, bool *ret_new, cairn_error *reterr)
{
    static const char where[] = "store/disk_index: open";
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
    if (sqlite3_open_v2(path, &index->db, flags, NULL) != SQLITE_OK ||
        sqlite3_exec(index->db,
                     "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=OFF;"
                     "PRAGMA cache_size=-8192; PRAGMA temp_store=MEMORY; BEGIN EXCLUSIVE; COMMIT;",
                     NULL, NULL, NULL) != SQLITE_OK) {
        return sql_error(index, where, reterr);
    }
    *ret_new = db_is_new(index);
    if (*ret_new && sqlite3_exec(index->db, schema, NULL, NULL, NULL) != SQLITE_OK) {
        return sql_error(index, where, reterr);
    }
    if (!db_version_matches(index)) {
        return cairn_error_set(reterr, CAIRN_CORRUPT, where, "of another version");
    }
    for (int i = 0; i < ST_COUNT; i++) {
        if (sqlite3_prepare_v3(index->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &index->statement[i],
                               NULL) != SQLITE_OK) {
            return sql_error(index, where, reterr);
        }
    }
    return total_read(index) ? CAIRN_OK : sql_error(index, where, reterr);
}

/* Put a table that can't be used out of the way: PATH becomes PATH.bad, replacing an older one. */
static void set_aside(const char *path)
{
    char aside[4096];
    int length = snprintf(aside, sizeof aside, "%s.bad", path);
    if (length > 0 && (size_t)length < sizeof aside && rename(path, aside) != 0) {
        (void)remove(path);
    }
    length = snprintf(aside, sizeof aside, "%s-journal", path);
    if (length > 0 && (size_t)length < sizeof aside) {
        (void)remove(aside);
    }
}

cairn_status cairn_disk_index_open(const cairn_mem *mem, const char *path, cairn_disk_index **ret_index,
                                   bool *ret_renewed, cairn_error *reterr)
{
    cairn_disk_index *index = cairn_mem_zalloc(mem, sizeof *index);
    if (index == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, "store/disk_index: open", NULL);
    }
    index->mem = mem;
    cairn_lock_init(&index->lock);
    cairn_lock_init(&index->total_lock);
    cairn_error error = {0};
    bool renewed = false;
    cairn_status status = db_open(index, path != NULL ? path : ":memory:", &renewed, &error);
    if (status != CAIRN_OK && status != CAIRN_BUSY && status != CAIRN_NOMEM && path != NULL) {
        db_close(index);
        set_aside(path);
        status = db_open(index, path, &renewed, &error);
    }
    if (status != CAIRN_OK) {
        cairn_disk_index_close(index);
        if (reterr != NULL) {
            *reterr = error;
        }
        return status;
    }
    *ret_index = index;
    *ret_renewed = renewed;
    return CAIRN_OK;
}

void cairn_disk_index_close(cairn_disk_index *index)
{
    if (index == NULL) {
        return;
    }
    db_close(index);
    (void)pthread_mutex_destroy(&index->total_lock);
    (void)pthread_mutex_destroy(&index->lock);
    cairn_mem_release(index->mem, index, sizeof *index);
}

/* Take the lock and the statement; give both back with statement_end. */
static sqlite3_stmt *statement_begin(cairn_disk_index *index, index_statement which)
{
    cairn_lock(&index->lock);
    return index->statement[which];
}

static void statement_end(cairn_disk_index *index, sqlite3_stmt *statement)
{
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    cairn_unlock(&index->lock);
}

/* Run a statement that gives no rows. */
static cairn_status statement_run(cairn_disk_index *index, sqlite3_stmt *statement, const char *where,
                                  cairn_error *reterr)
{
    cairn_status status = sqlite3_step(statement) == SQLITE_DONE ? CAIRN_OK : sql_error(index, where, reterr);
    statement_end(index, statement);
    return status;
}

static void key_make(const cairn_namespace *space, const uint8_t *fingerprint, const cairn_path_digest *base,
                     uint8_t key[KEY_BYTES])
{
    memcpy(key, space->bytes, CAIRN_NAMESPACE_BYTES);
    memcpy(key + CAIRN_NAMESPACE_BYTES, fingerprint, CAIRN_FINGERPRINT_BYTES);
    memcpy(key + CAIRN_NAMESPACE_BYTES + CAIRN_FINGERPRINT_BYTES, base->bytes, CAIRN_PATH_DIGEST_BYTES);
}

static void total_add(cairn_disk_index *index, bool state, uint64_t file_bytes)
{
    cairn_lock(&index->total_lock);
    index->total.blobs++;
    index->total.states += state ? 1 : 0;
    index->total.file_bytes += file_bytes;
    cairn_unlock(&index->total_lock);
}

static void total_forget(cairn_disk_index *index, bool state, uint64_t file_bytes)
{
    cairn_lock(&index->total_lock);
    if (CAIRN_EXPECT(index->total.blobs > 0 && index->total.file_bytes >= file_bytes)) {
        index->total.blobs--;
        index->total.states -= state ? 1 : 0;
        index->total.file_bytes -= file_bytes;
    }
    cairn_unlock(&index->total_lock);
}

cairn_status cairn_disk_index_put(cairn_disk_index *index, const cairn_disk_row *row, cairn_error *reterr)
{
    cairn_status status = cairn_disk_index_drop(index, row->name, reterr);
    if (status != CAIRN_OK) {
        return status;
    }
    const cairn_blob_meta *meta = &row->meta;
    uint8_t key[KEY_BYTES];
    key_make(&meta->space, meta->fingerprint, &meta->path_base, key);
    sqlite3_stmt *put = statement_begin(index, ST_PUT);
    int at = 1;
    (void)sqlite3_bind_text(put, at++, row->name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_blob(put, at++, key, sizeof key, SQLITE_STATIC);
    const int64_t numbers[] = {(int64_t)meta->kind,
                               meta->provenance,
                               meta->flags,
                               meta->begin,
                               meta->end,
                               meta->count_runs,
                               (int64_t)meta->cut_digest,
                               (int64_t)meta->payload_bytes,
                               (int64_t)meta->created_s};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        (void)sqlite3_bind_int64(put, at++, numbers[i]);
    }
    (void)sqlite3_bind_blob(put, at++, meta->path_begin.bytes, CAIRN_PATH_DIGEST_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_blob(put, at++, meta->path_end.bytes, CAIRN_PATH_DIGEST_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_int64(put, at++, meta->boundary.kinds);
    (void)sqlite3_bind_int64(put, at++, meta->boundary.role);
    (void)sqlite3_bind_int64(put, at++, meta->boundary.message);
    (void)sqlite3_bind_int64(put, at++, (int64_t)row->file_bytes);
    (void)sqlite3_bind_int64(put, at++, (int64_t)row->used_s);
    (void)sqlite3_bind_double(put, at++, row->value);
    CAIRN_ASSERT(at == 20);
    if (sqlite3_step(put) == SQLITE_DONE) {
        total_add(index, meta->kind == CAIRN_BLOB_STATE, row->file_bytes);
    } else {
        status = sql_error(index, "store/disk_index: put", reterr);
    }
    statement_end(index, put);
    return status;
}

cairn_status cairn_disk_index_drop(cairn_disk_index *index, const char *name, cairn_error *reterr)
{
    sqlite3_stmt *drop = statement_begin(index, ST_DROP);
    (void)sqlite3_bind_text(drop, 1, name, -1, SQLITE_STATIC);
    int step = sqlite3_step(drop);
    if (step == SQLITE_ROW) {
        total_forget(index, sqlite3_column_int(drop, 0) == CAIRN_BLOB_STATE,
                     (uint64_t)sqlite3_column_int64(drop, 1));
        step = sqlite3_step(drop);
    }
    cairn_status status = step == SQLITE_DONE ? CAIRN_OK : sql_error(index, "store/disk_index: drop", reterr);
    statement_end(index, drop);
    return status;
}

cairn_status cairn_disk_index_has(cairn_disk_index *index, const char *name, bool *ret_has,
                                  cairn_error *reterr)
{
    sqlite3_stmt *has = statement_begin(index, ST_HAS);
    (void)sqlite3_bind_text(has, 1, name, -1, SQLITE_STATIC);
    int step = sqlite3_step(has);
    cairn_status status = CAIRN_OK;
    if (step == SQLITE_ROW || step == SQLITE_DONE) {
        *ret_has = step == SQLITE_ROW;
    } else {
        status = sql_error(index, "store/disk_index: has", reterr);
    }
    statement_end(index, has);
    return status;
}

cairn_status cairn_disk_index_use(cairn_disk_index *index, const char *name, uint64_t used_s, double value,
                                  cairn_error *reterr)
{
    sqlite3_stmt *use = statement_begin(index, ST_USE);
    (void)sqlite3_bind_text(use, 1, name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(use, 2, (int64_t)used_s);
    (void)sqlite3_bind_double(use, 3, value);
    return statement_run(index, use, "store/disk_index: use", reterr);
}

cairn_status cairn_disk_index_clock(cairn_disk_index *index, uint64_t now_s, uint64_t *ret_changed,
                                    cairn_error *reterr)
{
    sqlite3_stmt *update = statement_begin(index, ST_CLOCK);
    (void)sqlite3_bind_int64(update, 1, (int64_t)now_s);
    cairn_status status = CAIRN_OK;
    if (sqlite3_step(update) == SQLITE_DONE) {
        *ret_changed = (uint64_t)sqlite3_changes(index->db);
    } else {
        status = sql_error(index, "store/disk_index: clock", reterr);
    }
    statement_end(index, update);
    return status;
}

static void blob_column(sqlite3_stmt *query, int column, uint8_t *out, int bytes)
{
    const void *blob = sqlite3_column_blob(query, column);
    if (blob != NULL && sqlite3_column_bytes(query, column) == bytes) {
        memcpy(out, blob, (size_t)bytes);
    }
}

static void row_read(sqlite3_stmt *query, cairn_disk_row *row)
{
    memset(row, 0, sizeof *row);
    const unsigned char *name = sqlite3_column_text(query, 0);
    (void)snprintf(row->name, sizeof row->name, "%s", name != NULL ? (const char *)name : "");
    uint8_t key[KEY_BYTES] = {0};
    blob_column(query, 1, key, sizeof key);
    cairn_blob_meta *meta = &row->meta;
    memcpy(meta->space.bytes, key, CAIRN_NAMESPACE_BYTES);
    memcpy(meta->fingerprint, key + CAIRN_NAMESPACE_BYTES, CAIRN_FINGERPRINT_BYTES);
    memcpy(meta->path_base.bytes, key + CAIRN_NAMESPACE_BYTES + CAIRN_FINGERPRINT_BYTES,
           CAIRN_PATH_DIGEST_BYTES);
    meta->kind = (cairn_blob_kind)sqlite3_column_int(query, 2);
    meta->provenance = (uint8_t)sqlite3_column_int(query, 3);
    meta->flags = (uint16_t)sqlite3_column_int(query, 4);
    meta->begin = (uint32_t)sqlite3_column_int64(query, 5);
    meta->end = (uint32_t)sqlite3_column_int64(query, 6);
    meta->count_runs = (uint32_t)sqlite3_column_int64(query, 7);
    meta->cut_digest = (uint64_t)sqlite3_column_int64(query, 8);
    meta->payload_bytes = (uint64_t)sqlite3_column_int64(query, 9);
    meta->created_s = (uint64_t)sqlite3_column_int64(query, 10);
    blob_column(query, 11, meta->path_begin.bytes, CAIRN_PATH_DIGEST_BYTES);
    blob_column(query, 12, meta->path_end.bytes, CAIRN_PATH_DIGEST_BYTES);
    meta->boundary.position = meta->end;
    meta->boundary.kinds = (uint16_t)sqlite3_column_int(query, 13);
    meta->boundary.role = (uint8_t)sqlite3_column_int(query, 14);
    meta->boundary.message = (uint32_t)sqlite3_column_int64(query, 15);
    row->file_bytes = (uint64_t)sqlite3_column_int64(query, 16);
    row->used_s = (uint64_t)sqlite3_column_int64(query, 17);
    row->value = sqlite3_column_double(query, 18);
}

/* Give each row of a bound query to `each`. The lock is held; `each` must not call back into the index. */
static cairn_status rows_each(cairn_disk_index *index, sqlite3_stmt *query, cairn_disk_row_fn each, void *ctx,
                              cairn_error *reterr)
{
    int step = SQLITE_ROW;
    bool more = true;
    while (more && (step = sqlite3_step(query)) == SQLITE_ROW) {
        cairn_disk_row row;
        row_read(query, &row);
        more = each(ctx, &row);
    }
    cairn_status status = step == SQLITE_ROW || step == SQLITE_DONE
                              ? CAIRN_OK
                              : sql_error(index, "store/disk_index: rows", reterr);
    statement_end(index, query);
    return status;
}

// NOLINTNEXTLINE(readability-function-size): what belongs to one blob
cairn_status cairn_disk_index_find(cairn_disk_index *index, const cairn_namespace *space,
                                   const uint8_t fingerprint[CAIRN_FINGERPRINT_BYTES],
                                   const cairn_path_digest *base, cairn_disk_row_fn each, void *ctx,
                                   cairn_error *reterr)
{
    uint8_t key[KEY_BYTES];
    key_make(space, fingerprint, base, key);
    sqlite3_stmt *find = statement_begin(index, ST_FIND);
    (void)sqlite3_bind_blob(find, 1, key, sizeof key, SQLITE_TRANSIENT);
    return rows_each(index, find, each, ctx, reterr);
}

cairn_status cairn_disk_index_each(cairn_disk_index *index, bool by_name, cairn_disk_row_fn each, void *ctx,
                                   cairn_error *reterr)
{
    return rows_each(index, statement_begin(index, by_name ? ST_EACH_NAME : ST_EACH_VALUE), each, ctx,
                     reterr);
}

cairn_status cairn_disk_index_names(cairn_disk_index *index, const char *folder, cairn_disk_row_fn each,
                                    void *ctx, cairn_error *reterr)
{
    sqlite3_stmt *names = statement_begin(index, ST_NAMES);
    (void)sqlite3_bind_text(names, 1, folder, -1, SQLITE_TRANSIENT);
    return rows_each(index, names, each, ctx, reterr);
}

void cairn_disk_index_total(cairn_disk_index *index, cairn_disk_total *ret_total)
{
    cairn_lock(&index->total_lock);
    *ret_total = index->total;
    cairn_unlock(&index->total_lock);
}

/* One number, or `otherwise` where there is no row. */
static cairn_status number_get(cairn_disk_index *index, sqlite3_stmt *query, int64_t otherwise,
                               int64_t *ret_number, cairn_error *reterr)
{
    int step = sqlite3_step(query);
    cairn_status status = CAIRN_OK;
    if (step == SQLITE_ROW) {
        *ret_number = sqlite3_column_int64(query, 0);
    } else if (step == SQLITE_DONE) {
        *ret_number = otherwise;
    } else {
        status = sql_error(index, "store/disk_index: number", reterr);
    }
    statement_end(index, query);
    return status;
}

cairn_status cairn_disk_index_folder(cairn_disk_index *index, const char *folder, int64_t *ret_modified_ms,
                                     cairn_error *reterr)
{
    sqlite3_stmt *get = statement_begin(index, ST_FOLDER);
    (void)sqlite3_bind_text(get, 1, folder, -1, SQLITE_TRANSIENT);
    return number_get(index, get, -1, ret_modified_ms, reterr);
}

cairn_status cairn_disk_index_folder_set(cairn_disk_index *index, const char *folder, int64_t modified_ms,
                                         cairn_error *reterr)
{
    sqlite3_stmt *set = statement_begin(index, ST_FOLDER_SET);
    (void)sqlite3_bind_text(set, 1, folder, -1, SQLITE_TRANSIENT);
    (void)sqlite3_bind_int64(set, 2, modified_ms);
    return statement_run(index, set, "store/disk_index: folder", reterr);
}

cairn_status cairn_disk_index_written(cairn_disk_index *index, uint64_t day, uint64_t *ret_bytes,
                                      cairn_error *reterr)
{
    sqlite3_stmt *get = statement_begin(index, ST_WRITTEN);
    (void)sqlite3_bind_int64(get, 1, (int64_t)day);
    int64_t bytes = 0;
    cairn_status status = number_get(index, get, 0, &bytes, reterr);
    if (status == CAIRN_OK) {
        *ret_bytes = bytes < 0 ? 0 : (uint64_t)bytes;
    }
    return status;
}

cairn_status cairn_disk_index_written_add(cairn_disk_index *index, uint64_t day, uint64_t bytes,
                                          cairn_error *reterr)
{
    sqlite3_stmt *add = statement_begin(index, ST_WRITTEN_ADD);
    (void)sqlite3_bind_int64(add, 1, (int64_t)day);
    (void)sqlite3_bind_int64(add, 2, (int64_t)bytes);
    return statement_run(index, add, "store/disk_index: written", reterr);
}

cairn_status cairn_disk_index_batch(cairn_disk_index *index, bool begin, cairn_error *reterr)
{
    sqlite3_stmt *statement = statement_begin(index, begin ? ST_BEGIN : ST_COMMIT);
    return statement_run(index, statement, "store/disk_index: batch", reterr);
}
