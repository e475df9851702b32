/*
 * bridge_shape - bring messages into a form that the template can take.
 *
 * Templates raise on a system message that is not first, on two user messages in a row, on an assistant message
 * before any user message, on call ids of another length. What a template takes is learned once, by rendering small
 * conversations whose texts are easy to find again; what a request needs is decided by its messages alone, from the
 * front, so that a longer conversation is shaped as the shorter one was.
 */
#include <algorithm>

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

const char *const PROBE_CALL_ID = "callqz001";

common_chat_msg make_msg(const char *role, const std::string &content)
{
    common_chat_msg msg;
    msg.role = role;
    msg.content = content;
    return msg;
}

common_chat_msg make_call(const std::string &name, const std::string &arguments, const std::string &id,
                          const std::string &content)
{
    common_chat_msg msg = make_msg("assistant", content);
    msg.tool_calls.push_back({name, arguments, id});
    return msg;
}

common_chat_msg make_result(const std::string &name, const std::string &id, const std::string &content)
{
    common_chat_msg msg = make_msg("tool", content);
    msg.tool_name = name;
    msg.tool_call_id = id;
    return msg;
}

common_chat_tool make_tool(const std::string &name)
{
    return {name, "A probe.",
            R"({"type":"object","properties":{"qzkey":{"type":"string"}},"required":["qzkey"]})"};
}

void probe_kwargs(const Template &tmpl, common_chat_templates_inputs &inputs)
{
    inputs.chat_template_kwargs["datetime"] = "\"Jan 01 1970\"";
    inputs.chat_template_kwargs["date_string"] = "\"01 Jan 1970\"";
    for (const ClockUse &clock : tmpl.clocks) {
        inputs.chat_template_kwargs[clock.variable] = "\"1970-01-01\"";
    }
}

std::optional<std::string> render_plain(const Template &tmpl, const std::vector<common_chat_msg> &messages,
                                        const std::vector<common_chat_tool> &tools, bool opener)
{
    try {
        common_chat_templates_inputs inputs;
        inputs.messages = messages;
        inputs.tools = tools;
        inputs.add_generation_prompt = opener;
        inputs.force_pure_content = tmpl.analysed; /* the text alone is wanted */
        inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
        probe_kwargs(tmpl, inputs);
        return common_chat_templates_apply(tmpl.tmpls.get(), inputs).prompt;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return std::nullopt;
    }
}

/* Are all texts in the prompt, in this order? */
static bool renders(const Template &tmpl, const std::vector<common_chat_msg> &messages,
                    const std::vector<const char *> &texts, const std::vector<common_chat_tool> &tools = {})
{
    std::optional<std::string> prompt = render_plain(tmpl, messages, tools);
    size_t at = 0;
    for (const char *text : texts) {
        at = prompt ? prompt->find(text, at) : std::string::npos;
        if (at == std::string::npos) {
            return false;
        }
        at++;
    }
    return prompt.has_value();
}

static bool takes_call_id(const Template &tmpl, const char *id)
{
    return renders(tmpl,
                   {make_msg("user", "qzuser"), make_call("qztool", R"({"qzkey":"qzvalue"})", id, ""),
                    make_result("qztool", id, "qzresult"), make_msg("assistant", "qzanswer"),
                    make_msg("user", "qznext")},
                   {"qzuser", "qzvalue", "qzresult", "qznext"}, {make_tool("qztool")});
}

Traits traits_learn(const Template &tmpl, bool caps_system_role, bool caps_object_arguments)
{
    const common_chat_msg sys = make_msg("system", "qzsys"), more = make_msg("system", "qzmore");
    const common_chat_msg user = make_msg("user", "qzuser"), next = make_msg("user", "qznext");
    const common_chat_msg answer = make_msg("assistant", "qzanswer"),
                          again = make_msg("assistant", "qzagain");
    Traits traits;
    traits.object_arguments = caps_object_arguments;
    traits.system_role = caps_system_role && renders(tmpl, {sys, user}, {"qzsys", "qzuser"});
    traits.system_repeated =
        traits.system_role && renders(tmpl, {sys, more, user}, {"qzsys", "qzmore", "qzuser"});
    traits.system_anywhere =
        traits.system_role && renders(tmpl, {sys, user, answer, more, next, again},
                                      {"qzsys", "qzuser", "qzanswer", "qzmore", "qznext"});
    traits.users_repeated = renders(tmpl, {user, next, answer, user}, {"qzuser", "qznext", "qzanswer"});
    traits.assistants_repeated =
        renders(tmpl, {user, answer, again, next}, {"qzuser", "qzanswer", "qzagain", "qznext"});
    traits.assistant_first = traits.system_role
                                 ? renders(tmpl, {sys, answer, user}, {"qzsys", "qzanswer", "qzuser"})
                                 : renders(tmpl, {answer, user}, {"qzanswer", "qzuser"});
    traits.no_user = traits.system_role && renders(tmpl, {sys}, {"qzsys"}) &&
                     renders(tmpl, {sys, answer}, {"qzsys", "qzanswer"});
    if (!takes_call_id(tmpl, "call_0123456789abcdef")) {
        traits.short_call_ids = takes_call_id(tmpl, PROBE_CALL_ID);
        traits.tool_turns = traits.short_call_ids;
    }
    return traits;
}

/* --- one step a kind of trouble ------------------------------------------------------------------------------------ */

static std::string text_of(const common_chat_msg &msg)
{
    std::string text = msg.content;
    for (const common_chat_msg_content_part &part : msg.content_parts) {
        text += (text.empty() ? "" : "\n") + part.text;
    }
    return text;
}

static void set_text(common_chat_msg &msg, std::string text)
{
    msg.content = std::move(text);
    msg.content_parts.clear();
}

static void join(Message &to, const Message &from)
{
    std::string before = text_of(to.msg), after = text_of(from.msg);
    set_text(to.msg, before.empty() ? after : after.empty() ? before : before + "\n\n" + after);
    if (!from.msg.reasoning_content.empty()) {
        to.msg.reasoning_content +=
            (to.msg.reasoning_content.empty() ? "" : "\n\n") + from.msg.reasoning_content;
    }
    to.msg.tool_calls.insert(to.msg.tool_calls.end(), from.msg.tool_calls.begin(), from.msg.tool_calls.end());
    to.mark = to.mark || from.mark;
}

/* Nine letters or digits that depend on the whole id (FNV-1a, base 36). */
static std::string short_id(const std::string &id)
{
    bool fits =
        id.size() == 9 && std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c); });
    if (fits) {
        return id;
    }
    uint64_t hash = 1469598103934665603u;
    for (char c : id) {
        hash = (hash ^ (unsigned char)c) * 1099511628211u;
    }
    std::string out(9, '0');
    for (char &c : out) {
        c = "0123456789abcdefghijklmnopqrstuvwxyz"[hash % 36];
        hash /= 36;
    }
    return out;
}

/* Arguments that are not a JSON object (a call that was cut off, a list) would make the template fail. */
static std::string object_of(const std::string &arguments)
{
    json parsed = json::parse_no_throw(arguments);
    if (!parsed.is_discarded() && parsed.is_object()) {
        return arguments;
    }
    return json{{"input", arguments}}.dump_safe();
}

static void calls_fit(std::vector<Message> &messages, const Traits &traits)
{
    for (Message &message : messages) {
        for (common_chat_tool_call &call : message.msg.tool_calls) {
            if (traits.object_arguments) {
                call.arguments = object_of(call.arguments);
            }
            if (traits.short_call_ids) {
                call.id = short_id(call.id);
            }
        }
        if (traits.short_call_ids && message.msg.role == "tool") {
            message.msg.tool_call_id = short_id(message.msg.tool_call_id);
        }
    }
}

/* For templates that know no tools: calls and results as text that any model can read. */
static void calls_to_text(std::vector<Message> &messages)
{
    for (Message &message : messages) {
        common_chat_msg &msg = message.msg;
        if (msg.role == "tool") {
            std::string name = msg.tool_name.empty() ? "a tool" : msg.tool_name;
            set_text(msg, "Result of " + name + ":\n" + text_of(msg));
            msg.role = "user";
            msg.tool_name.clear();
            msg.tool_call_id.clear();
        } else if (!msg.tool_calls.empty()) {
            std::string text = text_of(msg);
            for (const common_chat_tool_call &call : msg.tool_calls) {
                text +=
                    (text.empty() ? "" : "\n") + std::string("Call of ") + call.name + ": " + call.arguments;
            }
            set_text(msg, text);
            msg.tool_calls.clear();
        }
    }
}

static void system_fit(std::vector<Message> &messages, const Traits &traits)
{
    size_t lead = 0;
    while (lead < messages.size() && messages[lead].msg.role == "system") {
        lead++;
    }
    if (!traits.system_anywhere) {
        for (size_t i = lead; i < messages.size(); i++) {
            if (messages[i].msg.role == "system") {
                messages[i].msg.role = "user";
                set_text(messages[i].msg,
                         "<system-reminder>\n" + text_of(messages[i].msg) + "\n</system-reminder>");
            }
        }
    }
    if (lead > 1 && !traits.system_repeated) {
        for (size_t i = 1; i < lead; i++) {
            join(messages[0], messages[i]);
        }
        messages.erase(messages.begin() + 1, messages.begin() + (std::ptrdiff_t)lead);
        lead = 1;
    }
    if (lead > 0 && !traits.system_role) {
        messages[0].msg.role = "user";
        if (messages.size() > 1 && messages[1].msg.role == "user") {
            join(messages[0], messages[1]);
            messages[0].index = messages[1].index;
            messages.erase(messages.begin() + 1);
        }
    }
}

static void roles_fit(std::vector<Message> &messages, const Traits &traits)
{
    size_t first = 0;
    while (first < messages.size() && messages[first].msg.role == "system") {
        first++;
    }
    bool any_user =
        std::any_of(messages.begin(), messages.end(), [](const Message &m) { return m.msg.role == "user"; });
    bool leads = first < messages.size() && messages[first].msg.role != "user";
    if ((leads && !traits.assistant_first) || (!any_user && !traits.no_user)) {
        Message filler;
        filler.msg = make_msg("user", "(The conversation's beginning is not shown.)");
        filler.index = first < messages.size() ? messages[first].index : messages.back().index + 1;
        messages.insert(messages.begin() + (std::ptrdiff_t)first, filler);
    }
    std::vector<Message> out;
    for (Message &message : messages) {
        const std::string &role = message.msg.role;
        bool together = !out.empty() && out.back().msg.role == role &&
                        ((role == "user" && !traits.users_repeated) ||
                         (role == "assistant" && !traits.assistants_repeated));
        if (together) {
            join(out.back(), message);
        } else {
            out.push_back(std::move(message));
        }
    }
    messages = std::move(out);
}

std::vector<Message> shape(const std::vector<Message> &messages, const Traits &traits)
{
    std::vector<Message> out = messages;
    if (traits.tool_turns) {
        calls_fit(out, traits);
    } else {
        calls_to_text(out);
    }
    system_fit(out, traits);
    roles_fit(out, traits);
    return out;
}

} // namespace cairn_chat_bridge
