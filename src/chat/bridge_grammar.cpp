/*
 * bridge_grammar - GBNF, read as the library reads it (llama.cpp, src/llama-grammar.cpp), with its limits and some more.
 */
#include <cstring>
#include <unordered_map>

#include "llama.h"

#include "chat/bridge_grammar.h"
#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

constexpr size_t REPEATS_MAX = 2000;     /* the library's: repetitions inside of each other, multiplied */
constexpr size_t SYMBOLS_MAX = 1u << 19; /* of all rules: about 24 MiB in the library */
constexpr size_t NESTING_MAX = 256;      /* groups: it calls itself for each */
constexpr uint64_t NO_MAX = UINT64_MAX;

class GrammarReader
{
  public:
    GrammarReader(const std::string &text, const llama_vocab *vocab) : text_(text.c_str()), vocab_(vocab) {}

    std::vector<GrammarRule> read()
    {
        space(true);
        while (here() != '\0') {
            rule();
        }
        for (const Use &use : uses_) {
            if (!rules_[(size_t)use.rule].defined) {
                at_ = use.at;
                complain("there is no rule named " + rules_[(size_t)use.rule].name.substr(0, NAME_BYTES_MAX));
            }
        }
        auto root = ids_.find("root");
        if (root == ids_.end()) {
            refuse("", "it has no rule named root");
        }
        return std::move(rules_);
    }

  private:
    struct Use {
        int32_t rule;
        size_t at;
    };
    /* A symbol of an alternative, and how many the library makes of it. */
    struct Item {
        int32_t symbol;
        size_t width;
    };
    struct Sequence {
        std::vector<Item> items;
        size_t last = 0;    /* where the newest symbol begins, with what repetitions made of it */
        size_t repeats = 1; /* of it */
    };

    char here() const { return text_[at_]; }

    static bool continues(char c) { return ((unsigned char)c & 0xC0) == 0x80; } /* inside of a character */

    [[noreturn]] void complain(const std::string &what) const
    {
        size_t line = 1, column = 1;
        for (size_t i = 0; i < at_; i++) {
            line += text_[i] == '\n';
            column = text_[i] == '\n' ? 1 : column + !continues(text_[i]);
        }
        refuse("", "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what);
    }
    [[noreturn]] void expected(const std::string &what) const
    {
        size_t end = at_;
        while (text_[end] != '\0' && text_[end] != '\r' && text_[end] != '\n' &&
               (end < at_ + 16 || continues(text_[end]))) {
            end++;
        }
        std::string found = here() == '\0' ? "the end"
                            : end == at_   ? "the end of the line"
                                           : "\"" + std::string(text_ + at_, end - at_) + "\"";
        complain(what + " was expected, not " + found);
    }

    /* --- words ----------------------------------------------------------------------------------------------------- */

    void space(bool lines)
    {
        while (here() == ' ' || here() == '\t' || here() == '#' ||
               (lines && (here() == '\r' || here() == '\n'))) {
            if (here() != '#') {
                at_++;
                continue;
            }
            while (here() != '\0' && here() != '\r' && here() != '\n') {
                at_++;
            }
        }
    }
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    static bool is_word(char c)
    {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || is_digit(c);
    }
    static bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

    int32_t symbol(const std::string &name)
    {
        auto found = ids_.emplace(name, (int32_t)rules_.size());
        if (found.second) {
            rules_.emplace_back();
            rules_.back().name = name;
            rules_.back().owner = found.first->second;
        }
        return found.first->second;
    }
    int32_t name()
    {
        size_t begin = at_;
        while (is_word(here())) {
            at_++;
        }
        if (at_ == begin) {
            expected("the name of a rule");
        }
        return symbol(std::string(text_ + begin, at_ - begin));
    }
    uint64_t number()
    {
        uint64_t value = 0;
        size_t begin = at_;
        for (; is_digit(here()); at_++) {
            value = value * 10 + (uint64_t)(here() - '0');
            if (at_ - begin > 17) {
                complain("the number is too large");
            }
        }
        if (at_ == begin) {
            expected("a number");
        }
        return value;
    }
    void escape()
    {
        static const std::string plain = "trn\\\"[]-";
        size_t digits = text_[at_ + 1] == 'x' ? 2 : text_[at_ + 1] == 'u' ? 4 : text_[at_ + 1] == 'U' ? 8 : 0;
        if (digits == 0 && (text_[at_ + 1] == '\0' || plain.find(text_[at_ + 1]) == std::string::npos)) {
            complain("an escape can be \\x, \\u, \\U, \\t, \\r, \\n, \\\\, \\\", \\[, \\] or \\-");
        }
        at_ += 2;
        for (size_t i = 0; i < digits; i++, at_++) {
            if (!is_hex(here())) {
                expected(std::to_string(digits) + " hexadecimal digits");
            }
        }
    }
    /* One character, of one to four bytes. */
    void character()
    {
        static const unsigned char lengths[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
        if (here() == '\0') {
            complain("the text ends inside of quotes or brackets");
        }
        if (here() == '\\') {
            escape();
            return;
        }
        size_t length = lengths[(unsigned char)here() >> 4];
        for (size_t i = 0; i < length && here() != '\0'; i++) {
            at_++;
        }
    }

    /* --- symbols ---------------------------------------------------------------------------------------------------- */

    void count(size_t symbols)
    {
        symbols_ += symbols;
        if (symbols_ > SYMBOLS_MAX) {
            complain("with all its repetitions it is larger than " + std::to_string(SYMBOLS_MAX) +
                     " symbols");
        }
    }
    void push(Sequence &s, int32_t item, size_t width)
    {
        s.last = s.items.size();
        s.repeats = 1;
        if (width > 0) {
            s.items.push_back({item, width});
        }
        count(width);
    }
    void literal(Sequence &s)
    {
        size_t characters = 0;
        for (at_++; here() != '"'; characters++) {
            character();
        }
        at_++;
        push(s, GRAMMAR_TEXT, characters);
    }
    void range(Sequence &s)
    {
        size_t characters = 0;
        at_ += text_[at_ + 1] == '^' ? 2 : 1;
        for (; here() != ']'; characters++) {
            character();
            if (here() == '-' && text_[at_ + 1] != ']') {
                at_++;
                character();
                characters++;
            }
        }
        at_++;
        push(s, GRAMMAR_TEXT, characters);
    }
    void token(Sequence &s)
    {
        at_ += here() == '!' ? 1 : 0;
        size_t begin = at_;
        if (here() != '<') {
            expected("a token, as in <think>,");
        }
        at_++;
        if (here() == '[') {
            at_++;
            if (number() > UINT32_MAX) {
                complain("the number is too large");
            }
            if (here() != ']' || text_[at_ + 1] != '>') {
                expected("]>");
            }
            at_ += 2;
        } else {
            while (here() != '\0' && here() != '>') {
                at_++;
            }
            if (here() == '\0') {
                expected(">");
            }
            at_++;
            std::string text(text_ + begin, at_ - begin);
            if (common_tokenize(vocab_, text, false, true).size() != 1) {
                at_ = begin;
                complain(quoted(text) + " is not a token of this model");
            }
        }
        push(s, GRAMMAR_TEXT, 1);
    }
    void reference(Sequence &s)
    {
        size_t begin = at_;
        int32_t id = name();
        uses_.push_back({id, begin});
        push(s, id, 1);
    }
    void group(Sequence &s)
    {
        if (++nesting_ > NESTING_MAX) {
            complain("groups are nested deeper than " + std::to_string(NESTING_MAX));
        }
        at_++;
        space(true);
        size_t before = rules_.size();
        int32_t id = made();
        alternatives(id, true);
        size_t inside = rules_.size() - before;
        if (here() != ')') {
            expected("\")\"");
        }
        at_++;
        nesting_--;
        push(s, id, 1);
        s.repeats = inside;
    }
    /* A rule that has no name in the text. */
    int32_t made()
    {
        rules_.emplace_back();
        rules_.back().owner = owner_;
        return (int32_t)rules_.size() - 1;
    }

    /* --- repetitions ------------------------------------------------------------------------------------------------- */

    void limits(uint64_t &min, uint64_t &max)
    {
        size_t begin = at_;
        char kind = text_[at_++];
        min = kind == '+' ? 1 : 0;
        max = kind == '?' ? 1 : NO_MAX;
        if (kind != '{') {
            return;
        }
        space(nested_);
        min = max = number();
        space(nested_);
        if (here() == ',') {
            at_++;
            space(nested_);
            max = is_digit(here()) ? number() : NO_MAX;
            space(nested_);
        }
        if (here() != '}') {
            expected("\"}\"");
        }
        at_++;
        if (min > max) {
            at_ = begin;
            complain("a repetition's most is less than its least");
        }
        if (max > REPEATS_MAX) {
            max = NO_MAX;
        }
    }
    /* S{m,n} becomes m times S and a chain of n - m rules S' ::= S S'' | nothing; without n a rule that calls itself. */
    void repeat(Sequence &s)
    {
        size_t begin = at_;
        uint64_t min = 0, max = 0;
        limits(min, max);
        size_t end = at_;
        at_ = begin;
        if (s.last == s.items.size()) {
            complain("there is nothing to be repeated");
        }
        uint64_t times = max != NO_MAX && max > 0 ? max : min > 0 ? min : 1;
        if (min > REPEATS_MAX || s.repeats * times >= REPEATS_MAX) {
            complain("it repeats more than " + std::to_string(REPEATS_MAX) + " times");
        }
        const std::vector<Item> repeated(s.items.begin() + (std::ptrdiff_t)s.last, s.items.end());
        size_t width = 0;
        for (const Item &item : repeated) {
            width += item.width;
        }
        if (min == 0) {
            s.items.resize(s.last);
        }
        for (uint64_t i = 1; i < min; i++) {
            count(width);
            s.items.insert(s.items.end(), repeated.begin(), repeated.end());
        }
        int32_t chain = -1;
        for (uint64_t i = 0; i < (max == NO_MAX ? 1 : max - min); i++) {
            int32_t id = made();
            std::vector<Item> some = repeated;
            if (max == NO_MAX || i > 0) {
                some.push_back({max == NO_MAX ? id : chain, 1});
            }
            count(width + 3);
            define(id, {some, std::vector<Item>()});
            chain = id;
        }
        if (chain >= 0) {
            s.items.push_back({chain, 1});
        }
        s.repeats *= (size_t)times;
        at_ = end;
    }

    /* --- rules -------------------------------------------------------------------------------------------------------- */

    /* Without what can't decide how a rule begins. */
    void define(int32_t id, const std::vector<std::vector<Item>> &alternatives)
    {
        GrammarRule &rule = rules_[(size_t)id];
        rule.alternatives.clear();
        rule.defined = true;
        for (const std::vector<Item> &items : alternatives) {
            std::vector<int32_t> symbols;
            for (const Item &item : items) {
                symbols.push_back(item.symbol);
                if (item.symbol == GRAMMAR_TEXT) {
                    break;
                }
            }
            rule.alternatives.push_back(std::move(symbols));
        }
    }
    std::vector<Item> sequence()
    {
        Sequence s;
        while (here() != '\0') {
            switch (here()) {
            case '"':
                literal(s);
                break;
            case '[':
                range(s);
                break;
            case '<':
            case '!':
                token(s);
                break;
            case '(':
                group(s);
                break;
            case '.':
                at_++;
                push(s, GRAMMAR_TEXT, 1);
                break;
            case '*':
            case '+':
            case '?':
            case '{':
                repeat(s);
                break;
            default:
                if (!is_word(here())) {
                    return s.items;
                }
                reference(s);
            }
            space(nested_);
        }
        return s.items;
    }
    void alternatives(int32_t id, bool nested)
    {
        bool outer = nested_;
        nested_ = nested;
        std::vector<std::vector<Item>> list = {sequence()};
        while (here() == '|') {
            at_++;
            space(true);
            list.push_back(sequence());
        }
        count(list.size());
        define(id, list);
        nested_ = outer;
    }
    void rule()
    {
        int32_t id = name();
        owner_ = id;
        space(false);
        if (std::strncmp(text_ + at_, "::=", 3) != 0) {
            expected("::=");
        }
        at_ += 3;
        space(true);
        alternatives(id, false);
        if (here() != '\0' && here() != '\r' && here() != '\n') {
            expected("a symbol, \"|\" or the end of the line");
        }
        space(true);
    }

    const char *text_; /* ends at the first NUL, as for the library */
    const llama_vocab *vocab_;
    size_t at_ = 0, nesting_ = 0, symbols_ = 0;
    int32_t owner_ = 0;
    bool nested_ = false; /* in a group lines may end */
    std::vector<GrammarRule> rules_;
    std::unordered_map<std::string, int32_t> ids_;
    std::vector<Use> uses_;
};

std::vector<GrammarRule> grammar_read(const std::string &text, const llama_vocab *vocab)
{
    return GrammarReader(text, vocab).read();
}

void grammar_check(const std::string &text, const llama_vocab *vocab)
{
    grammar_ends(grammar_read(text, vocab));
}

} // namespace cairn_chat_bridge
