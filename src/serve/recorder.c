/*
 * recorder - see the header. Lines are printed by hand: a prompt has tens of thousands of numbers.
 */
#include "serve/recorder.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "serve/record_json.h"

enum { LINE_BYTES_MAX = 256 << 20, ENDING = 2 /* ".1" */ };

struct cairn_recorder {
    cairn_recorder_options options;
    char path[CAIRN_IO_PATH_MAX], older[CAIRN_IO_PATH_MAX + ENDING];
    uint8_t veil[CAIRN_RECORDER_KEY_BYTES];
    cairn_file *file; /* NULL: a write has failed, nothing more is recorded */
    uint64_t written_bytes;
    cairn_buf line;
    bool told; /* that a request is larger than the file may be */
};

/* --- files ------------------------------------------------------------------------------------------------------- */

/* A line is whole or not there. */
static cairn_status write_line(cairn_recorder *r, cairn_error *reterr)
{
    cairn_status status = cairn_io_write(r->file, r->line.bytes, r->line.len_bytes, reterr);
    if (status != CAIRN_OK) {
        cairn_status cut = cairn_io_truncate(r->file, r->written_bytes, NULL);
        (void)cut; /* the first failure is the one to tell */
        return status;
    }
    r->written_bytes += r->line.len_bytes;
    return CAIRN_OK;
}

static cairn_status write_head(cairn_recorder *r, cairn_error *reterr)
{
    static const char *const modes[] = {"fast", "exact", "off"};
    const cairn_engine_info *e = r->options.engine;
    cairn_buf_reset(&r->line);
    cairn_status status = cairn_buf_printf(
        &r->line,
        "{\"cairn\":1,\"state_bytes\":%llu,\"row_bytes\":%llu,\"batch_tokens\":%u,\"slots\":%u,"
        "\"slot_tokens\":%u,\"ram_bytes\":%llu,\"mode\":\"%s\",\"veiled\":%s}\n",
        (unsigned long long)e->state_bytes_max, (unsigned long long)e->row_bytes, e->batch_tokens_max,
        e->slots, e->slot_tokens_max, (unsigned long long)r->options.ram_bytes_max, modes[r->options.mode],
        r->options.veil != NULL ? "true" : "false");
    return status == CAIRN_OK ? write_line(r, reterr)
                              : cairn_error_set(reterr, status, "recorder/head", NULL);
}

/* What stands at the path becomes the older file; a new one begins. */
static cairn_status begin_file(cairn_recorder *r, cairn_error *reterr)
{
    cairn_io *io = r->options.io;
    cairn_file *full = r->file;
    cairn_io_stat stat = {0};
    r->file = NULL;
    cairn_status status = cairn_io_close(full, reterr);
    if (status == CAIRN_OK && cairn_io_stat_path(io, r->path, &stat, NULL) == CAIRN_OK) {
        status = stat.kind == CAIRN_IO_KIND_FILE
                     ? cairn_io_rename(io, r->path, r->older, reterr)
                     : cairn_error_set(reterr, CAIRN_INVALID, "recorder/open", "%s is not a file", r->path);
    }
    if (status == CAIRN_OK) {
        status = cairn_io_open(io, r->path, CAIRN_IO_WRITE | CAIRN_IO_CREATE | CAIRN_IO_TRUNCATE, &r->file,
                               reterr);
    }
    r->written_bytes = 0;
    return status == CAIRN_OK ? write_head(r, reterr) : status;
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

static cairn_status print_tokens(cairn_buf *line, const char *key, const cairn_token *tokens, uint32_t count)
{
    cairn_status status = cairn_buf_printf(line, ",\"%s\":[", key);
    for (uint32_t i = 0; i < count && status == CAIRN_OK; i++)
        status = cairn_buf_printf(line, i > 0 ? ",%d" : "%d", (int)tokens[i]);
    return status == CAIRN_OK ? cairn_buf_append_str(line, "]") : status;
}

static cairn_status print_boundary(cairn_buf *line, const cairn_boundary *b, bool first)
{
    static const struct {
        uint16_t kind;
        const char *word;
    } kinds[] = {
        {CAIRN_BOUNDARY_MESSAGE_START, "message"}, {CAIRN_BOUNDARY_SYSTEM_END, "system_end"},
        {CAIRN_BOUNDARY_LAST_USER, "last_user"},   {CAIRN_BOUNDARY_OPENER, "opener"},
        {CAIRN_BOUNDARY_THINK_START, "think"},     {CAIRN_BOUNDARY_ANSWER_END, "answer_end"},
        {CAIRN_BOUNDARY_MEDIA_END, "media_end"},   {CAIRN_BOUNDARY_MARK, "mark"},
    };
    cairn_status status = cairn_buf_printf(line, "%s{\"p\":%u,\"k\":[", first ? "" : ",", b->position);
    const char *comma = "";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == CAIRN_OK; i++) {
        if ((b->kinds & kinds[i].kind) != 0) {
            status = cairn_buf_printf(line, "%s\"%s\"", comma, kinds[i].word);
            comma = ",";
        }
    }
    if (status == CAIRN_OK)
        status = cairn_buf_printf(line, "],\"r\":\"%s\",\"m\":%u}", cairn_role_word(b->role), b->message);
    return status;
}

/* One entry a position, kinds joined, up to the prompt's end. */
static cairn_status print_boundaries(cairn_buf *line, const cairn_prompt *prompt, uint32_t count_tokens)
{
    cairn_status status = cairn_buf_append_str(line, ",\"boundaries\":[");
    bool first = true;
    for (uint32_t i = 0; i < prompt->count_boundaries && status == CAIRN_OK;) {
        cairn_boundary joined = prompt->boundaries[i++];
        for (; i < prompt->count_boundaries && prompt->boundaries[i].position == joined.position; i++) {
            const cairn_boundary *more = &prompt->boundaries[i];
            joined.kinds = (uint16_t)(joined.kinds | more->kinds);
            if ((more->kinds & CAIRN_BOUNDARY_MESSAGE_START) != 0) {
                joined.role = more->role;
                joined.message = more->message;
            }
        }
        joined.kinds = (uint16_t)(joined.kinds & ~CAIRN_BOUNDARY_BRANCH);
        if (joined.position <= count_tokens && joined.kinds != 0) {
            status = print_boundary(line, &joined, first);
            first = false;
        }
    }
    return status == CAIRN_OK ? cairn_buf_append_str(line, "]") : status;
}

/* The namespace's name in the file: it tells namespaces apart and nothing else. */
static cairn_status space_name(const cairn_recorder *r, const cairn_namespace *space, char name[17])
{
    cairn_digest digest;
    cairn_status status =
        cairn_digest_keyed(r->veil, sizeof r->veil, space->bytes, sizeof space->bytes, &digest);
    for (int i = 0; i < 8 && status == CAIRN_OK; i++)
        (void)snprintf(name + (size_t)i * 2, 3, "%02x", digest.bytes[i]);
    return status;
}

static cairn_status print_record(cairn_buf *line, const cairn_record *r, cairn_ending ending)
{
    static const char *const endings[] = {"done", "stopped", "broken"};
    return cairn_buf_printf(
        line,
        ",\"reused\":%u,\"read\":%u,\"least\":%u,\"reason\":\"%s\",\"end\":\"%s\",\"read_us\":%llu,"
        "\"move_us\":%llu,\"moved_bytes\":%llu",
        r->resume, r->read, r->least, cairn_reason_word(r->reason), endings[ending],
        (unsigned long long)r->read_ns / 1000, (unsigned long long)(r->restore_ns + r->save_ns) / 1000,
        (unsigned long long)r->moved_bytes);
}

/* tokens: cairn_token[count_prompt + count_answer], veiled or not. */
static cairn_status print_request(cairn_recorder *r, const cairn_recorder_entry *entry,
                                  const cairn_token *tokens, uint32_t count_prompt, uint32_t count_answer)
{
    cairn_buf *line = &r->line;
    char space[17] = "";
    uint64_t since_ns = entry->begun_ns - r->options.start_ns;
    cairn_buf_reset(line);
    cairn_status status = space_name(r, &entry->prompt->space, space);
    if (status == CAIRN_OK) {
        status = cairn_buf_printf(line, "{\"t\":%llu.%06llu,\"id\":%llu,\"ns\":\"%s\"%s",
                                  (unsigned long long)(since_ns / 1000000000u),
                                  (unsigned long long)(since_ns % 1000000000u / 1000u),
                                  (unsigned long long)entry->id, space,
                                  entry->prompt->no_store ? ",\"no_store\":true" : "");
    }
    if (status == CAIRN_OK)
        status = print_tokens(line, "tokens", tokens, count_prompt);
    if (status == CAIRN_OK)
        status = print_boundaries(line, entry->prompt, count_prompt);
    if (status == CAIRN_OK)
        status = print_tokens(line, "answer", tokens + count_prompt, count_answer);
    if (status == CAIRN_OK)
        status = print_record(line, entry->record, entry->ending);
    return status == CAIRN_OK ? cairn_buf_append_str(line, "}\n") : status;
}

/* What the cache has seen of it: all, or what was read of a prompt that was left. */
static cairn_status print_seen(cairn_recorder *r, const cairn_recorder_entry *entry)
{
    const cairn_record *record = entry->record;
    uint32_t prompt = entry->prompt->count, seen = record->resume + record->read;
    uint32_t answer = seen >= prompt ? entry->count_answer : 0, count = 0;
    if (seen < prompt)
        prompt = seen;
    count = prompt + answer;
    cairn_token *tokens = cairn_mem_array(r->options.mem, count, sizeof *tokens);
    if (tokens == NULL)
        return CAIRN_NOMEM;
    memcpy(tokens, entry->prompt->tokens, prompt * sizeof *tokens);
    if (answer > 0)
        memcpy(tokens + prompt, entry->answer, answer * sizeof *tokens);
    cairn_status status =
        r->options.veil != NULL ? cairn_hash_veil(r->veil, tokens, count, tokens) : CAIRN_OK;
    if (status == CAIRN_OK)
        status = print_request(r, entry, tokens, prompt, answer);
    cairn_mem_array_release(r->options.mem, tokens, count, sizeof *tokens);
    return status;
}

void cairn_recorder_add(cairn_recorder *r, const cairn_recorder_entry *entry)
{
    if (r == NULL || r->file == NULL || entry->prompt->mode == CAIRN_RESUME_OFF ||
        entry->record->resume + entry->record->read == 0)
        return;
    cairn_error error = {0};
    cairn_status status = print_seen(r, entry);
    uint64_t file_max = r->options.bytes_max / 2;
    if (status == CAIRN_LIMIT || (status == CAIRN_OK && r->line.len_bytes > file_max / 2)) {
        if (!r->told) {
            CAIRN_LOG(r->options.log, WARN, "trace",
                      CAIRN_FIELD_STR("message", "a request is too large for the trace and is left out"),
                      CAIRN_FIELD_UINT("id", entry->id));
        }
        r->told = true;
        return;
    }
    if (status != CAIRN_OK) {
        (void)cairn_error_set(&error, status, "recorder/add", NULL);
    } else if (r->written_bytes + r->line.len_bytes > file_max) {
        status = begin_file(r, &error);
        if (status == CAIRN_OK)
            status = print_seen(r, entry); /* the head stood in the line's buffer */
    }
    if (status == CAIRN_OK)
        status = write_line(r, &error);
    if (status == CAIRN_OK)
        return;
    cairn_log_error(r->options.log, CAIRN_LOG_LEVEL_WARN, "trace", &error);
    cairn_io_discard(r->file);
    r->file = NULL;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

cairn_status cairn_recorder_open(const cairn_recorder_options *options, cairn_recorder **ret_recorder,
                                 cairn_error *reterr)
{
    if (strlen(options->path) >= CAIRN_IO_PATH_MAX)
        return cairn_error_set(reterr, CAIRN_LIMIT, "recorder/open", "the path is too long");
    cairn_recorder *r = cairn_mem_zalloc(options->mem, sizeof *r);
    if (r == NULL)
        return cairn_error_set(reterr, CAIRN_NOMEM, "recorder/open", NULL);
    r->options = *options;
    if (options->veil != NULL)
        memcpy(r->veil, options->veil, sizeof r->veil);
    (void)snprintf(r->path, sizeof r->path, "%s", options->path);
    (void)snprintf(r->older, sizeof r->older, "%s.1", options->path);
    cairn_buf_init(&r->line, options->mem, LINE_BYTES_MAX);
    cairn_status status = begin_file(r, reterr);
    if (status != CAIRN_OK) {
        cairn_recorder_close(r);
        return status;
    }
    *ret_recorder = r;
    return CAIRN_OK;
}

void cairn_recorder_close(cairn_recorder *r)
{
    if (r == NULL)
        return;
    cairn_error error = {0};
    if (cairn_io_close(r->file, &error) != CAIRN_OK)
        cairn_log_error(r->options.log, CAIRN_LOG_LEVEL_WARN, "trace", &error);
    cairn_buf_release(&r->line);
    cairn_mem_release(r->options.mem, r, sizeof *r);
}
