/*
 * value - see value.h. Costs are a small least-squares fit; gains are one walk along a path.
 */
#include "core/value.h"

#include <math.h>
#include <string.h>

#include "core/core_state.h"
#include "core/divergence.h"

/* --- costs ------------------------------------------------------------------------------------------- */

void cairn_costs_init(cairn_costs *costs, const cairn_core_options *options)
{
    *costs = (cairn_costs){0};
    costs->guess_a = options->read_ns_token > 0 ? options->read_ns_token : 1e6;
    costs->guess_b = options->read_ns_token2 > 0 ? options->read_ns_token2 : 0;
    costs->guess_c = options->call_ns > 0 ? options->call_ns : 8 * costs->guess_a;
    costs->read_ns_token = costs->guess_a;
    costs->read_ns_token2 = costs->guess_b;
    costs->call_ns = costs->guess_c;
    costs->batch_tokens = options->batch_tokens_max > 0 ? options->batch_tokens_max : 512;
    costs->take_ns = options->take_ns > 0 ? options->take_ns : 5e6;
    costs->restore_ns = options->restore_ns > 0 ? options->restore_ns : 5e6;
    costs->move_ns_byte = options->move_ns_byte > 0 ? options->move_ns_byte : 0.2;
}

double cairn_costs_read(const cairn_costs *costs, uint32_t begin, uint32_t end)
{
    double p = begin;
    double q = end;
    double token_ns = costs->read_ns_token + costs->call_ns / costs->batch_tokens;
    return end > begin ? token_ns * (q - p) + costs->read_ns_token2 * (q * q - p * p) : 0;
}

bool cairn_costs_pays(const cairn_costs *costs, double chance, uint32_t begin, uint32_t end)
{
    return chance * cairn_costs_read(costs, begin, end) > costs->call_ns + costs->take_ns;
}

/*
 * Solve for c and b with a eliminated (all sums about their means), then a. A fit says nothing of c while all batches are
 * of one length, and nothing of b while all are at one position: the guess for c weighs as much as a few small batches,
 * and b keeps its guess until positions differ by hundreds of tokens.
 */
static void fit(cairn_costs *costs)
{
    const double lean = 0.02;
    const double spread_least = 1e4;
    double cc = costs->s_cc - costs->s_ca * costs->s_ca / costs->s_aa + lean;
    double cb = costs->s_cb - costs->s_ca * costs->s_ab / costs->s_aa;
    double bb = costs->s_bb - costs->s_ab * costs->s_ab / costs->s_aa;
    double tc = costs->t_c - costs->s_ca * costs->t_a / costs->s_aa + lean * costs->guess_c;
    double tb = costs->t_b - costs->s_ab * costs->t_a / costs->s_aa;
    double slope = costs->guess_b;
    double call = (tc - cb * slope) / cc;
    double whole = cc * bb - cb * cb;
    if (bb > spread_least * costs->s_aa && whole > 0) {
        slope = (cc * tb - cb * tc) / whole;
        slope = slope > 0 ? slope : 0;
        call = (tc - cb * slope) / cc;
        if (call < 0) {
            slope = tb > 0 ? tb / bb : 0;
        }
    }
    call = call > 0 ? call : 0;
    double mean_y = costs->t_a / costs->s_aa;
    double base = mean_y - (call * costs->s_ca + slope * costs->s_ab) / costs->s_aa;
    costs->read_ns_token = base > mean_y * 0.05 ? base : mean_y * 0.05;
    costs->read_ns_token2 = slope;
    costs->call_ns = call;
}

void cairn_costs_saw_read(cairn_costs *costs, uint32_t begin, uint32_t end, uint64_t cost_ns)
{
    const double fade = 0.99;
    if (end <= begin || cost_ns == 0) {
        return;
    }
    double n = (double)end - begin;
    double x = (double)begin + end;
    double y = (double)cost_ns / n;
    costs->s_cc = costs->s_cc * fade + 1 / n;
    costs->s_ca = costs->s_ca * fade + 1;
    costs->s_cb = costs->s_cb * fade + x;
    costs->s_aa = costs->s_aa * fade + n;
    costs->s_ab = costs->s_ab * fade + n * x;
    costs->s_bb = costs->s_bb * fade + n * x * x;
    costs->t_c = costs->t_c * fade + y;
    costs->t_a = costs->t_a * fade + n * y;
    costs->t_b = costs->t_b * fade + n * x * y;
    fit(costs);
}

static void mean(double *value, double seen)
{
    *value += (seen - *value) * 0.2;
}

void cairn_costs_saw_take(cairn_costs *costs, uint64_t cost_ns)
{
    mean(&costs->take_ns, (double)cost_ns);
}

void cairn_costs_saw_move(cairn_costs *costs, uint64_t bytes, uint64_t cost_ns)
{
    if (bytes > 0) {
        mean(&costs->move_ns_byte, (double)cost_ns / (double)bytes);
    }
}

void cairn_costs_saw_restore(cairn_costs *costs, uint64_t bytes, uint64_t cost_ns)
{
    double rows_ns = (double)bytes * costs->move_ns_byte;
    double rest_ns = (double)cost_ns - rows_ns;
    mean(&costs->restore_ns, rest_ns > 0 ? rest_ns : 0);
}

/* --- walking one path ------------------------------------------------------------------------------------ */

void cairn_path_scratch_release(cairn_path_scratch *scratch, const cairn_mem *mem)
{
    cairn_mem_array_release(mem, scratch->nodes, scratch->room_nodes, sizeof *scratch->nodes);
    cairn_mem_array_release(mem, scratch->marks, scratch->room_marks, sizeof *scratch->marks);
    cairn_mem_array_release(mem, scratch->mass, scratch->room_marks, sizeof *scratch->mass);
    *scratch = (cairn_path_scratch){0};
}

static bool room_for(cairn_core *core, uint32_t nodes, uint32_t marks)
{
    cairn_path_scratch *s = &core->scratch;
    if (nodes > s->room_nodes) {
        uint32_t room = nodes + nodes / 2 + 16;
        void *fresh = cairn_mem_array_resize(core->mem, s->nodes, s->room_nodes, room, sizeof *s->nodes);
        if (fresh == NULL) {
            return false;
        }
        s->nodes = fresh;
        s->room_nodes = room;
    }
    if (marks > s->room_marks) {
        uint32_t room = marks + marks / 2 + 64;
        uint32_t *fresh_marks = cairn_mem_array(core->mem, room, sizeof *s->marks);
        double *fresh_mass = cairn_mem_array(core->mem, room, sizeof *s->mass);
        if (fresh_marks == NULL || fresh_mass == NULL) {
            cairn_mem_array_release(core->mem, fresh_marks, room, sizeof *s->marks);
            cairn_mem_array_release(core->mem, fresh_mass, room, sizeof *s->mass);
            return false;
        }
        cairn_mem_array_release(core->mem, s->marks, s->room_marks, sizeof *s->marks);
        cairn_mem_array_release(core->mem, s->mass, s->room_marks, sizeof *s->mass);
        s->marks = fresh_marks;
        s->mass = fresh_mass;
        s->room_marks = room;
    }
    return true;
}

bool cairn_path_collect(cairn_core *core, uint32_t tip)
{
    cairn_path_scratch *s = &core->scratch;
    const cairn_tree *tree = &core->tree;
    uint32_t nodes = 0;
    uint32_t marks = 0;
    s->count_nodes = s->count_marks = 0;
    for (uint32_t i = tip; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        nodes++;
        for (uint32_t m = cairn_node_at(tree, i)->mark_first; m != CAIRN_NONE;
             m = cairn_mark_at(tree, m)->next) {
            marks++;
        }
    }
    if (!room_for(core, nodes, marks)) {
        return false;
    }
    s->count_nodes = nodes;
    for (uint32_t i = tip; i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        s->nodes[--nodes] = i;
    }
    for (uint32_t i = 0; i < s->count_nodes; i++) {
        const cairn_node *node = cairn_node_at(tree, s->nodes[i]);
        for (uint32_t m = node->mark_first; m != CAIRN_NONE; m = cairn_mark_at(tree, m)->next) {
            s->marks[s->count_marks++] = m;
        }
    }
    return true;
}

uint32_t cairn_value_tip(const cairn_tree *tree, uint32_t node)
{
    while (cairn_node_at(tree, node)->child_first != CAIRN_NONE) {
        const cairn_node *item = cairn_node_at(tree, node);
        node = item->child_recent != CAIRN_NONE ? item->child_recent : item->child_first;
    }
    return node;
}

/* --- gains --------------------------------------------------------------------------------------------------- */

typedef struct spread {
    double at_start, per_token; /* of the message that the walk is in                               */
    uint32_t begin;             /* where it starts                                                  */
} spread;

/* The chance of each message mark, shared among those of one class and distance. */
static void weigh_marks(cairn_core *core, const cairn_node *tip)
{
    const cairn_tree *tree = &core->tree;
    const cairn_path_scratch *s = &core->scratch;
    /* Without the habit: paths that are kept for later are judged by what all conversations do (docs/results/tuning.md). */
    const cairn_outlook outlook = {.counts = cairn_space_at(tree, tip->space)->counts};
    uint32_t share[CAIRN_CLASS_COUNT][CAIRN_DISTANCES];
    memset(share, 0, sizeof share);
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < s->count_marks; i++) {
            cairn_mark *mark = cairn_mark_at(tree, s->marks[i]);
            cairn_class class = cairn_boundary_class(mark->kinds, mark->role);
            uint32_t bucket = cairn_divergence_bucket(cairn_boundary_distance(tip->messages, mark->message));
            if (class == CAIRN_CLASS_NONE) {
                mark->weight = 0;
            } else if (pass == 0) {
                share[class][bucket]++;
            } else {
                mark->weight = (float)cairn_divergence_message(
                    &outlook, class, cairn_boundary_distance(tip->messages, mark->message),
                    share[class][bucket]);
            }
        }
    }
}

/* mass[i]: chance of parting before mark i. Gives the chance of parting before the tip. */
static double sum_mass(cairn_core *core, const cairn_node *tip)
{
    const double even = 0.02;
    const double start = 0.7;
    const cairn_path_scratch *s = &core->scratch;
    spread now = {0};
    double sum = 0;
    uint32_t at = 0;
    double length = tip->end > 0 ? tip->end : 1;
    for (uint32_t i = 0; i < s->count_marks; i++) {
        const cairn_mark *mark = cairn_mark_at(&core->tree, s->marks[i]);
        double step = mark->position - at;
        sum += now.per_token * step + even * step / length;
        s->mass[i] = sum;
        at = mark->position;
        if (mark->weight > 0) {
            uint32_t end = tip->end; /* of this message: the next mark with a weight */
            for (uint32_t j = i + 1; j < s->count_marks; j++) {
                const cairn_mark *later = cairn_mark_at(&core->tree, s->marks[j]);
                if (later->weight > 0) {
                    end = later->position;
                    break;
                }
            }
            double tokens = end > at ? end - at : 1;
            sum += mark->weight * start;
            now.per_token = mark->weight * (1 - start) / tokens;
        }
        if (mark->hits > 0) {
            sum += mark->hits / ((double)tip->turns + 4.0);
        }
    }
    double step = tip->end > at ? tip->end - at : 0;
    return sum + now.per_token * step + even * step / length;
}

static bool tip_is_live(const cairn_core *core, uint32_t tip, uint32_t end)
{
    for (uint32_t i = 0; i < core->options.slots; i++) {
        const cairn_cursor *cursor = &core->tree.cursors[i];
        if (cursor->node == tip && cursor->position == end && core->slots[i].state_set) {
            return true;
        }
    }
    return false;
}

static bool counts_as_held(const cairn_state *state)
{
    return !state->chosen && !state->doomed;
}

bool cairn_value_refresh(cairn_core *core, uint32_t tip)
{
    const double guarded = 2; /* what a protected position is worth more than its chance says */
    const cairn_tree *tree = &core->tree;
    if (!cairn_path_collect(core, tip)) {
        return false;
    }
    const cairn_path_scratch *s = &core->scratch;
    const cairn_node *end = cairn_node_at(tree, tip);
    weigh_marks(core, end);
    double total = sum_mass(core, end);
    if (!tip_is_live(core, tip, end->end)) {
        total += cairn_divergence_chance(cairn_space_at(tree, end->space)->counts, CAIRN_CLASS_TIP, 0);
    }
    uint32_t shared = 0; /* edges before this one belong to a newer path */
    for (uint32_t i = s->count_nodes; i-- > 1;) {
        if (cairn_node_at(tree, s->nodes[i - 1])->child_recent != s->nodes[i]) {
            shared = i;
            break;
        }
    }
    uint32_t shared_end = shared > 0 ? cairn_node_at(tree, s->nodes[shared])->begin : 0;
    uint32_t held = 0;
    for (uint32_t i = 0; i < s->count_marks; i++) {
        uint32_t state = cairn_mark_at(tree, s->marks[i])->state;
        held += state != CAIRN_NONE && counts_as_held(cairn_state_at(tree, state)) ? 1 : 0;
    }
    /* The smallest of `held` merged gaps is at most this, so one may always go. */
    uint64_t widest = held > 1 ? 2 * (uint64_t)end->end / held : UINT64_MAX;
    widest = widest > 512 ? widest : 512;
    uint32_t next_position = end->end;
    double next_mass = total;
    uint32_t current = CAIRN_NONE; /* from the tip upwards: the state after is known, then the one before */
    uint32_t current_mark = 0;
    for (uint32_t i = s->count_marks + 1; i-- > 0;) {
        uint32_t before = CAIRN_NONE;
        if (i > 0) {
            before = cairn_mark_at(tree, s->marks[i - 1])->state;
            if (before == CAIRN_NONE || !counts_as_held(cairn_state_at(tree, before))) {
                continue;
            }
        }
        if (current != CAIRN_NONE) {
            cairn_state *state = cairn_state_at(tree, current);
            uint32_t previous = before != CAIRN_NONE ? cairn_state_at(tree, before)->position : 0;
            if (state->position > shared_end) {
                double saved = cairn_costs_read(&core->costs, previous, state->position);
                saved -= previous == 0 ? core->costs.restore_ns : 0;
                double chance = next_mass - s->mass[current_mark];
                bool guard = cairn_boundary_protected(cairn_mark_at(tree, state->mark)->kinds);
                state->chance = chance > 0 ? chance * (guard ? guarded : 1) : 0;
                state->gain_ns = saved > 0 ? state->chance * saved : 0;
                state->spacing_ok = held <= 1 || next_position - previous <= widest;
                state->dirty = false;
            }
            next_position = state->position;
            next_mass = s->mass[current_mark];
        }
        current = before;
        current_mark = i > 0 ? i - 1 : 0;
    }
    return true;
}

double cairn_value_gain(cairn_core *core, uint32_t state)
{
    const cairn_state *item = cairn_state_at(&core->tree, state);
    if (item->dirty) {
        (void)cairn_value_refresh(core, cairn_value_tip(&core->tree, item->node));
    }
    return item->gain_ns;
}

double cairn_value_with_others(cairn_core *core, uint32_t state, uint32_t before)
{
    (void)cairn_value_gain(core, state);
    const cairn_state *item = cairn_state_at(&core->tree, state);
    /* A pinned state's rows stay with it: without them it is worth nothing. */
    double pinned = item->anchor_pin ? CAIRN_PINNED_WORTH : 1;
    return pinned * item->chance * cairn_costs_read(&core->costs, before, item->position);
}

enum { PAUSES = sizeof((cairn_pauses *)0)->items / sizeof((cairn_pauses *)0)->items[0] };

void cairn_value_pause(cairn_pauses *pauses, uint64_t last_ns, uint64_t now_ns)
{
    const uint64_t counts_ns = UINT64_C(30000) * 1000000;
    if (last_ns == 0 || now_ns <= last_ns + counts_ns) {
        return;
    }
    uint32_t at = pauses->count % PAUSES;
    if (pauses->count >= PAUSES) { /* the oldest is forgotten: it counts with the one after it */
        pauses->items[(at + 1) % PAUSES].excess_ns += pauses->items[at].excess_ns;
    }
    pauses->items[at].end_ns = now_ns;
    pauses->items[at].excess_ns = now_ns - last_ns - counts_ns;
    pauses->count =
        pauses->count + 1 < 2 * PAUSES ? pauses->count + 1 : PAUSES + (pauses->count + 1) % PAUSES;
}

uint64_t cairn_value_age(const cairn_core *core, uint64_t used_ns)
{
    uint64_t age = core->now_ns > used_ns ? core->now_ns - used_ns : 0;
    uint32_t count = core->pauses.count;
    for (uint32_t i = 0; i < PAUSES && i < count; i++) {
        uint32_t at = (count - 1 - i) % PAUSES;
        if (core->pauses.items[at].end_ns <= used_ns) {
            break;
        }
        age -= core->pauses.items[at].excess_ns < age ? core->pauses.items[at].excess_ns : age;
    }
    return age;
}

double cairn_value_soon(const cairn_core *core, uint32_t node, uint64_t used_ns)
{
    /* A conversation has a pace of its own: an agent goes on after seconds, a person after minutes. The chance per
     * second is one over the pace, and falls as a power once the conversation is later than usual. */
    const double usual_s = 5;
    uint32_t pace_ms = cairn_node_at(&core->tree, node)->pace_ms;
    double pace_s = pace_ms != 0 ? pace_ms * 1e-3 : usual_s;
    double age_s = (double)cairn_value_age(core, used_ns) * 1e-9;
    double late = age_s / pace_s;
    return usual_s / pace_s / (1 + late * late);
}

double cairn_value_goes_on(const cairn_core *core, uint32_t node)
{
    const cairn_node *item = cairn_node_at(&core->tree, node);
    return cairn_divergence_goes_on(cairn_space_at(&core->tree, item->space)->counts,
                                    cairn_value_turns(item));
}

double cairn_value_density(const cairn_core *core, uint32_t node, double gain_ns, uint64_t used_ns,
                           uint64_t bytes)
{
    /* The chance that a conversation goes on is learned by its turns; how soon it does falls with its age. */
    return gain_ns * cairn_value_goes_on(core, node) * cairn_value_soon(core, node, used_ns) /
           (double)(bytes > 0 ? bytes : 1);
}

void cairn_value_dirty(cairn_core *core, uint32_t node)
{
    const cairn_tree *tree = &core->tree;
    for (uint32_t i = cairn_value_tip(tree, node); i != CAIRN_NONE; i = cairn_node_at(tree, i)->parent) {
        if (cairn_node_at(tree, i)->count_states == 0) {
            continue;
        }
        for (uint32_t m = cairn_node_at(tree, i)->mark_first; m != CAIRN_NONE;
             m = cairn_mark_at(tree, m)->next) {
            uint32_t state = cairn_mark_at(tree, m)->state;
            if (state != CAIRN_NONE) {
                cairn_state_at(tree, state)->dirty = true;
            }
        }
    }
}
