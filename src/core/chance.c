/*
 * chance - see chance.h.
 */
#include "core/chance.h"

#include "core/boundary.h"
#include "core/value.h"

/* Of a message's chance, this part is at its start: that is where edits fall. */
static const double at_start = 0.7;

/* Chance of a repeat, or of another answer to the same prompt, as far as nothing is known. */
static const double repeated = 0.25;

cairn_outlook cairn_chance_outlook(const cairn_core *core, const cairn_request *request)
{
    /* Exact mode reads an answer again when its conversation goes on at the end: that is to part before the opener. */
    bool tells = request->prompt->mode != CAIRN_RESUME_EXACT || request->habit != CAIRN_HABIT_TIP;
    return cairn_divergence_outlook(cairn_space_at(&core->tree, request->space)->counts,
                                    tells ? request->habit : CAIRN_HABIT_NONE);
}

static uint32_t distance_of(const cairn_prompt *prompt, uint32_t message)
{
    return cairn_boundary_distance(cairn_boundary_messages(prompt), message);
}

double cairn_chance_start(const cairn_request *request, const cairn_outlook *outlook, cairn_boundary at)
{
    return at_start * cairn_divergence_lasting(outlook, cairn_boundary_class(at.kinds, at.role),
                                               distance_of(request->prompt, at.message));
}

double cairn_chance_tip(const cairn_core *core, uint32_t node)
{
    const cairn_node *item = cairn_node_at(&core->tree, node);
    cairn_outlook outlook =
        cairn_divergence_outlook(cairn_space_at(&core->tree, item->space)->counts, item->habit);
    return 0.2 + cairn_divergence_tip(&outlook);
}

/* Chance that the next request parts in [begin, end) of this prompt, by its boundaries. */
static double between(const cairn_prompt *prompt, const cairn_outlook *outlook, uint32_t begin, uint32_t end)
{
    static const uint8_t share[CAIRN_DISTANCES] = {1, 1, 1, 1, 2, 3, 8, 24};
    double inner = cairn_divergence_unforeseen(outlook);
    double sum = 0.02 * inner * (end - begin) / (double)prompt->count;
    cairn_boundary inside = cairn_boundary_message_of(prompt, begin);
    uint32_t i = cairn_boundary_after(prompt, begin);
    while (inside.kinds != 0) {
        uint32_t stop = prompt->count; /* where this message ends */
        while (i < prompt->count_boundaries && (prompt->boundaries[i].position <= inside.position ||
                                                !cairn_boundary_message(prompt->boundaries[i].kinds))) {
            i++;
        }
        if (i < prompt->count_boundaries) {
            stop = prompt->boundaries[i].position;
        }
        uint32_t distance = distance_of(prompt, inside.message);
        double chance = cairn_divergence_message(outlook, cairn_boundary_class(inside.kinds, inside.role),
                                                 distance, share[cairn_divergence_bucket(distance)]);
        uint32_t from = begin > inside.position ? begin : inside.position;
        uint32_t to = stop < end ? stop : end;
        double spread = chance * (1 - at_start) * inner;
        sum += inside.position >= begin ? chance * at_start : 0;
        sum += to > from ? spread * (to - from) / (double)(stop - inside.position) : 0;
        if (stop >= end || i >= prompt->count_boundaries) {
            break;
        }
        inside = cairn_boundary_at(prompt, stop);
    }
    return sum;
}

/*
 * A conversation that always parts at one distance has its place known: a state on the way there serves no further than to
 * the first message start (or the place before the opener) that will have one of its own.
 */
static uint32_t until_better(const cairn_core *core, const cairn_request *request,
                             const cairn_outlook *outlook, uint32_t reach)
{
    const cairn_prompt *prompt = request->prompt;
    if (outlook->habit < CAIRN_HABIT_DISTANCE) {
        return reach;
    }
    for (uint32_t i = cairn_boundary_after(prompt, request->position);
         i < prompt->count_boundaries && prompt->boundaries[i].position < reach; i++) {
        cairn_boundary at = cairn_boundary_at(prompt, prompt->boundaries[i].position);
        double chance = cairn_boundary_message(at.kinds) ? cairn_chance_start(request, outlook, at) : 0;
        chance = at.position == request->tail && chance < repeated ? repeated : chance;
        if (cairn_costs_pays(&core->costs, chance, request->position, at.position)) {
            return at.position;
        }
    }
    return reach;
}

/* The least chance of a place that means what this one does. */
static double least_chance(const cairn_outlook *outlook, uint16_t kinds)
{
    uint16_t others = kinds & (uint16_t)~CAIRN_BOUNDARY_OPENER;
    if (cairn_boundary_protected(others)) {
        return 0.25;
    }
    if ((kinds & CAIRN_BOUNDARY_OPENER) == 0) {
        return 0;
    }
    /* What a habit of parting elsewhere leaves of it. */
    return repeated * (outlook->habit >= CAIRN_HABIT_DISTANCE ? 1 - outlook->weight : 1);
}

double cairn_chance_at(const cairn_core *core, const cairn_request *request, const cairn_outlook *outlook,
                       const cairn_chance_place *place)
{
    uint32_t position = request->position;
    uint32_t count = request->prompt->count;
    /* Nearer states than the last one may not come: this one serves as far behind it as that one is before it. */
    uint32_t reach = position + (position - place->before);
    reach = reach < place->next ? place->next : reach < count ? reach : count;
    double chance = between(request->prompt, outlook, position, until_better(core, request, outlook, reach));
    double hits = place->mark != CAIRN_NONE ? (double)cairn_mark_at(&core->tree, place->mark)->hits : 0;
    chance += hits > 0 ? 0.5 * hits / (1.0 + hits) : 0;
    chance += position == request->post ? request->post_chance : 0;
    chance += position == request->tail && !cairn_boundary_protected(place->means.kinds) ? repeated : 0;
    double least = least_chance(outlook, place->means.kinds);
    return chance > least ? chance : least;
}
