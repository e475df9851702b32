/*
 * prior - from recorded requests to the table of divergence.c.
 */
#include "prior.h"

static const char *const where = "sim/prior";

/* The class and distance of `position` on the path of an earlier request. */
static void place_of(const cairn_workload *w, const cairn_workload_request *earlier, uint32_t position,
                     cairn_class *ret_class, uint32_t *ret_bucket)
{
    const cairn_boundary *boundaries = w->boundaries + earlier->boundaries_begin;
    uint32_t messages = 0;
    cairn_class class = CAIRN_CLASS_NONE;
    uint32_t message = 0;
    for (uint32_t i = 0; i < earlier->count_boundaries; i++) {
        const cairn_boundary *b = &boundaries[i];
        messages = b->message >= messages ? b->message + 1 : messages;
        cairn_class here = cairn_boundary_class(b->kinds, b->role);
        if (b->position <= position && here != CAIRN_CLASS_NONE) {
            class = here;
            message = b->message;
        }
    }
    *ret_class = class;
    *ret_bucket = cairn_divergence_bucket(messages > message + 1 ? messages - 1 - message : 0);
    if (position >= earlier->prompt_tokens + earlier->answer_tokens) {
        *ret_class = CAIRN_CLASS_TIP;
        *ret_bucket = 0;
    }
}

cairn_status cairn_prior_count(cairn_prior *prior, const cairn_workload *w, cairn_error *reterr)
{
    /* By node: 1 + the latest request that went through it. */
    uint32_t *latest = cairn_mem_array(w->mem, w->count_nodes + 1, sizeof *latest);
    if (latest == NULL) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where, NULL);
    }
    for (uint32_t i = 0; i < w->count_requests; i++) {
        const cairn_workload_request *r = &w->requests[i];
        uint32_t node = r->node_prompt;
        while (w->nodes[node].parent != CAIRN_WORKLOAD_NONE && latest[node] == 0) {
            node = w->nodes[node].parent;
        }
        if (w->nodes[node].end > 0) {
            uint32_t position = w->nodes[node].end;
            position = position < r->prompt_tokens ? position : r->prompt_tokens - 1;
            cairn_class class = CAIRN_CLASS_NONE;
            uint32_t bucket = 0;
            place_of(w, &w->requests[latest[node] - 1], position, &class, &bucket);
            prior->counts[class][bucket]++;
            prior->total++;
        }
        for (node = r->node_answer; w->nodes[node].parent != CAIRN_WORKLOAD_NONE;
             node = w->nodes[node].parent) {
            latest[node] = i + 1;
        }
    }
    cairn_mem_array_release(w->mem, latest, w->count_nodes + 1, sizeof *latest);
    return CAIRN_OK;
}

cairn_status cairn_prior_write(const cairn_prior *prior, cairn_buf *out)
{
    /* The sample is small: two fifths of a class's chance go evenly to all distances, and a little to everything. */
    const uint64_t unit = 10000;
    const uint64_t own = 6000;
    const uint64_t even = (unit - own) / CAIRN_DISTANCES;
    const uint64_t floor = 8;
    cairn_status status = cairn_buf_printf(
        out,
        "/* Chances in units of 1/%llu that the next request parts from a path in a message of this class, "
        "at this\n"
        " * distance in messages from its end: 0, 1, 2, 3, 4-5, 6-8, 9-16, 17+. One line for each class of "
        "boundary.h.\n"
        " * Made by cairn-prior from %llu recorded requests (traces/); never edited by hand. */\n",
        (unsigned long long)unit, (unsigned long long)prior->total);
    for (uint32_t c = 0; c < CAIRN_CLASS_COUNT; c++) {
        status = status == CAIRN_OK
                     ? cairn_buf_printf(out, "/* %-10s */ {", cairn_boundary_class_word((cairn_class)c))
                     : status;
        uint64_t sum = 0;
        for (uint32_t b = 0; b < CAIRN_DISTANCES; b++) {
            sum += prior->counts[c][b];
        }
        for (uint32_t b = 0; b < CAIRN_DISTANCES; b++) {
            bool tip = c == CAIRN_CLASS_TIP;
            uint64_t parts = tip ? prior->counts[c][b] * unit : prior->counts[c][b] * own + sum * even;
            uint64_t chance = (prior->total > 0 ? parts / prior->total : 0) + (tip && b > 0 ? 0 : floor);
            status = status == CAIRN_OK
                         ? cairn_buf_printf(out, "%s%llu", b > 0 ? ", " : "", (unsigned long long)chance)
                         : status;
        }
        status = status == CAIRN_OK ? cairn_buf_append_str(out, "},\n") : status;
    }
    return status;
}
