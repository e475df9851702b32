/*
 * bridge_direct - one render of a long conversation in place of three.
 *
 * The library renders a conversation three times: for the prompt, and with and without opener to see what the opener
 * is. The opener, the grammar and the parser depend on the tools, the options and the end of the conversation, not on
 * its middle. So where the template's own text is all there is to it, the whole is rendered once, and the library gets
 * only the end of the conversation:
 *
 *   system user assistant tool ... user      rendered once, with the template alone
 *                                  user      the library: opener, grammar, parser
 *
 * Whether that holds for a template is tried at open; for each request the prompt must end with the opener. Otherwise
 * the library renders everything, as it would have.
 */
#include <algorithm>

#include "chat-auto-parser.h"

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

static json message_json(const common_chat_msg &msg, bool object_arguments)
{
    json out = msg.to_json_oaicompat(false);
    if (!object_arguments || !out.contains("tool_calls")) {
        return out;
    }
    for (size_t i = 0; i < msg.tool_calls.size(); i++) {
        out["tool_calls"][i]["function"]["arguments"] = json::parse(msg.tool_calls[i].arguments);
    }
    return out;
}

static std::string direct_render(const Template &tmpl, const common_chat_templates_inputs &inputs)
{
    autoparser::generation_params params;
    params.tools = common_chat_tools_to_json_oaicompat(inputs.tools);
    params.messages = json::array();
    for (const common_chat_msg &msg : inputs.messages) {
        params.messages.push_back(message_json(msg, tmpl.traits.object_arguments));
    }
    params.extra_context = json::object();
    for (const auto &one : inputs.chat_template_kwargs) {
        params.extra_context[one.first] = json::parse(one.second);
    }
    params.enable_thinking = inputs.enable_thinking;
    params.add_generation_prompt = inputs.add_generation_prompt;
    params.add_bos = tmpl.add_bos;
    params.add_eos = tmpl.add_eos;
    return common_chat_template_direct_apply(*tmpl.direct, params);
}

/* The messages that decide the opener: the last user message, or the last calls with their results. 0: not known. */
static size_t tail_begin(const std::vector<common_chat_msg> &messages)
{
    size_t at = messages.size();
    while (at > 0 && messages[at - 1].role == "tool") {
        at--;
    }
    if (at == messages.size()) {
        return at > 0 && messages[at - 1].role == "user" ? at - 1 : 0;
    }
    return at > 0 && messages[at - 1].role == "assistant" ? at - 1 : 0;
}

std::optional<common_chat_params> direct_apply(const Template &tmpl,
                                               const common_chat_templates_inputs &inputs)
{
    bool plain = inputs.add_generation_prompt && inputs.json_schema.empty() &&
                 inputs.continue_final_message == COMMON_CHAT_CONTINUATION_NONE;
    size_t begin = tail_begin(inputs.messages);
    if (!tmpl.direct || !plain || begin < 4) {
        return std::nullopt;
    }
    common_chat_templates_inputs end = inputs;
    end.messages.assign(inputs.messages.begin() + (std::ptrdiff_t)begin, inputs.messages.end());
    if (end.messages[0].role != "user") {
        end.messages.insert(end.messages.begin(), make_msg("user", "qzuser"));
    }
    try {
        common_chat_params params = common_chat_templates_apply(tmpl.tmpls.get(), end);
        std::string prompt = direct_render(tmpl, inputs);
        const std::string &opener = params.generation_prompt;
        bool ends = prompt.size() >= opener.size() &&
                    prompt.compare(prompt.size() - opener.size(), opener.size(), opener) == 0;
        if (!ends) {
            return std::nullopt;
        }
        params.prompt = std::move(prompt);
        return params;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return std::nullopt; /* the full way says what is wrong */
    }
}

bool direct_agrees(const Template &tmpl)
{
    const common_chat_msg sys = make_msg("system", "qzsys"), user = make_msg("user", "qzuser \n");
    common_chat_msg thought = make_msg("assistant", " qzanswer"), parts = make_msg("user", "");
    thought.reasoning_content = "qzwhy\n";
    parts.content_parts = {{"text", "qzone"}, {"text", " qztwo"}};
    const common_chat_msg call = make_call("qztool", R"({"qzkey": "qzvalue"})", PROBE_CALL_ID, "");
    common_chat_msg told = make_call("qztool", R"({"qzkey": "qzvalue"})", PROBE_CALL_ID, "qztext");
    told.reasoning_content = "qzwhy";
    const common_chat_msg result = make_result("qztool", PROBE_CALL_ID, "{\"qz\": 1}");
    std::vector<std::vector<common_chat_msg>> conversations = {{user, thought, user, thought, parts}};
    if (tmpl.traits.system_role) {
        conversations.push_back({sys, user, thought, user});
    }
    if (tmpl.traits.tool_turns) {
        conversations.push_back({user, call, result, thought, user, told, result});
        conversations.push_back({user, thought, user, told, result, thought, user});
    }
    try {
        for (const std::vector<common_chat_msg> &conversation : conversations) {
            for (int round = 0; round < 4; round++) {
                common_chat_templates_inputs inputs;
                inputs.messages = conversation;
                inputs.enable_thinking = round % 2 == 0;
                inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
                if (round / 2 == 1 && tmpl.traits.tool_turns) {
                    inputs.tools.push_back(make_tool("qztool"));
                }
                inputs.force_pure_content = tmpl.analysed;
                probe_kwargs(tmpl, inputs);
                if (common_chat_templates_apply(tmpl.tmpls.get(), inputs).prompt !=
                    direct_render(tmpl, inputs)) {
                    return false;
                }
            }
        }
        return true;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return false;
    }
}

} // namespace cairn_chat_bridge
