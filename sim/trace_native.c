/*
 * trace_native - requests as a cairn server records them: tokens, boundaries and the answer, one request a line; or
 * hashes of blocks of tokens, as public traces of other servers have them. The format: docs/format/trace.md
 */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "trace_read.h"

enum {
    BLOCK_TOKENS = 512,
    BLOCK_TOKENS_MAX = 65536,
    PROMPT_TOKENS_MAX = 1 << 24,
    HEAD_VERSION = 1,
    SLOTS_MAX = 1024
};

#define BYTES_MAX ((uint64_t)1 << 50)

static const struct {
    const char *word;
    uint16_t kind;
} kinds[] = {
    {"message", CAIRN_BOUNDARY_MESSAGE_START}, {"system_end", CAIRN_BOUNDARY_SYSTEM_END},
    {"last_user", CAIRN_BOUNDARY_LAST_USER},   {"opener", CAIRN_BOUNDARY_OPENER},
    {"think", CAIRN_BOUNDARY_THINK_START},     {"answer_end", CAIRN_BOUNDARY_ANSWER_END},
    {"media_end", CAIRN_BOUNDARY_MEDIA_END},   {"mark", CAIRN_BOUNDARY_MARK},
};

static const char *const roles[] = {"none", "system", "user", "assistant", "tool"};

static cairn_status put_tokens(cairn_trace_read *read, const json_t *list, const char *key)
{
    if (!json_is_array(list)) {
        return cairn_trace_refuse(read, "\"%s\" is not a list", key);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *token = json_array_get(list, i);
        json_int_t value = json_integer_value(token);
        if (!json_is_integer(token) || value < 0 || value > INT32_MAX) {
            return cairn_trace_refuse(read, "\"%s\"[%zu] is not a token id", key, i);
        }
        cairn_token id = (cairn_token)value;
        cairn_draft_tokens(&read->draft, &id, 1);
    }
    return CAIRN_OK;
}

/* Each hash stands for `block` tokens that depend on it alone; the last block may be cut by "tokens_count". */
static cairn_status put_hashes(cairn_trace_read *read, const json_t *line, const json_t *hashes)
{
    const json_t *block = json_object_get(line, "block");
    json_int_t block_tokens = block != NULL ? json_integer_value(block) : BLOCK_TOKENS;
    size_t count = json_array_size(hashes);
    if (!json_is_array(hashes) || block_tokens < 1 || block_tokens > BLOCK_TOKENS_MAX) {
        return cairn_trace_refuse(read, "\"hashes\" is not a list or \"block\" not in 1..%d",
                                  BLOCK_TOKENS_MAX);
    }
    uint64_t total = (uint64_t)count * (uint64_t)block_tokens;
    const json_t *length = json_object_get(line, "count");
    if (length != NULL) {
        json_int_t value = json_integer_value(length);
        if (value < 1 || (uint64_t)value > total || (uint64_t)value + (uint64_t)block_tokens <= total) {
            return cairn_trace_refuse(read, "\"count\" does not end in the last block");
        }
        total = (uint64_t)value;
    }
    if (total == 0 || total > PROMPT_TOKENS_MAX) {
        return cairn_trace_refuse(read, "a prompt of %llu tokens", (unsigned long long)total);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *hash = json_array_get(hashes, i);
        uint64_t seed = (uint64_t)json_integer_value(hash);
        if (json_is_string(hash)) {
            seed = cairn_hash_bytes64(json_string_value(hash), json_string_length(hash), 1);
        } else if (!json_is_integer(hash)) {
            return cairn_trace_refuse(read, "\"hashes\"[%zu] is neither a number nor a text", i);
        }
        uint64_t left = total - (uint64_t)i * (uint64_t)block_tokens;
        cairn_draft_fill(&read->draft, seed,
                         (uint32_t)(left < (uint64_t)block_tokens ? left : (uint64_t)block_tokens));
    }
    return CAIRN_OK;
}

static cairn_status boundary_kinds(cairn_trace_read *read, const json_t *words, size_t index,
                                   uint16_t *ret_kinds)
{
    uint16_t sum = 0;
    for (size_t i = 0; i < json_array_size(words); i++) {
        const char *word = json_string_value(json_array_get(words, i));
        uint16_t kind = 0;
        for (size_t k = 0; word != NULL && k < sizeof kinds / sizeof kinds[0]; k++) {
            if (strcmp(word, kinds[k].word) == 0) {
                kind = kinds[k].kind;
            }
        }
        if (kind == 0) {
            return cairn_trace_refuse(read, "\"boundaries\"[%zu] has an unknown kind", index);
        }
        sum = (uint16_t)(sum | kind);
    }
    *ret_kinds = sum;
    return sum != 0 ? CAIRN_OK : cairn_trace_refuse(read, "\"boundaries\"[%zu] has no kind", index);
}

static cairn_status put_boundary(cairn_trace_read *read, const json_t *item, size_t index,
                                 cairn_boundary *ret)
{
    const json_t *position = json_object_get(item, "p");
    json_int_t at = json_integer_value(position);
    if (!json_is_integer(position) || at < 0 || at > INT32_MAX) {
        return cairn_trace_refuse(read, "\"boundaries\"[%zu] has no position \"p\"", index);
    }
    *ret = (cairn_boundary){.position = (uint32_t)at,
                            .message = (uint32_t)json_integer_value(json_object_get(item, "m"))};
    const char *role = json_string_value(json_object_get(item, "r"));
    for (uint8_t i = 0; role != NULL && i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(role, roles[i]) == 0) {
            ret->role = i;
        }
    }
    return boundary_kinds(read, json_object_get(item, "k"), index, &ret->kinds);
}

static cairn_status put_boundaries(cairn_trace_read *read, const json_t *list)
{
    cairn_draft *draft = &read->draft;
    uint32_t count = draft->count;
    for (size_t i = 0; i < json_array_size(list); i++) {
        cairn_boundary boundary = {0};
        cairn_status status = put_boundary(read, json_array_get(list, i), i, &boundary);
        if (status != CAIRN_OK) {
            return status;
        }
        if (boundary.position > count ||
            (draft->count_boundaries > 0 &&
             boundary.position <= draft->boundaries[draft->count_boundaries - 1].position)) {
            return cairn_trace_refuse(read, "\"boundaries\"[%zu] is not ascending or behind the prompt", i);
        }
        draft->count = boundary.position;
        draft->role = (cairn_role)boundary.role;
        draft->messages = boundary.message;
        cairn_draft_boundary(draft, boundary.kinds);
    }
    draft->count = count;
    return CAIRN_OK;
}

static cairn_status name_number(cairn_trace_read *read, cairn_trace_names *names, const json_t *line,
                                const char *key, uint32_t *ret)
{
    const char *text = json_string_value(json_object_get(line, key));
    const cairn_trace_name *name = cairn_trace_name_of(read, names, text != NULL ? text : "");
    if (name == NULL) {
        return CAIRN_NOMEM;
    }
    *ret = name->number;
    return CAIRN_OK;
}

/* A count that must be there, within [0, max]. */
static cairn_status head_number(cairn_trace_read *read, const json_t *line, const char *key, uint64_t max,
                                uint64_t *ret)
{
    const json_t *value = json_object_get(line, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number > max) {
        return cairn_trace_refuse(read, "\"%s\" is not a number from 0 to %llu", key,
                                  (unsigned long long)max);
    }
    *ret = (uint64_t)number;
    return CAIRN_OK;
}

cairn_status cairn_trace_native_head(cairn_trace_read *read, const json_t *line)
{
    cairn_workload_server *server = &read->w->server;
    uint64_t version = 0, batch = 0, slots = 0;
    const char *mode = json_string_value(json_object_get(line, "mode"));
    cairn_status status = head_number(read, line, "cairn", UINT32_MAX, &version);
    if (status == CAIRN_OK && version != HEAD_VERSION) {
        status = cairn_trace_refuse(read, "the trace is of version %llu, this program reads version %d",
                                    (unsigned long long)version, HEAD_VERSION);
    }
    if (status == CAIRN_OK) {
        status = head_number(read, line, "state_bytes", BYTES_MAX, &server->state_bytes);
    }
    if (status == CAIRN_OK) {
        status = head_number(read, line, "row_bytes", BYTES_MAX, &server->row_bytes);
    }
    if (status == CAIRN_OK) {
        status = head_number(read, line, "ram_bytes", BYTES_MAX, &server->ram_bytes);
    }
    if (status == CAIRN_OK) {
        status = head_number(read, line, "batch_tokens", BLOCK_TOKENS_MAX, &batch);
    }
    if (status == CAIRN_OK) {
        status = head_number(read, line, "slots", SLOTS_MAX, &slots);
    }
    if (status == CAIRN_OK && (batch == 0 || slots == 0 || mode == NULL)) {
        status = cairn_trace_refuse(read, "\"batch_tokens\", \"slots\" or \"mode\" is missing");
    }
    if (status == CAIRN_OK) {
        server->batch_tokens = (uint32_t)batch;
        server->exact = strcmp(mode, "exact") == 0;
        read->w->slots = (uint32_t)slots;
    }
    return status;
}

/* What the recording server said of the request: how much it reused, and what its work took. */
static void take_record(cairn_trace_read *read, const json_t *line, cairn_workload_entry *entry)
{
    const json_t *reused = json_object_get(line, "reused");
    entry->has_reused = json_is_integer(reused);
    entry->reused = (uint32_t)json_integer_value(reused);
    entry->no_store = json_is_true(json_object_get(line, "no_store"));
    const struct {
        const char *key;
        uint64_t *sum;
    } sums[] = {{"read", &read->w->server.read_tokens},
                {"read_us", &read->w->server.read_us},
                {"moved_bytes", &read->w->server.moved_bytes},
                {"move_us", &read->w->server.move_us}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        json_int_t value = json_integer_value(json_object_get(line, sums[i].key));
        *sums[i].sum += value > 0 ? (uint64_t)value : 0;
    }
}

cairn_status cairn_trace_native_line(cairn_trace_read *read, const json_t *line, cairn_error *reterr)
{
    const json_t *t = json_object_get(line, "t");
    const json_t *answer = json_object_get(line, "answer");
    const json_t *tokens = json_object_get(line, "tokens");
    cairn_draft *draft = &read->draft;
    double seconds = json_number_value(t);
    if (!json_is_number(t) || !isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        return cairn_trace_refuse(read, "\"t\" is not a time in seconds");
    }
    cairn_draft_clear(draft);
    cairn_status status = tokens != NULL ? put_tokens(read, tokens, "tokens")
                                         : put_hashes(read, line, json_object_get(line, "hashes"));
    if (status == CAIRN_OK && draft->status == CAIRN_OK && draft->count == 0) {
        status = cairn_trace_refuse(read, "the prompt has no tokens");
    }
    if (status == CAIRN_OK) {
        status = put_boundaries(read, json_object_get(line, "boundaries"));
    }
    draft->prompt_tokens = draft->count;
    if (status == CAIRN_OK && answer != NULL) {
        status = put_tokens(read, answer, "answer");
    }
    cairn_workload_entry entry = {0};
    if (status == CAIRN_OK) {
        status = cairn_draft_finish(draft, &entry, reterr);
    }
    if (status == CAIRN_OK) {
        status = name_number(read, &read->sessions, line, "session", &entry.session);
    }
    if (status == CAIRN_OK) {
        status = name_number(read, &read->spaces, line, "ns", &entry.space);
    }
    if (status != CAIRN_OK) {
        return status == CAIRN_INVALID ? status : cairn_error_set(reterr, status, "sim/trace_native", NULL);
    }
    entry.time_ns = (uint64_t)(seconds * 1e9);
    entry.kind = json_string_value(json_object_get(line, "kind"));
    take_record(read, line, &entry);
    return cairn_workload_add(read->w, &entry, reterr);
}
