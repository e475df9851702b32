/*
 * sampler_bridge - llama_sampler chains over logits that come from anywhere.
 *
 * common_sampler would need a llama_context, so its steps are repeated here with the same C API: candidates, chain,
 * grammar by rejection. While the model thinks, a lazy grammar must not be triggered by a tag inside the reasoning.
 * The library finds the reasoning's tags by their tokens, which fails where a vocabulary spells a tag in several and
 * joins its last one with what follows (">\n"), so here they are found in the text.
 */
#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "llama.h"
#include "sampling.h"

#include "chat/bridge_grammar.h"
#include "chat/bridge_internal.h"
#include "chat/sampler_bridge.h"

using namespace cairn_chat_bridge;

namespace
{

struct SamplerFree {
    void operator()(llama_sampler *sampler) const { llama_sampler_free(sampler); }
};
using SamplerPtr = std::unique_ptr<llama_sampler, SamplerFree>;

/* Is the model inside its reasoning? Fed with the text of each token. */
class Thinking
{
  public:
    void start(const std::string &opener, const std::string &open, const std::vector<std::string> &closes)
    {
        open_ = open;
        closes_ = closes;
        size_t at = opener.rfind(open_);
        inside_ = at != std::string::npos &&
                  std::none_of(closes_.begin(), closes_.end(), [&](const std::string &close) {
                      return opener.find(close, at) != std::string::npos;
                  });
    }
    bool inside() const { return inside_; }

    /* True when this token ends the reasoning; then tag() are the tokens of the end tag. */
    bool accept(llama_token token, const std::string &piece)
    {
        tail_ += piece;
        tokens_.push_back({token, piece.size()});
        if (inside_) {
            for (const std::string &close : closes_) {
                size_t at = tail_.find(close);
                if (at != std::string::npos) {
                    inside_ = false;
                    keep(tail_.size() - at);
                    return true;
                }
            }
        } else if (fresh_) {
            /* reasoning comes first, or not at all */
            std::string text = trim(tail_);
            inside_ = !text.empty() && text.compare(0, open_.size(), open_) == 0;
            fresh_ = !inside_ && open_.compare(0, text.size(), text) == 0;
        }
        keep(64);
        return false;
    }
    std::vector<llama_token> tag() const
    {
        std::vector<llama_token> out;
        for (const auto &one : tokens_) {
            out.push_back(one.first);
        }
        return out;
    }

  private:
    /* Forget the tokens that end before the last `bytes` of the text. */
    void keep(size_t bytes)
    {
        while (!tokens_.empty() && tail_.size() - tokens_.front().second >= bytes) {
            tail_.erase(0, tokens_.front().second);
            tokens_.pop_front();
        }
    }
    std::string open_, tail_;
    std::vector<std::string> closes_;
    std::deque<std::pair<llama_token, size_t>> tokens_; /* of `tail_` */
    bool inside_ = false;
    bool fresh_ = true; /* nothing but blanks, or the beginning of the open tag, so far */
};

const uint32_t PENALTY_TOKENS_MAX = 4096;

void check(bool good, const char *field, const char *rule)
{
    if (!good) {
        refuse(field, rule);
    }
}

void settings_check(const cairn_sampler_settings &s)
{
    check(std::isfinite(s.temperature) && s.temperature <= 100.0f, "temperature",
          "must be a number up to 100");
    check(s.top_p > 0.0f && s.top_p <= 1.0f, "top_p", "must be above 0 and at most 1");
    check(s.min_p >= 0.0f && s.min_p <= 1.0f, "min_p", "must be from 0 to 1");
    check(s.typical_p > 0.0f && s.typical_p <= 1.0f, "typical_p", "must be above 0 and at most 1");
    check(std::isfinite(s.repeat_penalty) && s.repeat_penalty > 0.0f &&
              std::isfinite(1.0f / s.repeat_penalty),
          "repeat_penalty", "must be above 0");
    check(std::isfinite(s.presence_penalty), "presence_penalty", "must be a number");
    check(std::isfinite(s.frequency_penalty), "frequency_penalty", "must be a number");
    check(s.repeat_last_n >= -1, "repeat_last_n", "must be -1 or more");
}

} // namespace

struct cairn_sampler {
    const llama_vocab *vocab = nullptr;
    size_t n_vocab = 0;
    bool greedy = false; /* temperature <= 0 */
    bool has_penalties = false;
    bool grammar_lazy = false;
    bool lowers = true; /* no bias is above 0: those of ignore_eos are not */
    std::vector<cairn_sampler_bias> bias;
    SamplerPtr penalties, chain, grammar;
    std::unique_ptr<Thinking> thinking; /* with a lazy grammar only */
    std::vector<llama_token_data> candidates;

    void fill(const float *logits)
    {
        candidates.resize(n_vocab);
        for (size_t i = 0; i < n_vocab; i++) {
            candidates[i] = {(llama_token)i, std::isnan(logits[i]) ? -INFINITY : logits[i], 0.0f};
        }
        for (const cairn_sampler_bias &one : bias) {
            candidates[(size_t)one.token].logit += one.bias;
        }
    }
    llama_token pick(llama_token_data_array &array)
    {
        if (has_penalties) {
            llama_sampler_apply(penalties.get(), &array);
        }
        if (greedy) {
            size_t best = 0;
            for (size_t i = 1; i < array.size; i++) {
                if (array.data[i].logit > array.data[best].logit) {
                    best = i;
                }
            }
            return array.data[best].logit == -INFINITY ? LLAMA_TOKEN_NULL : array.data[best].id;
        }
        bool any = std::any_of(array.data, array.data + array.size,
                               [](const llama_token_data &one) { return one.logit != -INFINITY; });
        if (!any) {
            return LLAMA_TOKEN_NULL;
        }
        llama_sampler_apply(chain.get(), &array);
        return array.selected < 0 ? LLAMA_TOKEN_NULL : array.data[array.selected].id;
    }
    bool is_biased(llama_token token) const
    {
        return std::any_of(bias.begin(), bias.end(),
                           [&](const cairn_sampler_bias &one) { return one.token == token; });
    }
    bool grammar_applies() const { return grammar && !(thinking && thinking->inside()); }
    bool fits(llama_token token)
    {
        llama_token_data one = {token, 1.0f, 0.0f};
        llama_token_data_array array = {&one, 1, -1, false};
        llama_sampler_apply(grammar.get(), &array);
        return one.logit != -INFINITY;
    }
    llama_token sample(const float *logits)
    {
        if (greedy && !grammar && !has_penalties && lowers) {
            llama_token token = (llama_token)cairn_sampler_argmax(logits, (uint32_t)n_vocab);
            bool possible = !std::isnan(logits[token]) && logits[token] != -INFINITY;
            /* Lowering others leaves the largest the largest; where it was lowered itself, all are looked at below. */
            if (!is_biased(token)) {
                return possible ? token : LLAMA_TOKEN_NULL;
            }
        }
        fill(logits);
        llama_token_data_array array = {candidates.data(), candidates.size(), -1, false};
        llama_token token = pick(array);
        if (token == LLAMA_TOKEN_NULL || !grammar_applies() || fits(token)) {
            return token;
        }
        fill(logits);
        array = {candidates.data(), candidates.size(), -1, false};
        llama_sampler_apply(grammar.get(), &array);
        return pick(array);
    }
    void accept(llama_token token, bool generated)
    {
        if (generated) {
            bool applies = grammar_applies();
            bool ended = thinking && thinking->accept(token, common_token_to_piece(vocab, token, true));
            if (ended) {
                for (llama_token part : thinking->tag()) {
                    llama_sampler_accept(grammar.get(), part); /* the end tag may be a trigger itself */
                }
            } else if (applies) {
                llama_sampler_accept(grammar.get(), token);
            }
        }
        if (has_penalties) {
            llama_sampler_accept(penalties.get(), token);
        }
    }
};

namespace
{

/* The library would only print what is wrong with it, or not come to an end. */
void grammar_try(const char *text, const llama_vocab *vocab, bool from_user)
{
    try {
        grammar_check(text, vocab);
    } catch (const Refusal &refusal) {
        if (from_user) {
            refuse("grammar", refusal.detail);
        }
        refuse("", "The grammar that tools and schemas make can't be used: " + refusal.detail);
    }
}

void grammar_set(cairn_sampler &sampler, const cairn_sampler_settings &settings)
{
    const cairn_chat_prompt *prompt = settings.prompt;
    const char *text = prompt != nullptr ? prompt->grammar : settings.grammar;
    if (text == nullptr || text[0] == '\0') {
        return;
    }
    check(std::string(text).compare(0, 11, "%llguidance") != 0, "grammar", "only GBNF is supported");
    grammar_try(text, sampler.vocab, prompt == nullptr || prompt->grammar_from_user);
    sampler.grammar_lazy = prompt != nullptr && prompt->grammar_lazy;
    if (sampler.grammar_lazy) {
        std::vector<std::string> patterns;
        std::vector<llama_token> tokens;
        for (size_t i = 0; i < prompt->count_triggers; i++) {
            std::string trigger = prompt->triggers[i].text;
            if (prompt->triggers[i].kind == CAIRN_CHAT_TRIGGER_WORD) {
                llama_tokens ids = common_tokenize(sampler.vocab, trigger, false, true);
                if (ids.size() == 1) {
                    tokens.push_back(ids[0]);
                    continue;
                }
                trigger = regex_escape(trigger);
            } else if (prompt->triggers[i].kind == CAIRN_CHAT_TRIGGER_PATTERN_FULL && !trigger.empty()) {
                trigger.insert(0, trigger.front() != '^' ? "^" : "");
                trigger += trigger.back() != '$' ? "$" : "";
            }
            patterns.push_back(trigger);
        }
        std::vector<const char *> list;
        list.reserve(patterns.size());
        for (const std::string &pattern : patterns) {
            list.push_back(pattern.c_str());
        }
        sampler.grammar.reset(llama_sampler_init_grammar_lazy_patterns(
            sampler.vocab, text, "root", list.data(), list.size(), tokens.data(), tokens.size()));
    } else {
        sampler.grammar.reset(llama_sampler_init_grammar(sampler.vocab, text, "root"));
    }
    check(sampler.grammar != nullptr, "grammar", "can't be used by this build of libllama; its log says why");
}

/* The tokens of the opener, which stands in the prompt but belongs to the template's grammar. */
llama_tokens opener_tokens(const cairn_sampler &sampler, const cairn_chat_prompt *prompt)
{
    std::string opener = prompt != nullptr ? prompt->opener : "";
    llama_tokens tokens =
        opener.empty() ? llama_tokens{} : common_tokenize(sampler.vocab, opener, false, true);
    /* some tokenizers put a space before the first special token */
    if (!tokens.empty()) {
        std::string piece = common_token_to_piece(sampler.vocab, tokens[0], true);
        if (!piece.empty() && std::isspace((unsigned char)piece[0]) &&
            !std::isspace((unsigned char)opener[0])) {
            tokens.erase(tokens.begin());
        }
    }
    return tokens;
}

void prefill(cairn_sampler &sampler, const cairn_chat_prompt *prompt)
{
    if (sampler.grammar && !sampler.grammar_lazy && prompt != nullptr && !prompt->grammar_from_user) {
        for (llama_token token : opener_tokens(sampler, prompt)) {
            llama_sampler_accept(sampler.grammar.get(), token);
        }
    }
    if (!sampler.grammar_lazy || prompt->think_start[0] == '\0' || prompt->think_ends.count == 0) {
        return;
    }
    std::vector<std::string> ends(prompt->think_ends.items,
                                  prompt->think_ends.items + prompt->think_ends.count);
    sampler.thinking = std::make_unique<Thinking>();
    sampler.thinking->start(prompt->opener, prompt->think_start, ends);
}

void chain_set(cairn_sampler &sampler, const cairn_sampler_settings &s)
{
    sampler.greedy = s.temperature <= 0.0f;
    int32_t last_n = s.repeat_last_n < 0 ? (int32_t)PENALTY_TOKENS_MAX
                                         : std::min(s.repeat_last_n, (int32_t)PENALTY_TOKENS_MAX);
    sampler.has_penalties =
        last_n != 0 && (s.repeat_penalty < 1.0f || s.repeat_penalty > 1.0f ||
                        std::fabs(s.presence_penalty) > 0.0f || std::fabs(s.frequency_penalty) > 0.0f);
    if (sampler.has_penalties) {
        sampler.penalties.reset(llama_sampler_init_penalties(
            (int32_t)sampler.n_vocab, last_n, s.repeat_penalty, s.frequency_penalty, s.presence_penalty));
    }
    if (sampler.greedy) {
        return;
    }
    sampler.chain.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
    llama_sampler *chain = sampler.chain.get();
    if (s.top_k > 0) {
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(s.top_k));
    }
    if (s.typical_p < 1.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_typical(s.typical_p, 1));
    }
    if (s.top_p < 1.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(s.top_p, 1));
    }
    if (s.min_p > 0.0f) {
        llama_sampler_chain_add(chain, llama_sampler_init_min_p(s.min_p, 1));
    }
    llama_sampler_chain_add(chain, llama_sampler_init_temp(s.temperature));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(s.seed));
}

void bias_set(cairn_sampler &sampler, const cairn_sampler_settings &s)
{
    for (size_t i = 0; i < s.count_bias; i++) {
        bool known = s.bias[i].token >= 0 && (size_t)s.bias[i].token < sampler.n_vocab;
        check(known, "logit_bias",
              ("token " + std::to_string(s.bias[i].token) + " is not in the vocabulary").c_str());
        check(!std::isnan(s.bias[i].bias) && s.bias[i].bias < INFINITY, "logit_bias", "must be a number");
        sampler.bias.push_back(s.bias[i]);
    }
    int32_t count = 0;
    const llama_token *suppressed = llama_vocab_get_suppress_tokens(sampler.vocab, &count);
    for (int32_t i = 0; i < count; i++) {
        sampler.bias.push_back({suppressed[i], -INFINITY});
    }
    for (size_t i = 0; s.ignore_eos && i < sampler.n_vocab; i++) {
        if (llama_vocab_is_eog(sampler.vocab, (llama_token)i)) {
            sampler.bias.push_back({(cairn_token)i, -INFINITY});
        }
    }
    sampler.lowers = std::all_of(sampler.bias.begin(), sampler.bias.end(),
                                 [](const cairn_sampler_bias &one) { return one.bias <= 0.0f; });
}

} // namespace

cairn_sampler_settings cairn_sampler_settings_default(void)
{
    cairn_sampler_settings settings = {};
    settings.temperature = 0.8f;
    settings.top_k = 40;
    settings.top_p = 0.95f;
    settings.min_p = 0.05f;
    settings.typical_p = 1.0f;
    settings.repeat_penalty = 1.0f;
    settings.repeat_last_n = 64;
    return settings;
}

cairn_status cairn_sampler_new(const void *model, const cairn_sampler_settings *settings,
                               cairn_sampler **ret_sampler, cairn_error *reterr)
{
    return guarded("sampler/new", CAIRN_INVALID, reterr, [&] {
        settings_check(*settings);
        auto sampler = std::make_unique<cairn_sampler>();
        sampler->vocab = llama_model_get_vocab((const llama_model *)model);
        sampler->n_vocab = (size_t)llama_vocab_n_tokens(sampler->vocab);
        check(sampler->n_vocab != 0, "model", "has no vocabulary");
        bias_set(*sampler, *settings);
        chain_set(*sampler, *settings);
        grammar_set(*sampler, *settings);
        prefill(*sampler, settings->prompt);
        *ret_sampler = sampler.release();
    });
}

void cairn_sampler_free(cairn_sampler *sampler)
{
    delete sampler;
}

cairn_status cairn_sampler_sample(cairn_sampler *sampler, const float *logits, cairn_token *ret_token,
                                  cairn_error *reterr)
{
    return guarded("sampler/sample", CAIRN_ENGINE, reterr, [&] {
        llama_token token = sampler->sample(logits);
        if (token == LLAMA_TOKEN_NULL) {
            throw Refusal(CAIRN_ENGINE, "no token is possible");
        }
        *ret_token = token;
    });
}

cairn_status cairn_sampler_accept(cairn_sampler *sampler, cairn_token token, bool generated,
                                  cairn_error *reterr)
{
    return guarded("sampler/accept", CAIRN_INVALID, reterr, [&] {
        check(token >= 0 && (size_t)token < sampler->n_vocab, "token", "is not in the vocabulary");
        sampler->accept(token, generated);
    });
}

bool cairn_sampler_is_greedy(const cairn_sampler *sampler)
{
    return sampler->greedy && !sampler->grammar && !sampler->has_penalties && sampler->bias.empty();
}

uint32_t cairn_sampler_argmax(const float *logits, uint32_t count)
{
    uint32_t best = 0;
    while (best + 1 < count && std::isnan(logits[best])) {
        best++;
    }
    for (uint32_t i = best + 1; i < count; i++) {
        if (logits[i] > logits[best]) {
            best = i;
        }
    }
    return best;
}

void cairn_sampler_logprobs(const float *logits, uint32_t count_logits, cairn_token token, float *ret_logprob,
                            cairn_sampler_logprob *out, uint32_t count)
{
    float largest = count_logits != 0 ? logits[cairn_sampler_argmax(logits, count_logits)] : 0.0f;
    double sum = 0.0;
    for (uint32_t i = 0; i < count_logits; i++) {
        sum += std::isnan(logits[i]) ? 0.0 : std::exp((double)logits[i] - (double)largest);
    }
    double base = (double)largest + std::log(sum);
    auto value = [&](uint32_t id) { return (float)((double)logits[id] - base); };
    if (ret_logprob != nullptr) {
        *ret_logprob = token >= 0 && (uint32_t)token < count_logits ? value((uint32_t)token) : -INFINITY;
    }
    /* a heap of the best so far, the worst of them on top */
    auto better = [](const cairn_sampler_logprob &a, const cairn_sampler_logprob &b) {
        return a.logprob > b.logprob || (a.logprob >= b.logprob && a.token < b.token);
    };
    uint32_t have = 0;
    for (uint32_t i = 0; i < count_logits && count != 0; i++) {
        cairn_sampler_logprob one = {(cairn_token)i, std::isnan(logits[i]) ? -INFINITY : value(i)};
        if (have < count) {
            out[have++] = one;
            std::push_heap(out, out + have, better);
        } else if (better(one, out[0])) {
            std::pop_heap(out, out + have, better);
            out[have - 1] = one;
            std::push_heap(out, out + have, better);
        }
    }
    std::sort(out, out + have, better);
}
