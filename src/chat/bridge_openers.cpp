/*
 * bridge_openers - the texts by which a template's message starts are found, learned at open.
 *
 * The template renders a few conversations with texts that are easy to find; what stands between two of them is the
 * end of one message and the opener of the next. The cut between both is found by rendering the shorter conversation
 * too:
 *
 *   [user, assistant]   qzuser<|im_end|>\n<|im_start|>assistant\nqzanswer
 *   [user]              qzuser<|im_end|>\n
 *                             |- closer -|------ opener ------|
 *
 * A template whose next message has no opener of its own is found by the closer before it ("[/INST]").
 */
#include <algorithm>
#include <cstring>

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

static const char *const PROBE_NEXT_CALL_ID = "callqz002";

static size_t common_suffix(const std::string &a, const std::string &b)
{
    size_t n = std::min(a.size(), b.size()), i = 0;
    while (i < n && a[a.size() - 1 - i] == b[b.size() - 1 - i]) {
        i++;
    }
    return i;
}

/* Does this text identify a place? Long enough, and nothing that stands in plain prose. */
static bool strong(const std::string &text)
{
    return trim(text).size() >= 4 && text.find_first_of("<>[]|") != std::string::npos;
}

struct Seam {
    std::string closer, opener;
    bool found = false;
};

/*
 * The seam between the text `before` (end of one message) and `after` (in the next), in the conversation `longer`;
 * `shorter` is the conversation that ends with the first of both.
 */
static Seam seam_find(const std::optional<std::string> &longer, const std::optional<std::string> &shorter,
                      const char *before, const char *after)
{
    Seam seam;
    if (!longer || !shorter) {
        return seam;
    }
    size_t from = longer->find(before);
    size_t to = from == std::string::npos ? from : longer->find(after, from);
    size_t tail = shorter->find(before);
    if (to == std::string::npos || tail == std::string::npos) {
        return seam;
    }
    std::string between = longer->substr(from + strlen(before), to - from - strlen(before));
    size_t cut = common_prefix(between, shorter->substr(tail + strlen(before)));
    /* not inside a tag: closer and opener may begin alike ("<|") */
    size_t open = between.find_last_of("<[", cut == 0 ? 0 : cut - 1);
    if (cut > 0 && open != std::string::npos && open < cut) {
        size_t close = between.find_first_of(">]", open);
        if (close != std::string::npos && close >= cut) {
            cut = open;
        }
    }
    seam.closer = between.substr(0, cut);
    seam.opener = between.substr(cut);
    for (const char *own : {"qztool", PROBE_CALL_ID, PROBE_NEXT_CALL_ID}) {
        /* the probe's names are not the template's text */
        size_t last = seam.closer.rfind(own);
        seam.closer = last == std::string::npos ? seam.closer : seam.closer.substr(last + strlen(own));
        seam.opener = seam.opener.substr(0, seam.opener.find(own));
    }
    seam.found = true;
    return seam;
}

static void opener_add(std::vector<Opener> &openers, const std::string &text, size_t offset, cairn_role role)
{
    for (Opener &opener : openers) {
        if (opener.text == text && opener.offset == offset) {
            opener.roles |= bit(role);
            return;
        }
    }
    openers.push_back({text, offset, bit(role)});
}

/* After the system message the closer is unknown; where it shows that `shared` begins with another's end, cut that. */
static std::string shorten_by(const std::string &shared, const std::optional<std::string> &prompt)
{
    size_t from = prompt ? prompt->find("qzsys") : std::string::npos;
    size_t to = from == std::string::npos ? from : prompt->find("qzone", from);
    if (to == std::string::npos) {
        return shared;
    }
    std::string between = prompt->substr(from, to - from);
    std::string tail = shared.substr(shared.size() - common_suffix(shared, between));
    size_t tag = tail.find_first_of("<[");
    if (tail.size() == shared.size() || tag == std::string::npos) {
        return shared;
    }
    tail = tail.substr(tag); /* not from inside a tag */
    return strong(tail) ? tail : shared;
}

/* The part that all seams of a role share becomes its opener; a seam that shares nothing stands alone. */
static void openers_of_role(std::vector<Opener> &openers, const std::vector<Seam> &seams, cairn_role role,
                            const std::optional<std::string> &after_system = std::nullopt)
{
    std::string shared;
    for (const Seam &seam : seams) {
        if (!seam.found) {
            continue;
        }
        if (shared.empty()) {
            if (strong(seam.opener)) {
                shared = seam.opener;
            } else if (strong(seam.closer)) {
                opener_add(openers, seam.closer, seam.closer.size(), role);
            }
            continue;
        }
        std::string head = shared.substr(0, common_prefix(shared, seam.opener));
        std::string tail = shared.substr(shared.size() - common_suffix(shared, seam.opener));
        if (strong(head)) {
            shared = head;
        } else if (strong(tail)) {
            shared = tail;
        } else if (strong(seam.opener)) {
            opener_add(openers, seam.opener, 0, role);
        } else if (strong(seam.closer)) {
            opener_add(openers, seam.closer, seam.closer.size(), role);
        }
    }
    if (!shared.empty()) {
        opener_add(openers, shorten_by(shared, after_system), 0, role);
    }
}

/*
 * Roles for which rendering showed nothing: the library's own list, as far as it goes. It also goes first for
 * templates that print the assistant's opener even when they are asked not to: their shorter conversations end with
 * it, so that the cut falls inside the next opener.
 */
static void openers_from_library(const Template &tmpl, std::vector<Opener> &openers)
{
    try {
        common_chat_templates_inputs inputs;
        inputs.messages.push_back(make_msg("user", "qzuser"));
        common_chat_params params = common_chat_templates_apply(tmpl.tmpls.get(), inputs);
        std::optional<std::string> closed = render_plain(tmpl, inputs.messages, {});
        bool always_opens = closed && closed == render_plain(tmpl, inputs.messages, {}, true);
        unsigned known = 0, listed = 0;
        for (const common_chat_msg_delimiter &delimiter : params.message_delimiters.delimiters) {
            listed |= delimiter.delimiter.size() < 4
                          ? 0u
                          : bit(role_of(common_chat_role_to_string(delimiter.role)));
        }
        if (always_opens) {
            for (Opener &opener : openers) {
                opener.roles &= ~listed;
            }
            openers.erase(
                std::remove_if(openers.begin(), openers.end(), [](const Opener &o) { return o.roles == 0; }),
                openers.end());
        }
        for (const Opener &opener : openers) {
            known |= opener.roles;
        }
        for (const common_chat_msg_delimiter &delimiter : params.message_delimiters.delimiters) {
            cairn_role role = role_of(common_chat_role_to_string(delimiter.role));
            if ((known & bit(role)) == 0 && delimiter.delimiter.size() >= 4) {
                opener_add(openers, delimiter.delimiter, 0, role);
            }
        }
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return; /* a template that needs more than one user message: what rendering showed is enough */
    }
}

std::vector<Opener> openers_learn(const Template &tmpl)
{
    using Conversation = std::vector<common_chat_msg>;
    const common_chat_msg one = make_msg("user", "qzone"), two = make_msg("assistant", "qztwo");
    const common_chat_msg three = make_msg("user", "qzthree"), four = make_msg("assistant", "qzfour");
    const common_chat_msg five = make_msg("user", "qzfive");
    const std::string id = PROBE_CALL_ID, next_id = PROBE_NEXT_CALL_ID;
    common_chat_msg call = make_call("qztool", R"({"qzkey":"qzvalue"})", id, "");
    common_chat_msg calls = call;
    calls.tool_calls.push_back({"qztool", R"({"qzkey":"qzother"})", next_id});
    common_chat_msg thought = make_msg("assistant", "qzfour");
    thought.reasoning_content = "qzwhy";
    const common_chat_msg result = make_result("qztool", id, "qzresult");
    const common_chat_msg second = make_result("qztool", next_id, "qzsecond");
    const common_chat_msg mid = make_msg("system", "qzmid");
    auto render = [&](const Conversation &conversation, bool tools = false) {
        return render_plain(tmpl, conversation,
                            tools ? std::vector<common_chat_tool>{make_tool("qztool")}
                                  : std::vector<common_chat_tool>{});
    };

    auto u = render({one}), ua = render({one, two}), uau = render({one, two, three});
    auto all = render({one, two, three, four, five});
    auto uth = render({one, two, three, thought});
    auto uc = render({one, call}, true), ucr = render({one, call, result}, true);
    auto ucra = render({one, call, result, two, three}, true),
         ucru = render({one, call, result, three}, true);
    auto ucc = render({one, calls, result}, true), uccr = render({one, calls, result, second}, true);
    std::vector<Opener> openers;
    openers_of_role(openers,
                    {seam_find(all, u, "qzone", "qztwo"), seam_find(all, uau, "qzthree", "qzfour"),
                     seam_find(uth, uau, "qzthree", "qzwhy"), seam_find(ucr, u, "qzone", "qztool"),
                     seam_find(ucra, ucr, "qzresult", "qztwo")},
                    CAIRN_ROLE_ASSISTANT);
    openers_of_role(openers,
                    {seam_find(all, ua, "qztwo", "qzthree"), seam_find(ucra, ua, "qztwo", "qzthree"),
                     seam_find(ucru, ucr, "qzresult", "qzthree")},
                    CAIRN_ROLE_USER, render({make_msg("system", "qzsys"), one}));
    openers_of_role(openers, {seam_find(ucr, uc, "qzvalue", "qzresult")}, CAIRN_ROLE_TOOL);
    openers_of_role(openers, {seam_find(uccr, ucc, "qzresult", "qzsecond")}, CAIRN_ROLE_TOOL);
    if (tmpl.traits.system_anywhere) {
        auto uas = render({make_msg("system", "qzsys"), one, two, mid, three, four});
        auto ua0 = render({make_msg("system", "qzsys"), one, two});
        openers_of_role(openers, {seam_find(uas, ua0, "qztwo", "qzmid")}, CAIRN_ROLE_SYSTEM);
    }
    openers_from_library(tmpl, openers);
    return openers;
}

/* The parting with or without thinking; nothing when the template rewrites more than its opener. */
static void parting_add(const Template &tmpl, bool thinking, std::vector<Parting> &partings)
{
    auto render = [&](const std::vector<common_chat_msg> &messages) {
        common_chat_templates_inputs inputs;
        inputs.messages = messages;
        inputs.enable_thinking = thinking;
        probe_kwargs(tmpl, inputs);
        return common_chat_templates_apply(tmpl.tmpls.get(), inputs).prompt;
    };
    try {
        const common_chat_msg one = make_msg("user", "qzone");
        std::string shorter = render({one});
        std::string longer = render({one, make_msg("assistant", "qztwo"), make_msg("user", "qzthree")});
        size_t from = shorter.rfind("qzone"), shared = common_prefix(shorter, longer);
        if (from != std::string::npos && shared >= from + strlen("qzone")) {
            partings.push_back({shorter.substr(from + strlen("qzone")), shorter.size() - shared});
        }
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return; /* a template that refuses this conversation */
    }
}

std::vector<Parting> partings_learn(const Template &tmpl)
{
    std::vector<Parting> partings;
    parting_add(tmpl, true, partings);
    parting_add(tmpl, false, partings);
    return partings;
}

} // namespace cairn_chat_bridge
