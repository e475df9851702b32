/*
 * bridge_messages - the messages of a chat body, checked: roles, content, calls, reasoning.
 */
#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

cairn_role role_of(const std::string &role)
{
    return role == "system"      ? CAIRN_ROLE_SYSTEM
           : role == "user"      ? CAIRN_ROLE_USER
           : role == "assistant" ? CAIRN_ROLE_ASSISTANT
           : role == "tool"      ? CAIRN_ROLE_TOOL
                                 : CAIRN_ROLE_NONE;
}

bool has_mark(const json &object)
{
    return object.is_object() && find_set(object, "cache_control") != nullptr;
}

static void part_parse(const json &part, const std::string &path, Message &message)
{
    if (!part.is_object()) {
        wrong_type(path, "an object", part);
    }
    std::string type = string_at(part, "type", path);
    message.mark = has_mark(part); /* of the last part: what stands inside is the caller's to find */
    const char *key = type == "refusal" ? "refusal" : type == "thinking" ? "thinking" : "text";
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal" &&
        type != "thinking" && type != "reasoning") {
        if (type.empty()) {
            refuse(path + ".type", "missing");
        }
        refuse(path + ".type", quoted(type) + " is not supported: this server takes text only");
    }
    const json *text = find_set(part, key);
    if (text == nullptr) {
        refuse(path + "." + key, "missing");
    }
    if (!text->is_string()) {
        wrong_type(path + "." + key, "a string", *text);
    }
    if (type == "thinking" || type == "reasoning") {
        message.msg.reasoning_content += text->get<std::string>();
    } else {
        message.msg.content_parts.push_back({"text", text->get<std::string>()});
    }
}

static void content_parse(const json &value, const std::string &path, Message &message)
{
    common_chat_msg &msg = message.msg;
    if (value.is_string()) {
        msg.content = value.get<std::string>();
    } else if (value.is_array()) {
        for (size_t i = 0; i < value.size(); i++) {
            part_parse(value.at(i), path + "[" + std::to_string(i) + "]", message);
        }
        /* a list of one text and the text alone are the same prompt in every template */
        if (msg.content_parts.size() == 1) {
            msg.content = msg.content_parts[0].text;
            msg.content_parts.clear();
        }
    } else if (!value.is_null()) {
        wrong_type(path, "a string or a list of parts", value);
    }
}

static common_chat_tool_call call_parse(const json &call, uint32_t depth_max, const std::string &path)
{
    if (!call.is_object()) {
        wrong_type(path, "an object", call);
    }
    const json *type = find_set(call, "type");
    if (type != nullptr && (!type->is_string() || type->get<std::string>() != "function")) {
        refuse(path + ".type", "only \"function\" is supported, is " + quoted(type->dump_safe()));
    }
    const json *function = find_set(call, "function");
    if (function == nullptr || !function->is_object()) {
        refuse(path + ".function", function == nullptr ? "missing" : "must be an object");
    }
    common_chat_tool_call out;
    out.id = string_at(call, "id", path);
    out.name = string_at(*function, "name", path + ".function");
    if (out.name.empty()) {
        refuse(path + ".function.name", "missing");
    }
    const json *arguments = find_set(*function, "arguments");
    if (arguments == nullptr) {
        out.arguments = "{}";
    } else if (arguments->is_string()) {
        out.arguments = arguments->get<std::string>();
    } else if (arguments->is_object()) {
        out.arguments = arguments->dump_safe();
    } else {
        wrong_type(path + ".function.arguments", "a string or an object", *arguments);
    }
    if (trim(out.arguments).empty()) {
        out.arguments = "{}";
    }
    json_text_check(out.arguments, depth_max, path + ".function.arguments"); /* the template may parse them */
    return out;
}

static void calls_parse(const json &message, uint32_t depth_max, const std::string &path,
                        common_chat_msg &msg)
{
    const json *calls = find_set(message, "tool_calls");
    if (calls == nullptr) {
        return;
    }
    if (!calls->is_array()) {
        wrong_type(path + ".tool_calls", "an array", *calls);
    }
    if (msg.role != "assistant") {
        if (!calls->empty()) {
            refuse(path + ".tool_calls", "only an assistant message can have them");
        }
        return;
    }
    for (size_t i = 0; i < calls->size(); i++) {
        msg.tool_calls.push_back(
            call_parse(calls->at(i), depth_max, path + ".tool_calls[" + std::to_string(i) + "]"));
    }
}

static Message message_parse(const json &value, uint32_t depth_max, const std::string &path)
{
    Message message;
    if (!value.is_object()) {
        wrong_type(path, "an object", value);
    }
    if (find_set(value, "role") == nullptr) {
        refuse(path + ".role", "missing");
    }
    std::string role = string_at(value, "role", path);
    std::string plain = role == "developer" ? "system" : role == "function" ? "tool" : role;
    if (role_of(plain) == CAIRN_ROLE_NONE) {
        refuse(path + ".role",
               "unknown role " + quoted(role) + "; known are system, developer, user, assistant and tool");
    }
    message.msg.role = plain;
    const json *content = find(value, "content");
    if (content == nullptr && plain != "assistant") {
        refuse(path + ".content", "missing; it is a text or a list of parts");
    }
    if (content != nullptr) {
        content_parse(*content, path + ".content", message);
    }
    message.mark = message.mark || has_mark(value);
    calls_parse(value, depth_max, path, message.msg);
    if (plain == "assistant") {
        for (const char *key : {"reasoning_content", "reasoning"}) {
            const json *reasoning = find_set(value, key);
            if (message.msg.reasoning_content.empty() && reasoning != nullptr && reasoning->is_string()) {
                message.msg.reasoning_content = reasoning->get<std::string>();
            }
        }
    }
    message.msg.tool_name = string_at(value, "name", path);
    message.msg.tool_call_id = plain == "tool" ? string_at(value, "tool_call_id", path) : "";
    return message;
}

/* Templates that print the tool's name with its result find it in the call when the client left it out. */
static void name_results(std::vector<Message> &messages)
{
    std::map<std::string, std::string> names;
    for (Message &message : messages) {
        for (const common_chat_tool_call &call : message.msg.tool_calls) {
            if (!call.id.empty()) {
                names[call.id] = call.name;
            }
        }
        if (message.msg.role == "tool" && message.msg.tool_name.empty()) {
            auto found = names.find(message.msg.tool_call_id);
            if (found != names.end()) {
                message.msg.tool_name = found->second;
            }
        }
    }
}

void messages_parse(const json &body, uint32_t messages_max, uint32_t depth_max, Request &request)
{
    const json *messages = find_set(body, "messages");
    if (messages == nullptr) {
        refuse("messages", "missing");
    }
    if (!messages->is_array()) {
        wrong_type("messages", "an array", *messages);
    }
    if (messages->empty()) {
        refuse("messages", "empty; at least one message is needed");
    }
    if (messages->size() > messages_max) {
        throw Refusal(CAIRN_LIMIT, "messages: " + std::to_string(messages->size()) + " of them; at most " +
                                       std::to_string(messages_max) + " are taken");
    }
    for (size_t i = 0; i < messages->size(); i++) {
        Message message = message_parse(messages->at(i), depth_max, "messages[" + std::to_string(i) + "]");
        message.index = (uint32_t)i;
        request.messages.push_back(std::move(message));
    }
    request.count_messages = (uint32_t)request.messages.size();
    name_results(request.messages);
}

} // namespace cairn_chat_bridge
