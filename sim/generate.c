/*
 * generate - the single-user scenarios. Each function is one shape; read its comment with the numbers in it.
 */
#include "generate.h"

#include <stdio.h>
#include <string.h>

#include "conversation.h"
#include "generate_more.h"

static const cairn_talk_text nothing = {0};

/* A user message and its answer, sent and kept. */
static void turn(cairn_gen *gen, cairn_talk *talk, uint32_t user, uint32_t answer)
{
    cairn_talk_say(talk, CAIRN_ROLE_USER, cairn_gen_text(gen, user));
    cairn_talk_ask(gen, talk, "main", nothing, cairn_gen_text(gen, answer), true);
    cairn_gen_wait(gen, 30);
}

typedef struct drawn {
    uint32_t least;
    double mean, deviation; /* of the logarithm */
    uint32_t most;
} drawn;

/* Lengths by chance. The answer's is drawn first, always: what a seed means must not depend on the compiler. */
static void turn_drawn(cairn_gen *gen, cairn_talk *talk, drawn user, drawn answer)
{
    uint32_t answer_tokens = cairn_gen_length(gen, answer.least, answer.mean, answer.deviation, answer.most);
    turn(gen, talk, cairn_gen_length(gen, user.least, user.mean, user.deviation, user.most), answer_tokens);
}

/* The same talk with message `index` replaced from token `at` on, asked once; the talk itself stays. */
static void ask_edited(cairn_gen *gen, const cairn_talk *talk, uint32_t index, uint32_t at, uint32_t answer)
{
    cairn_talk edited = *talk;
    edited.messages[index].text.edit_seed = cairn_gen_text(gen, 1).seed;
    edited.messages[index].text.edit_at = at;
    cairn_talk_ask(gen, &edited, "main", nothing, cairn_gen_text(gen, answer), false);
    cairn_gen_wait(gen, 30);
}

/* Three turns of 3,800 tokens read at once, then the third edited from its first word, then the second. */
static cairn_status make_three_requests(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 200));
    for (int i = 0; i < 3; i++) {
        cairn_talk_say(&talk, CAIRN_ROLE_USER, cairn_gen_text(&gen, 3800));
        if (i < 2) {
            cairn_talk_say(&talk, CAIRN_ROLE_ASSISTANT, cairn_gen_text(&gen, 60));
        }
    }
    cairn_talk_ask(&gen, &talk, "main", nothing, cairn_gen_text(&gen, 60), false);
    cairn_gen_wait(&gen, 30);
    ask_edited(&gen, &talk, 4, 0, 60);
    ask_edited(&gen, &talk, 2, 0, 60);
    return cairn_gen_finish(&gen);
}

/* Four turns of about 1,500 tokens (6,273 in all; the third starts at 3,148), then the last with other first words. */
static cairn_status make_reviewer(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 5));
    for (int i = 0; i < 4; i++) {
        cairn_talk_say(&talk, CAIRN_ROLE_USER, cairn_gen_text(&gen, 1548));
        if (i < 3) {
            cairn_talk_say(&talk, CAIRN_ROLE_ASSISTANT, cairn_gen_text(&gen, 11));
        }
    }
    cairn_talk_ask(&gen, &talk, "main", nothing, cairn_gen_text(&gen, 60), false);
    cairn_gen_wait(&gen, 30);
    ask_edited(&gen, &talk, 6, 0, 60);
    return cairn_gen_finish(&gen);
}

/* A system text of 711 and two long turns (15,266 in all); then an edit in the middle of the second. */
static cairn_status make_two_long_turns(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 711));
    cairn_talk_say(&talk, CAIRN_ROLE_USER, cairn_gen_text(&gen, 7251));
    cairn_talk_say(&talk, CAIRN_ROLE_ASSISTANT, cairn_gen_text(&gen, 7251));
    cairn_talk_say(&talk, CAIRN_ROLE_USER, cairn_gen_text(&gen, 30));
    cairn_talk_ask(&gen, &talk, "main", nothing, cairn_gen_text(&gen, 60), false);
    cairn_gen_wait(&gen, 30);
    ask_edited(&gen, &talk, 1, 3600, 60);
    return cairn_gen_finish(&gen);
}

/*
 * An agent that keeps the last five observations whole: from the seventh round on, appending round j deletes the
 * observation of round j - 5. The task's own round stays, and every action stays. Each prompt parts from the one
 * before at the first observation that was kept, five rounds back.
 */
static cairn_status make_five_observations(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk_text system = cairn_gen_text(&gen, 600);
    for (uint32_t session = 0; session < 6; session++) {
        cairn_talk talk;
        cairn_talk_init(&talk, session, system);
        uint32_t task = (uint32_t)cairn_rng_range(&gen.rng, 3000, 6000);
        double wanted = 30 + 10 * cairn_rng_gaussian(&gen.rng);
        uint32_t turns = wanted < 5 ? 5 : wanted > 51 ? 51 : (uint32_t)wanted;
        cairn_talk_say(&talk, CAIRN_ROLE_USER, cairn_gen_text(&gen, task));
        for (uint32_t j = 0; j < turns && cairn_talk_tokens(&talk) < 32000; j++) {
            uint32_t action = cairn_gen_length(&gen, 20, 4.9, 0.7, 2000);
            cairn_talk_ask(&gen, &talk, "main", nothing, cairn_gen_text(&gen, action), true);
            cairn_gen_wait(&gen, 7.5);
            uint32_t observation = cairn_gen_length(&gen, 20, 6.2, 1.1, 6000);
            cairn_talk_say(&talk, CAIRN_ROLE_TOOL, cairn_gen_text(&gen, observation));
            /* Messages: task, action 0, observation 0, ... ; the observations of rounds 1 .. j - 5 are gone. */
            if (j >= 6) {
                uint32_t oldest = 3 + (j - 5); /* task, action 0, observation 0, then actions 1 .. j - 5 */
                cairn_talk_cut(&talk, oldest, oldest + 1);
            }
        }
        cairn_gen_wait(&gen, 300);
    }
    return cairn_gen_finish(&gen);
}

/* A tool loop with reasoning; at 24,000 tokens a summary takes the place of everything but the last two rounds. */
static cairn_status make_compaction(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 4200));
    cairn_talk_say(&talk, CAIRN_ROLE_USER, cairn_gen_text(&gen, 400));
    for (int rounds = 0; rounds < 80; rounds++) {
        cairn_talk_text think = cairn_gen_text(&gen, cairn_gen_length(&gen, 20, 4.5, 0.8, 1500));
        cairn_talk_ask(&gen, &talk, "main", think, cairn_gen_text(&gen, 90), true);
        cairn_gen_wait(&gen, 10);
        cairn_talk_say(&talk, CAIRN_ROLE_TOOL,
                       cairn_gen_text(&gen, cairn_gen_length(&gen, 30, 6.3, 0.9, 5000)));
        if (cairn_talk_tokens(&talk) < 24000) {
            continue;
        }
        cairn_talk summary = talk;
        cairn_talk_say(&summary, CAIRN_ROLE_USER, cairn_gen_text(&gen, 600));
        cairn_talk_text text = cairn_gen_text(&gen, 900);
        cairn_talk_ask(&gen, &summary, "compact", nothing, text, false);
        cairn_gen_wait(&gen, 10);
        cairn_talk_cut(&talk, 1, talk.count - 4);
        talk.messages[0].text = text;
    }
    return cairn_gen_finish(&gen);
}

/* A tool loop that keeps its reasoning until the next user message, at which all earlier reasoning is dropped. */
static cairn_status make_reasoning_dropped(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 2500));
    for (int user = 0; user < 8; user++) {
        cairn_talk_forget_thinking(&talk);
        cairn_talk_say(&talk, CAIRN_ROLE_USER,
                       cairn_gen_text(&gen, cairn_gen_length(&gen, 20, 4.6, 1.0, 2000)));
        for (int round = 0; round < 5; round++) {
            cairn_talk_text think = cairn_gen_text(&gen, cairn_gen_length(&gen, 50, 5.5, 0.8, 3000));
            cairn_talk_ask(&gen, &talk, "main", think, cairn_gen_text(&gen, round < 4 ? 80 : 250), true);
            cairn_gen_wait(&gen, 15);
            if (round < 4) {
                cairn_talk_say(&talk, CAIRN_ROLE_TOOL,
                               cairn_gen_text(&gen, cairn_gen_length(&gen, 30, 5.8, 1.0, 4000)));
            }
        }
    }
    return cairn_gen_finish(&gen);
}

/* A chat in which answers are regenerated, early messages edited, and the user goes back and forth between branches. */
static cairn_status make_regenerate(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk branches[4];
    cairn_talk_init(&branches[0], 0, cairn_gen_text(&gen, 1200));
    uint32_t count = 1;
    uint32_t now = 0;
    for (int step = 0; step < 60; step++) {
        cairn_talk *talk = &branches[now];
        double dice = cairn_rng_unit(&gen.rng);
        if (dice < 0.2 && talk->count >= 2) {
            talk->count--; /* regenerate: the same prompt once more */
            cairn_talk_ask(&gen, talk, "main", nothing, cairn_gen_text(&gen, 300), true);
            cairn_gen_wait(&gen, 20);
        } else if (dice < 0.35 && talk->count >= 6) {
            /* Edit an earlier user message: a new branch from there. */
            uint32_t to = count < 4 ? count++ : (now + 1) % 4;
            branches[to] = *talk;
            uint32_t cut = 2 * (uint32_t)cairn_rng_below(&gen.rng, talk->count / 2);
            branches[to].count = cut;
            now = to;
            turn(&gen, &branches[to], 400, 300);
        } else if (dice < 0.5 && count > 1) {
            now = (uint32_t)cairn_rng_below(&gen.rng, count); /* back to another branch */
            turn(&gen, &branches[now], 150, 300);
        } else {
            turn_drawn(&gen, talk, (drawn){30, 5.5, 1.0, 3000}, (drawn){60, 5.6, 0.7, 2000});
        }
    }
    return cairn_gen_finish(&gen);
}

/* Eight conversations in turn, all on one system text of 6,000 tokens. */
static cairn_status make_round_robin(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk_text system = cairn_gen_text(&gen, 6000);
    cairn_talk talks[8];
    for (uint32_t i = 0; i < 8; i++) {
        cairn_talk_init(&talks[i], i, system);
    }
    for (int round = 0; round < 8; round++) {
        for (uint32_t i = 0; i < 8; i++) {
            turn_drawn(&gen, &talks[i], (drawn){20, 5.0, 1.0, 2000}, (drawn){30, 5.5, 0.8, 1500});
        }
    }
    return cairn_gen_finish(&gen);
}

/* A long conversation with a title at its start, a suggestion after each answer and a memory request now and then. */
static cairn_status make_side_requests(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk_text title_system = cairn_gen_text(&gen, 330);
    cairn_talk_text memory_system = cairn_gen_text(&gen, 2600);
    cairn_talk_text suggest = cairn_gen_text(&gen, 230);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 5000));
    for (int i = 0; i < 24; i++) {
        turn_drawn(&gen, &talk, (drawn){20, 5.0, 1.0, 2500}, (drawn){40, 5.7, 0.8, 2000});
        cairn_talk side = talk;
        side.session = 1;
        if (i == 0) {
            side.system = title_system;
            side.count = 1;
            cairn_talk_ask(&gen, &side, "title", nothing, cairn_gen_text(&gen, 12), false);
        } else if (i % 6 == 5) {
            side.system = memory_system;
            cairn_talk_ask(&gen, &side, "memory", nothing, cairn_gen_text(&gen, 60), false);
        } else {
            cairn_talk_say(&side, CAIRN_ROLE_USER, suggest);
            cairn_talk_ask(&gen, &side, "suggest", nothing, cairn_gen_text(&gen, 20), false);
        }
        cairn_gen_wait(&gen, 5);
    }
    return cairn_gen_finish(&gen);
}

/* The system text ends with the time of day: it differs in every request, and all behind it is new each time. */
static cairn_status make_clock(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 8000));
    for (int i = 0; i < 24; i++) {
        talk.clock = cairn_gen_text(&gen, 9);
        turn_drawn(&gen, &talk, (drawn){20, 4.5, 0.8, 1000}, (drawn){30, 5.0, 0.8, 1000});
    }
    return cairn_gen_finish(&gen);
}

/* One document of 24,000 tokens and forty questions about it, each in a conversation of its own. */
static cairn_status make_document(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk_text system = cairn_gen_text(&gen, 300);
    cairn_talk_text document = cairn_gen_text(&gen, 24000);
    for (uint32_t i = 0; i < 40; i++) {
        cairn_talk talk;
        cairn_talk_init(&talk, i, system);
        /* The question stands in the same message, behind the document. */
        uint32_t question = cairn_gen_length(&gen, 10, 3.0, 0.6, 200);
        cairn_talk_text text = document;
        text.edit_at = document.count;
        text.count += question;
        text.edit_seed = cairn_gen_text(&gen, 1).seed;
        cairn_talk_say(&talk, CAIRN_ROLE_USER, text);
        cairn_talk_ask(&gen, &talk, "main", nothing, cairn_gen_text(&gen, 150), true);
        cairn_gen_wait(&gen, 20);
        if (i % 4 == 3) {
            turn(&gen, &talk, 40, 150);
        }
    }
    return cairn_gen_finish(&gen);
}

/* A long conversation beside a flood of prompts that never come back. */
static cairn_status make_flood(cairn_workload *w, uint64_t seed, cairn_error *reterr)
{
    cairn_gen gen;
    cairn_gen_init(&gen, w, seed, reterr);
    cairn_talk talk;
    cairn_talk_init(&talk, 0, cairn_gen_text(&gen, 3000));
    uint32_t session = 1;
    for (int i = 0; i < 20; i++) {
        turn_drawn(&gen, &talk, (drawn){50, 6.0, 0.8, 4000}, (drawn){50, 5.8, 0.7, 2000});
        for (int k = 0; k < 15; k++) {
            cairn_talk shot;
            cairn_talk_init(&shot, session++, nothing);
            cairn_talk_say(&shot, CAIRN_ROLE_USER, cairn_gen_text(&gen, 1100));
            cairn_talk_ask(&gen, &shot, "oneshot", nothing, cairn_gen_text(&gen, 50), false);
            cairn_gen_wait(&gen, 2);
        }
    }
    return cairn_gen_finish(&gen);
}

static const cairn_scenario scenarios[] = {
    {"three-requests", "three turns of 3,800; then the third edited, then the second", make_three_requests},
    {"reviewer", "four turns of 1,500 tokens; then the last one with other first words", make_reviewer},
    {"two-long-turns", "a system text and two turns of 7,250; then an edit in the middle of the second",
     make_two_long_turns},
    {"five-observations", "an agent that keeps only the last five observations", make_five_observations},
    {"compaction", "a tool loop whose history is replaced by a summary at 24,000 tokens", make_compaction},
    {"reasoning-dropped", "reasoning is dropped from the history at each new user message",
     make_reasoning_dropped},
    {"regenerate", "answers regenerated, early messages edited, branches switched", make_regenerate},
    {"round-robin", "eight conversations in turn on one system text", make_round_robin},
    {"side-requests", "titles, suggestions and memory requests between the turns of a conversation",
     make_side_requests},
    {"clock", "the time of day at the end of the system text", make_clock},
    {"document", "one document of 24,000 tokens, forty questions", make_document},
    {"flood", "a long conversation beside 300 prompts that never come back", make_flood},
    {"fleet", "1,000 sessions of chats and agents on eight slots", cairn_generate_fleet},
};

const cairn_scenario *cairn_scenario_list(uint32_t *ret_count)
{
    *ret_count = sizeof scenarios / sizeof scenarios[0];
    return scenarios;
}

const cairn_scenario *cairn_scenario_get(const char *name)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strcmp(scenarios[i].name, name) == 0) {
            return &scenarios[i];
        }
    }
    return NULL;
}

cairn_status cairn_scenario_make(const cairn_scenario *scenario, const cairn_mem *mem, uint64_t seed,
                                 cairn_workload *w, cairn_error *reterr)
{
    cairn_workload_init(w, mem, scenario->name);
    return scenario->make(w, seed, reterr);
}
