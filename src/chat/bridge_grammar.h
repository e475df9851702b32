/*
 * bridge_grammar - is a text GBNF that the library can take? Not for C.
 *
 * The library's own reader tells on stderr only what is wrong, with the whole grammar, and some texts that it takes never
 * come to an end or use all memory: {5,3}, rules that begin with each other, a chain of rules that doubles at each step,
 * parentheses a million deep. So a text is read here first, by the same rules, and its rules are looked at as a graph:
 *
 *   text --read--> rules as lists of symbols --check--> nothing, or a Refusal that says where and why
 *
 *   root ::= item ("," item)*           root  : [item, root_2]     root_1 : [-, item]
 *   item ::= "a" | "b"                  root_2: [root_1, root_2] | []        item : [-] | [-]        (- : some text)
 *
 * Units    bytes; lines and columns from 1
 * Thread   any
 * Test     tests/chat/test_grammar.c
 */
#ifndef CAIRN_CHAT_BRIDGE_GRAMMAR_H
#define CAIRN_CHAT_BRIDGE_GRAMMAR_H

#include <cstdint>
#include <string>
#include <vector>

struct llama_vocab;

namespace cairn_chat_bridge
{

constexpr int32_t GRAMMAR_TEXT = -1; /* a symbol that stands for at least one character or token */

/* A rule's alternatives; each holds rules by number, up to and with the first GRAMMAR_TEXT. */
struct GrammarRule {
    std::string name;  /* "" for one that a group or a repetition makes */
    int32_t owner = 0; /* the rule with a name that it belongs to */
    std::vector<std::vector<int32_t>> alternatives;
    bool defined = false;
};

/*
 * Read a grammar.
 *
 *   vocab  [in]  for tokens by name, as in <think>; borrowed for the call
 *
 * Errors   Refusal without a path: "line 1, column 12: ..."
 * Cost     O(text, and what repetitions make of it: at most half a million symbols)
 */
std::vector<GrammarRule> grammar_read(const std::string &text, const llama_vocab *vocab);

/* Refuses rules that the library would not come to an end with. Cost O(symbols). */
void grammar_ends(const std::vector<GrammarRule> &rules);

/* Both. */
void grammar_check(const std::string &text, const llama_vocab *vocab);

} // namespace cairn_chat_bridge

#endif
