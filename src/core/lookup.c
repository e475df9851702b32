/*
 * lookup - see lookup.h.
 */
#include "core/lookup.h"

#include <string.h>

#include "core/boundary.h"

/* Make room for one more item of an array that the lookup reuses. */
static bool grow(const cairn_core *core, void **items, uint32_t count, uint32_t *room, size_t item_bytes)
{
    if (count < *room) {
        return true;
    }
    uint32_t more = *room + *room / 2 + 32;
    void *fresh = cairn_mem_array_resize(core->mem, *items, *room, more, item_bytes);
    if (fresh == NULL) {
        return false;
    }
    *items = fresh;
    *room = more;
    return true;
}

#define GROW(core, look, name) \
    grow((core), (void **)&(look)->name, (look)->count_##name, &(look)->room_##name, sizeof *(look)->name)

void cairn_lookup_release(cairn_core *core, cairn_lookup *lookup)
{
    cairn_mem_array_release(core->mem, lookup->nodes, lookup->room_nodes, sizeof *lookup->nodes);
    cairn_mem_array_release(core->mem, lookup->candidates, lookup->room_candidates,
                            sizeof *lookup->candidates);
    cairn_mem_array_release(core->mem, lookup->pieces, lookup->room_pieces, sizeof *lookup->pieces);
    cairn_mem_array_release(core->mem, lookup->canon, lookup->room_canon, sizeof *lookup->canon);
    cairn_mem_array_release(core->mem, lookup->common, core->options.slots, sizeof *lookup->common);
    *lookup = (cairn_lookup){0};
}

static bool collect_nodes(cairn_core *core)
{
    cairn_lookup *look = &core->lookup;
    uint32_t depth = 0;
    for (uint32_t i = look->node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        depth++;
    }
    while (look->room_nodes < depth) {
        look->count_nodes = look->room_nodes;
        if (!GROW(core, look, nodes)) {
            look->count_nodes = 0;
            return false;
        }
    }
    look->count_nodes = depth;
    for (uint32_t i = look->node; i != CAIRN_NONE; i = cairn_node_at(&core->tree, i)->parent) {
        look->nodes[--depth] = i;
    }
    return true;
}

/* The canonical cuts with their digests, up to the first at or past the divergence. */
static bool collect_canon(cairn_core *core, const cairn_prompt *prompt)
{
    cairn_lookup *look = &core->lookup;
    uint32_t index = 0;
    uint64_t digest = CAIRN_LINEAGE_SEED;
    for (uint32_t cut = 0; cut < look->divergence && cut < prompt->count;) {
        cut = cairn_boundary_cut(&core->options, prompt, cut, &index);
        digest = cairn_lineage_step(digest, cut);
        if (!GROW(core, look, canon)) {
            return false;
        }
        look->canon[look->count_canon++] = (cairn_run){.rows_end = cut, .cut = cut, .digest = digest};
    }
    return true;
}

const cairn_run *cairn_lookup_canon(const cairn_lookup *look, uint32_t position)
{
    uint32_t low = 0;
    uint32_t high = look->count_canon;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (look->canon[middle].cut >= position) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < look->count_canon ? &look->canon[low] : NULL;
}

uint32_t cairn_lookup_canon_before(const cairn_lookup *look, uint32_t position)
{
    const cairn_run *after = cairn_lookup_canon(look, position + 1);
    uint32_t count = after != NULL ? (uint32_t)(after - look->canon) : look->count_canon;
    return count > 0 ? look->canon[count - 1].cut : 0;
}

uint32_t cairn_lookup_canonical(const cairn_lookup *look, const cairn_lineage *lineage, uint32_t begin,
                                uint32_t end)
{
    for (uint32_t i = cairn_lineage_find(lineage, begin); i < lineage->count && begin < end; i++) {
        const cairn_run *run = &lineage->runs[i];
        const cairn_run *own = cairn_lookup_canon(look, begin + 1);
        if (own == NULL || own->cut != run->cut || own->digest != run->digest) {
            return begin;
        }
        begin = run->rows_end < end ? run->rows_end : end;
    }
    return begin;
}

static bool avoided(const cairn_request *request, uint64_t blob)
{
    for (uint32_t i = 0; request != NULL && i < request->count_avoid; i++) {
        if (request->avoid[i] == blob) {
            return true;
        }
    }
    return false;
}

static cairn_reason refusal(const cairn_core *core, const cairn_prompt *prompt, const cairn_request *request,
                            const cairn_state *state)
{
    if (state->pending) {
        return CAIRN_REASON_PENDING;
    }
    if (avoided(request, state->blob)) {
        return request->avoid_reason;
    }
    if (prompt->mode == CAIRN_RESUME_EXACT) {
        const cairn_run *own = cairn_lookup_canon(&core->lookup, state->position);
        if (state->decoded || state->digest == 0) {
            return CAIRN_REASON_PROVENANCE;
        }
        if (own == NULL || own->cut != state->position || own->digest != state->digest) {
            return CAIRN_REASON_CUTS;
        }
    }
    return CAIRN_REASON_NONE;
}

static bool collect_states(cairn_core *core, const cairn_prompt *prompt, const cairn_request *request)
{
    cairn_lookup *look = &core->lookup;
    const cairn_tree *tree = &core->tree;
    for (uint32_t i = 0; i < look->count_nodes; i++) {
        const cairn_node *node = cairn_node_at(tree, look->nodes[i]);
        for (uint32_t m = node->mark_first; m != CAIRN_NONE; m = cairn_mark_at(tree, m)->next) {
            const cairn_mark *mark = cairn_mark_at(tree, m);
            if (mark->position > look->limit) {
                return true;
            }
            if (mark->state == CAIRN_NONE || mark->position == 0 ||
                cairn_state_at(tree, mark->state)->doomed) {
                continue;
            }
            if (!GROW(core, look, candidates)) {
                return false;
            }
            look->candidates[look->count_candidates++] = (cairn_candidate){
                .position = mark->position,
                .state = mark->state,
                .refusal = refusal(core, prompt, request, cairn_state_at(tree, mark->state))};
        }
    }
    return true;
}

static bool add_piece(cairn_core *core, cairn_piece_rows piece)
{
    cairn_lookup *look = &core->lookup;
    if (piece.begin >= piece.end) {
        return true;
    }
    if (!GROW(core, look, pieces)) {
        return false;
    }
    look->pieces[look->count_pieces++] = piece;
    return true;
}

/* Rows [begin, end) that no segment has: does another slot have the first of them? */
static bool add_donor(cairn_core *core, const cairn_prompt *prompt, uint32_t begin, uint32_t end)
{
    cairn_lookup *look = &core->lookup;
    while (begin < end && core->options.rows_move) {
        uint32_t best = CAIRN_NONE;
        uint32_t reach = begin;
        for (uint32_t i = 0; i < core->options.slots; i++) {
            uint32_t to = look->common[i] < end ? look->common[i] : end;
            if (to > reach && !core->slots[i].settling) {
                to = prompt->mode == CAIRN_RESUME_EXACT
                         ? cairn_lookup_canonical(look, &core->slots[i].lineage, begin, to)
                         : to;
                best = to > reach ? i : best;
                reach = to > reach ? to : reach;
            }
        }
        if (best == CAIRN_NONE) {
            return true;
        }
        if (!add_piece(core, (cairn_piece_rows){CAIRN_NONE, begin, reach, best})) {
            return false;
        }
        begin = reach;
    }
    return true;
}

/*
 * A segment holds its rows from its own begin on, also where another branch's rows of the same tokens took its cover:
 * the frame of a first message is shared by all conversations, but the batch that read it is not.
 */
static uint32_t whole_begin(const cairn_lookup *look, const cairn_segment *segment, uint32_t at,
                            uint32_t begin)
{
    uint32_t from = segment->begin > at ? segment->begin : at;
    return from < begin && cairn_lookup_canonical(look, &segment->lineage, from, begin) == begin ? from
                                                                                                 : begin;
}

static bool collect_rows(cairn_core *core, const cairn_prompt *prompt, const cairn_request *request)
{
    cairn_lookup *look = &core->lookup;
    const cairn_tree *tree = &core->tree;
    uint32_t at = 0;
    for (uint32_t i = 0; i < look->count_nodes && at < look->limit; i++) {
        const cairn_node *node = cairn_node_at(tree, look->nodes[i]);
        for (uint32_t c = node->cover_first; c != CAIRN_NONE && at < look->limit;
             c = cairn_cover_at(tree, c)->next) {
            const cairn_cover *cover = cairn_cover_at(tree, c);
            const cairn_segment *segment = cairn_segment_at(tree, cover->segment);
            uint32_t end = cover->end < look->limit ? cover->end : look->limit;
            if (segment->pending || segment->doomed || avoided(request, segment->blob)) {
                continue;
            }
            uint32_t begin = cover->begin < look->limit ? cover->begin : look->limit;
            if (prompt->mode == CAIRN_RESUME_EXACT) {
                begin = whole_begin(look, segment, at, begin);
                /* Its rows before `begin` come along and replace what is there: they must be as good. */
                bool sound = segment->begin >= begin ||
                             cairn_lookup_canonical(look, &segment->lineage, segment->begin, begin) == begin;
                end = sound ? cairn_lookup_canonical(look, &segment->lineage, begin, end) : begin;
            }
            if (begin >= end) {
                continue;
            }
            if (!add_donor(core, prompt, at, begin) ||
                !add_piece(core, (cairn_piece_rows){cover->segment, begin, end, CAIRN_NONE})) {
                return false;
            }
            at = end;
        }
    }
    return add_donor(core, prompt, at, look->limit);
}

/* Is another request about to read what this one needs? */
static void note_pending(cairn_core *core, const cairn_prompt *prompt, const cairn_request *self)
{
    cairn_lookup *look = &core->lookup;
    for (uint32_t i = 0; i < core->options.slots; i++) {
        const cairn_request *other = &core->requests[i];
        if (other->id == 0 || other == self || !other->keep || other->space != look->space ||
            other->phase == CAIRN_PHASE_ANSWERING) {
            continue;
        }
        uint32_t count = other->prompt->count < prompt->count ? other->prompt->count : prompt->count;
        uint32_t same = look->divergence < count ? look->divergence : count;
        if (look->divergence > count || other->position > look->divergence) {
            continue;
        }
        while (same < count && other->prompt->tokens[same] == prompt->tokens[same]) {
            same++;
        }
        /* The part before is known to this one; is it the other's, too? */
        bool shared = memcmp(other->prompt->tokens, prompt->tokens,
                             (size_t)look->divergence * sizeof *prompt->tokens) == 0;
        if (shared && same > look->pending) {
            look->pending = same;
        }
    }
}

bool cairn_lookup_fill(cairn_core *core, const cairn_prompt *prompt, const cairn_request *request)
{
    cairn_lookup *look = &core->lookup;
    look->count_nodes = look->count_candidates = look->count_pieces = look->count_canon = 0;
    look->divergence = look->limit = look->pending = 0;
    look->root = look->node = CAIRN_NONE;
    for (uint32_t i = 0; i < core->options.slots; i++) {
        look->common[i] = 0;
    }
    look->space = cairn_tree_space(&core->tree, &prompt->space, false);
    if (look->space == CAIRN_NONE || prompt->mode == CAIRN_RESUME_OFF) {
        return true;
    }
    look->root = cairn_space_at(&core->tree, look->space)->root;
    look->divergence = cairn_tree_match(&core->tree, look->root, prompt->tokens, prompt->count, &look->node);
    look->limit = look->divergence < prompt->count - 1 ? look->divergence : prompt->count - 1;
    for (uint32_t i = 0; i < core->options.slots; i++) {
        look->common[i] = cairn_tree_common(&core->tree, i, look->node, look->divergence);
    }
    note_pending(core, prompt, request);
    if (!collect_nodes(core) || (prompt->mode == CAIRN_RESUME_EXACT && !collect_canon(core, prompt)) ||
        !collect_states(core, prompt, request) || !collect_rows(core, prompt, request)) {
        look->count_candidates = look->count_pieces = 0;
        look->limit = 0;
        return false;
    }
    return true;
}

uint32_t cairn_lookup_node(const cairn_core *core, uint32_t position)
{
    const cairn_lookup *look = &core->lookup;
    uint32_t low = 0;
    uint32_t high = look->count_nodes;
    while (low < high) { /* first edge whose end is at or past the position */
        uint32_t middle = low + (high - low) / 2;
        if (cairn_node_at(&core->tree, look->nodes[middle])->end >= position) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low < look->count_nodes ? look->nodes[low] : CAIRN_NONE;
}
