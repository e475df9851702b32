/*
 * bridge_grammar_graph - how the rules of a grammar begin with each other.
 *
 * An edge leads from a rule to each rule that it can begin with. Two kinds of beginning count:
 *
 *   seen   what the library's own check follows: past a rule that has an empty alternative. It visits a rule again for
 *          each way to it, so the ways are counted; and it calls itself, so the longest is measured
 *   true   past every rule that can be empty. Around a circle of these the library goes on for ever when something stands
 *          behind the rule at any place: each round leaves it on the stack. And each text that a rule can begin with is kept
 *          apart and compared with all others, as the values of a long enum are
 */
#include <algorithm>

#include "chat/bridge_grammar.h"
#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

constexpr uint64_t WAYS_MAX = 2000000; /* about 50 ms */
constexpr uint64_t TEXTS_MAX = 5000;   /* each is looked at for each token of the vocabulary */
constexpr uint32_t LONGEST_MAX = 4000; /* the library's calls of itself: under 1 MiB of stack */

struct Edge {
    size_t to;
    bool followed; /* something stands behind it in its alternative */
};
using Edges = std::vector<std::vector<Edge>>;
using Flags = std::vector<bool>;

static Edges edges_of(const std::vector<GrammarRule> &rules, const Flags &empty)
{
    Edges edges(rules.size());
    for (size_t rule = 0; rule < rules.size(); rule++) {
        for (const std::vector<int32_t> &symbols : rules[rule].alternatives) {
            for (size_t i = 0; i < symbols.size() && symbols[i] != GRAMMAR_TEXT; i++) {
                edges[rule].push_back({(size_t)symbols[i], i + 1 < symbols.size()});
                if (!empty[(size_t)symbols[i]]) {
                    break;
                }
            }
        }
    }
    return edges;
}

static Flags with_empty_alternative(const std::vector<GrammarRule> &rules)
{
    Flags empty(rules.size());
    for (size_t rule = 0; rule < rules.size(); rule++) {
        empty[rule] = std::any_of(rules[rule].alternatives.begin(), rules[rule].alternatives.end(),
                                  [](const std::vector<int32_t> &symbols) { return symbols.empty(); });
    }
    return empty;
}

/* Rules that can be empty: those with an alternative all of whose rules can. */
static Flags can_be_empty(const std::vector<GrammarRule> &rules)
{
    struct Alternative {
        size_t rule, missing; /* symbols that are not known to be empty */
    };
    Flags empty = with_empty_alternative(rules);
    std::vector<Alternative> all;
    std::vector<std::vector<size_t>> stands_in(rules.size());
    std::vector<size_t> todo;
    for (size_t rule = 0; rule < rules.size(); rule++) {
        if (empty[rule]) {
            todo.push_back(rule);
        }
        for (const std::vector<int32_t> &symbols : rules[rule].alternatives) {
            if (symbols.empty() || symbols.back() == GRAMMAR_TEXT) {
                continue;
            }
            for (int32_t symbol : symbols) {
                stands_in[(size_t)symbol].push_back(all.size());
            }
            all.push_back({rule, symbols.size()});
        }
    }
    while (!todo.empty()) {
        size_t found = todo.back();
        todo.pop_back();
        for (size_t index : stands_in[found]) {
            Alternative &alternative = all[index];
            if (--alternative.missing == 0 && !empty[alternative.rule]) {
                empty[alternative.rule] = true;
                todo.push_back(alternative.rule);
            }
        }
    }
    return empty;
}

/* Depth first, without calling itself: `enter` and `leave` a rule; `known`: an edge to one that was entered before, or just left. */
template <typename Enter, typename Known, typename Leave>
static void walk(const Edges &edges, Enter &&enter, Known &&known, Leave &&leave)
{
    struct Frame {
        size_t rule, next;
    };
    Flags entered(edges.size());
    std::vector<Frame> frames;
    for (size_t start = 0; start < edges.size(); start++) {
        if (entered[start]) {
            continue;
        }
        entered[start] = true;
        enter(start);
        frames.push_back({start, 0});
        while (!frames.empty()) {
            Frame &frame = frames.back();
            if (frame.next == edges[frame.rule].size()) {
                size_t left = frame.rule;
                frames.pop_back();
                leave(left);
                if (!frames.empty()) {
                    known(frames.back().rule, left);
                }
                continue;
            }
            size_t to = edges[frame.rule][frame.next++].to;
            if (entered[to]) {
                known(frame.rule, to);
            } else {
                entered[to] = true;
                enter(to);
                frames.push_back({to, 0});
            }
        }
    }
}

static std::string named(const std::vector<GrammarRule> &rules, size_t rule)
{
    return rules[(size_t)rules[rule].owner].name.substr(0, NAME_BYTES_MAX);
}

[[noreturn]] static void recursive(const std::vector<GrammarRule> &rules, size_t rule)
{
    refuse("", "the rule " + named(rules, rule) +
                   " can begin with itself: write such rules so that something stands before the repetition");
}

static void check_seen(const std::vector<GrammarRule> &rules)
{
    Edges edges = edges_of(rules, with_empty_alternative(rules));
    std::vector<uint64_t> ways(rules.size(), 1);
    std::vector<uint32_t> longest(rules.size(), 1);
    Flags open(rules.size());
    uint64_t all = 0;
    walk(
        edges, [&](size_t rule) { open[rule] = true; },
        [&](size_t from, size_t to) {
            if (open[to]) {
                recursive(rules, to);
            }
            ways[from] = std::min(WAYS_MAX + 1, ways[from] + ways[to]);
            longest[from] = std::max(longest[from], longest[to] + 1);
        },
        [&](size_t rule) {
            open[rule] = false;
            all = std::min(WAYS_MAX + 1, all + ways[rule]); /* it may begin anywhere */
            if (all > WAYS_MAX || longest[rule] > LONGEST_MAX) {
                refuse("", "the rule " + named(rules, rule) +
                               " can begin in too many ways, or through too many rules");
            }
        });
}

/* Tarjan's strongly connected components: each rule's number. */
static std::vector<size_t> circles_of(const Edges &edges)
{
    std::vector<size_t> order(edges.size()), low(edges.size()), circle(edges.size(), SIZE_MAX), stack;
    size_t count = 0, circles = 0;
    walk(
        edges,
        [&](size_t rule) {
            order[rule] = low[rule] = count++;
            stack.push_back(rule);
        },
        [&](size_t from, size_t to) {
            if (circle[to] == SIZE_MAX) {
                low[from] = std::min(low[from], low[to]);
            }
        },
        [&](size_t rule) {
            if (low[rule] != order[rule]) {
                return;
            }
            size_t top = SIZE_MAX;
            while (top != rule) {
                top = stack.back();
                stack.pop_back();
                circle[top] = circles;
            }
            circles++;
        });
    return circle;
}

/* How many texts can each rule begin with? */
static void check_texts(const std::vector<GrammarRule> &rules, const Edges &edges, const Flags &empty)
{
    std::vector<uint64_t> texts(rules.size());
    for (size_t rule = 0; rule < rules.size(); rule++) {
        for (const std::vector<int32_t> &symbols : rules[rule].alternatives) {
            size_t i = 0;
            while (i < symbols.size() && symbols[i] != GRAMMAR_TEXT && empty[(size_t)symbols[i]]) {
                i++;
            }
            texts[rule] += i < symbols.size() && symbols[i] == GRAMMAR_TEXT;
        }
    }
    walk(
        edges, [](size_t) {},
        [&](size_t from, size_t to) { texts[from] = std::min(TEXTS_MAX + 1, texts[from] + texts[to]); },
        [&](size_t rule) {
            if (texts[rule] > TEXTS_MAX) {
                refuse("", "the rule " + named(rules, rule) + " can begin with more than " +
                               std::to_string(TEXTS_MAX) + " texts");
            }
        });
}

static void check_true(const std::vector<GrammarRule> &rules)
{
    Flags empty = can_be_empty(rules);
    Edges edges = edges_of(rules, empty);
    std::vector<size_t> circle = circles_of(edges);
    for (size_t rule = 0; rule < rules.size(); rule++) {
        for (const Edge &edge : edges[rule]) {
            if (edge.followed && circle[rule] == circle[edge.to]) {
                recursive(rules, rule);
            }
        }
    }
    check_texts(rules, edges, empty);
}

void grammar_ends(const std::vector<GrammarRule> &rules)
{
    check_seen(rules);
    check_true(rules);
}

} // namespace cairn_chat_bridge
