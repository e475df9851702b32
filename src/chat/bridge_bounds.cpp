/*
 * bridge_bounds - where in a prompt its messages start.
 *
 * The template's openers (bridge_openers) are searched in the prompt, then assigned to the messages in order: a match
 * counts only when it can open that role and a piece of the message's text stands behind it. A match inside a
 * message's own text (a user who writes "<|im_start|>") is found by comparing the whole text, and dropped; where that
 * can't be decided the list ends there. So a boundary may be missing, but is never made up.
 */
#include <algorithm>
#include <cstring>

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

struct Match {
    size_t begin, end; /* of the matched text */
    size_t at;         /* where the message starts */
    unsigned roles;
    bool dropped = false;
};

static std::vector<Match> matches_find(const std::string &prompt, const std::vector<Opener> &openers)
{
    std::vector<Match> all;
    for (const Opener &opener : openers) {
        for (size_t at = prompt.find(opener.text); at != std::string::npos;
             at = prompt.find(opener.text, at + opener.text.size())) {
            all.push_back({at, at + opener.text.size(), at + opener.offset, opener.roles});
        }
    }
    std::sort(all.begin(), all.end(), [](const Match &a, const Match &b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<Match> out;
    for (const Match &match : all) {
        if (out.empty() || match.begin >= out.back().end) {
            out.push_back(match);
        } else if (match.begin == out.back().begin && match.end == out.back().end &&
                   match.at == out.back().at) {
            out.back().roles |= match.roles;
        }
    }
    return out;
}

static bool holds_opener(const std::string &text, const std::vector<Opener> &openers)
{
    return std::any_of(openers.begin(), openers.end(),
                       [&](const Opener &opener) { return text.find(opener.text) != std::string::npos; });
}

/* The texts of a message that may stand in the prompt, in the order in which templates print them. */
static std::vector<std::string> texts_of(const common_chat_msg &msg)
{
    std::vector<std::string> texts;
    if (!msg.reasoning_content.empty()) {
        texts.push_back(trim(msg.reasoning_content));
    }
    texts.push_back(trim(msg.content));
    for (const common_chat_msg_content_part &part : msg.content_parts) {
        texts.push_back(trim(part.text));
    }
    for (const common_chat_tool_call &call : msg.tool_calls) {
        texts.push_back(call.name);
        texts.push_back(call.arguments);
    }
    texts.push_back(msg.tool_call_id);
    texts.push_back(msg.tool_name);
    texts.erase(std::remove(texts.begin(), texts.end(), std::string()), texts.end());
    return texts;
}

/* A piece of `text` that no template escapes: the longest run of letters and digits near its beginning. */
static std::string plain_run(const std::string &text)
{
    size_t best = 0, best_size = 0, begin = 0;
    size_t limit = std::min<size_t>(text.size(), 256);
    for (size_t i = 0; i <= limit; i++) {
        unsigned char c = i < limit ? (unsigned char)text[i] : 0;
        if (std::isalnum(c) || (c == ' ' && i > begin)) {
            continue;
        }
        if (i - begin > best_size) {
            best = begin;
            best_size = i - begin;
        }
        begin = i + 1;
    }
    return trim(text.substr(best, std::min<size_t>(best_size, 48)));
}

static std::string probe_of(const common_chat_msg &msg)
{
    std::string text = trim(msg.content);
    for (size_t i = 0; text.empty() && i < msg.content_parts.size(); i++) {
        text = trim(msg.content_parts[i].text);
    }
    /* templates take reasoning written into the content apart: look behind it */
    size_t close = msg.role == "assistant" ? text.rfind("</think>") : std::string::npos;
    return plain_run(close != std::string::npos ? trim(text.substr(close + 8)) : text);
}

/* Any of these behind an opener shows that it is this message's; none at all: any opener of its role will do. */
static std::vector<std::string> probes_of(const common_chat_msg &msg)
{
    std::vector<std::string> probes = {probe_of(msg), plain_run(trim(msg.reasoning_content))};
    if (!msg.tool_calls.empty()) {
        probes.push_back(msg.tool_calls[0].name);
    }
    probes.erase(std::remove(probes.begin(), probes.end(), std::string()), probes.end());
    return probes;
}

/* A search that gives up at `end`: prompts are long, and messages' texts stand close to their opener. */
static size_t find_within(const std::string &prompt, const std::string &text, size_t begin, size_t end)
{
    end = std::min(end, prompt.size());
    if (text.empty() || begin >= end || end - begin < text.size()) {
        return std::string::npos;
    }
    const char *base = prompt.data();
    const char *found = (const char *)memmem(base + begin, end - begin, text.data(), text.size());
    return found == nullptr ? std::string::npos : (size_t)(found - base);
}

class Assigner
{
  public:
    Assigner(const BoundsInput &in, const std::vector<Opener> &openers, std::vector<Match> matches)
        : in_(in), openers_(openers), matches_(std::move(matches)), at_(in.messages.size(), NONE)
    {
    }
    static constexpr size_t NONE = SIZE_MAX;

    void run()
    {
        careful_ = std::any_of(
            in_.request.tools.begin(), in_.request.tools.end(), [&](const common_chat_tool &tool) {
                return holds_opener(tool.description, openers_) || holds_opener(tool.parameters, openers_);
            });
        for (size_t k = 0; k < in_.messages.size() && !careful_; k++) {
            for (const std::string &text : texts_of(in_.messages[k].msg)) {
                careful_ = careful_ || holds_opener(text, openers_);
            }
        }
        for (size_t k = 0; k < in_.messages.size(); k++) {
            size_t match = pick(k);
            if (match != NONE) {
                at_[k] = matches_[match].at;
                after_ = matches_[match].end;
                next_ = match + 1;
            }
            if (careful_ && !skip_texts(k)) {
                return;
            }
        }
        complete_ = true;
    }

    size_t at(size_t k) const { return at_[k]; }
    /* The start of an assistant opener behind the last message, when there is one. */
    size_t trailing_opener() const
    {
        size_t found = NONE;
        for (size_t i = next_; complete_ && i < matches_.size(); i++) {
            if (!matches_[i].dropped && (matches_[i].roles & bit(CAIRN_ROLE_ASSISTANT)) != 0) {
                found = matches_[i].at;
            }
        }
        return found;
    }
    size_t end_of(size_t k) const
    {
        for (size_t i = k + 1; i < at_.size(); i++) {
            if (at_[i] != NONE) {
                return at_[i];
            }
        }
        return in_.params.prompt.size();
    }

  private:
    /* The first match, not too far on, that can open message k and is followed by its text. */
    size_t pick(size_t k) const
    {
        const common_chat_msg &msg = in_.messages[k].msg;
        const std::vector<std::string> probes = probes_of(msg);
        const std::string &prompt = in_.params.prompt;
        size_t looked = 0;
        for (size_t i = next_; i < matches_.size() && looked < (careful_ ? 64u : 6u); i++) {
            if (matches_[i].dropped) {
                continue;
            }
            looked++;
            if ((matches_[i].roles & bit(role_of(msg.role))) == 0) {
                continue;
            }
            size_t end = i + 1 < matches_.size() && !careful_ ? matches_[i + 1].begin : prompt.size();
            if (careful_) {
                if (stands_behind(msg, matches_[i].end)) {
                    return i;
                }
            } else if (probes.empty() ||
                       std::any_of(probes.begin(), probes.end(), [&](const std::string &probe) {
                           return find_within(prompt, probe, matches_[i].end, end) != std::string::npos;
                       })) {
                return i;
            }
        }
        return NONE;
    }

    /* Does the whole content stand close behind `end`? Only a header, or the reasoning, may lie between. */
    bool stands_behind(const common_chat_msg &msg, size_t end) const
    {
        const std::string &prompt = in_.params.prompt;
        const std::string content = trim(msg.content_parts.empty() ? msg.content : msg.content_parts[0].text);
        if (content.empty() || (msg.role == "assistant" && content.find("</think>") != std::string::npos)) {
            return true;
        }
        std::string head = content.substr(0, 64);
        size_t room = end + 256 + msg.reasoning_content.size() + head.size();
        size_t found = find_within(prompt, head, end, room);
        return found != std::string::npos && prompt.compare(found, content.size(), content) == 0;
    }

    /* Drop the matches inside message k's own texts. False: a text that holds an opener was not found as it is. */
    bool skip_texts(size_t k)
    {
        const std::string &prompt = in_.params.prompt;
        std::vector<std::string> texts = texts_of(in_.messages[k].msg);
        size_t total = 4096;
        for (const std::string &text : texts) {
            total += 2 * text.size();
        }
        size_t limit = after_ + total;
        for (const std::string &text : texts) {
            size_t found = find_within(prompt, text, after_, limit);
            bool suspicious = holds_opener(text, openers_);
            if (found == std::string::npos) {
                if (suspicious) {
                    return false;
                }
                continue;
            }
            if (!suspicious && text.size() < 16) {
                continue; /* short: it may be found anywhere */
            }
            for (size_t i = next_; i < matches_.size() && matches_[i].begin < found + text.size(); i++) {
                if (matches_[i].end > found) {
                    matches_[i].dropped = true;
                }
            }
            after_ = found + text.size();
        }
        while (next_ < matches_.size() && (matches_[next_].dropped || matches_[next_].begin < after_)) {
            next_++;
        }
        return true;
    }

    const BoundsInput &in_;
    const std::vector<Opener> &openers_;
    std::vector<Match> matches_;
    std::vector<size_t> at_;
    size_t next_ = 0;  /* first match not used */
    size_t after_ = 0; /* end of what is accounted for */
    bool careful_ = false;
    bool complete_ = false;
};

class Collector
{
  public:
    explicit Collector(size_t text_bytes) : text_bytes_(text_bytes) {}
    void add(size_t offset, unsigned kinds, uint32_t message, cairn_role role)
    {
        if (offset == 0 || offset > text_bytes_) {
            return;
        }
        cairn_chat_boundary &boundary = at_[offset];
        bool fresh = boundary.kinds == 0;
        boundary.offset_bytes = offset;
        boundary.kinds = (uint16_t)(boundary.kinds | kinds);
        if (fresh || (kinds & (CAIRN_BOUNDARY_MESSAGE_START | CAIRN_BOUNDARY_OPENER)) != 0) {
            boundary.message = message;
            boundary.role = (uint8_t)role;
        }
    }
    std::vector<cairn_chat_boundary> take() const
    {
        std::vector<cairn_chat_boundary> list;
        for (const auto &entry : at_) {
            list.push_back(entry.second);
        }
        return list;
    }

  private:
    size_t text_bytes_;
    std::map<size_t, cairn_chat_boundary> at_;
};

/* The prompt of the first `count` messages, without opener, when it is a beginning of the whole prompt. */
static size_t prefix_render(const BoundsInput &in, size_t count)
{
    common_chat_templates_inputs inputs = in.inputs;
    inputs.messages.resize(count);
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_NONE;
    inputs.add_generation_prompt = false;
    inputs.force_pure_content = in.tmpl.analysed;
    try {
        std::string shorter = common_chat_templates_apply(in.tmpl.tmpls.get(), inputs).prompt;
        bool is_prefix = in.params.prompt.compare(0, shorter.size(), shorter) == 0;
        return is_prefix ? shorter.size() : Assigner::NONE;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return Assigner::NONE;
    }
}

/* The end of system text and tools when no opener shows it: where two different first messages part. */
static size_t system_end_render(const BoundsInput &in, size_t lead)
{
    common_chat_templates_inputs inputs = in.inputs;
    inputs.messages.resize(lead);
    inputs.continue_final_message = COMMON_CHAT_CONTINUATION_NONE;
    inputs.add_generation_prompt = false;
    inputs.force_pure_content = in.tmpl.analysed;
    try {
        inputs.messages.push_back(make_msg("user", "qz0"));
        std::string a = common_chat_templates_apply(in.tmpl.tmpls.get(), inputs).prompt;
        inputs.messages.back().content = "9qz";
        std::string b = common_chat_templates_apply(in.tmpl.tmpls.get(), inputs).prompt;
        size_t shared = std::min(common_prefix(a, b), common_prefix(a, in.params.prompt));
        while (shared > 0 && ((unsigned char)in.params.prompt[shared] & 0xC0) == 0x80) {
            shared--; /* not inside a character */
        }
        return shared < common_prefix(a, b) ? Assigner::NONE : shared;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return Assigner::NONE;
    }
}

static void thinking_add(const BoundsInput &in, const Assigner &assigned, size_t k, Collector &out)
{
    const std::string &tag = in.params.thinking_start_tag;
    if (tag.empty() || assigned.at(k) == Assigner::NONE || in.messages[k].msg.role != "assistant") {
        return;
    }
    size_t end = std::min(assigned.end_of(k), assigned.at(k) + 256);
    size_t found = find_within(in.params.prompt, tag, assigned.at(k), end);
    size_t text = find_within(in.params.prompt, probe_of(in.messages[k].msg), assigned.at(k), end);
    if (found != std::string::npos && found > assigned.at(k) && (text == std::string::npos || found < text)) {
        out.add(found, CAIRN_BOUNDARY_THINK_START, in.messages[k].index, CAIRN_ROLE_ASSISTANT);
    }
}

/*
 * Where the conversation will part from this prompt when it goes on: inside the opener, where answered turns have
 * another one.
 */
static void parting_find(const BoundsInput &in, size_t opener_at, Collector &out)
{
    const std::string &prompt = in.params.prompt;
    for (const Parting &parting : in.tmpl.partings) {
        if (parting.tail.size() > prompt.size() ||
            prompt.compare(prompt.size() - parting.tail.size(), parting.tail.size(), parting.tail) != 0) {
            continue;
        }
        /* one token is left to read in any case */
        size_t at = prompt.size() - std::max<size_t>(parting.lost, 1);
        while (at > opener_at && ((unsigned char)prompt[at] & 0xC0) == 0x80) {
            at--; /* not inside a character */
        }
        if (at > opener_at || opener_at == prompt.size()) {
            out.add(at, CAIRN_BOUNDARY_THINK_START, in.request.count_messages, CAIRN_ROLE_ASSISTANT);
            return;
        }
    }
}

Bounds bounds_find(const BoundsInput &in)
{
    const std::string &prompt = in.params.prompt;
    Assigner assigned(in, in.tmpl.openers, matches_find(prompt, in.tmpl.openers));
    assigned.run();
    Collector out(prompt.size());
    size_t count = in.messages.size(), lead = 0, last_user = Assigner::NONE;
    while (lead < count && in.messages[lead].msg.role == "system") {
        lead++;
    }
    for (size_t k = 0; k < count; k++) {
        last_user = in.messages[k].msg.role == "user" ? k : last_user;
    }

    /* the opener first: it is known without any search */
    Bounds bounds;
    const std::string &opener = in.params.generation_prompt;
    bool ends = opener.size() <= prompt.size() &&
                prompt.compare(prompt.size() - opener.size(), opener.size(), opener) == 0;
    bounds.opener_at = ends ? prompt.size() - opener.size() : prompt.size();
    size_t trailing = assigned.trailing_opener();
    if (trailing != Assigner::NONE && trailing < bounds.opener_at && in.inputs.add_generation_prompt) {
        bounds.opener_at =
            trailing; /* the library's text starts inside the opener ("|assistant|>"), or is missing */
    }
    out.add(bounds.opener_at, CAIRN_BOUNDARY_OPENER, in.request.count_messages, CAIRN_ROLE_ASSISTANT);
    if (in.inputs.add_generation_prompt) {
        parting_find(in, bounds.opener_at, out);
    }

    size_t system_end = lead < count ? assigned.at(lead) : bounds.opener_at;
    if (system_end == Assigner::NONE) {
        system_end = system_end_render(in, lead);
    }
    if (system_end != Assigner::NONE) {
        out.add(system_end, CAIRN_BOUNDARY_SYSTEM_END,
                lead < count ? in.messages[lead].index : in.request.count_messages,
                lead < count ? role_of(in.messages[lead].msg.role) : CAIRN_ROLE_ASSISTANT);
    }
    for (size_t k = 0; k < count; k++) {
        size_t at = assigned.at(k);
        if (at == Assigner::NONE && k == last_user && k > lead) {
            at = prefix_render(in, k);
        }
        if (at == Assigner::NONE || at > bounds.opener_at) {
            continue;
        }
        unsigned kinds = CAIRN_BOUNDARY_MESSAGE_START;
        kinds |= k == last_user ? (unsigned)CAIRN_BOUNDARY_LAST_USER : 0u;
        out.add(at, kinds, in.messages[k].index, role_of(in.messages[k].msg.role));
        thinking_add(in, assigned, k, out);
    }
    for (size_t k = 0; k < count; k++) {
        bool mark = in.messages[k].mark || (in.request.tools_mark && k + 1 == std::max<size_t>(lead, 1));
        size_t after = k + 1 < count ? assigned.at(k + 1) : bounds.opener_at;
        if (mark && after != Assigner::NONE) {
            out.add(after, CAIRN_BOUNDARY_MARK,
                    k + 1 < count ? in.messages[k + 1].index : in.request.count_messages,
                    k + 1 < count ? role_of(in.messages[k + 1].msg.role) : CAIRN_ROLE_ASSISTANT);
        }
    }
    bounds.list = out.take();
    return bounds;
}

} // namespace cairn_chat_bridge
