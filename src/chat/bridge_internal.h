/*
 * bridge_internal - what the bridge's C++ files share. Not for C.
 *
 *   bridge_request   request JSON -> Request (checked, with field paths in errors)
 *   bridge_messages  its messages
 *   bridge_json      values with their paths; how deep and wide a text may be
 *   bridge_schema    how large a JSON schema may be
 *   bridge_grammar   GBNF: where a mistake is, and what would not come to an end (bridge_grammar.h)
 *   bridge_shape     Request -> messages that this template can take; traits of a template
 *   bridge_direct    a cheaper way to render, where it is known to be the same
 *   bridge_required  calls that must be made come first
 *   bridge_openers   the texts by which a template's message starts are found
 *   bridge_bounds    boundaries of a prompt
 *   bridge_format    how answers are written: saved with a prompt, loaded for its answer (bridge_format.h)
 *   bridge_stream    the answer -> deltas and message
 *   bridge           the C functions: catches everything
 *
 * Thread   a Template is not changed after open; everything else belongs to one call
 */
#ifndef CAIRN_CHAT_BRIDGE_INTERNAL_H
#define CAIRN_CHAT_BRIDGE_INTERNAL_H

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chat.h"

#include "chat/bridge.h"

namespace cairn_chat_bridge
{

/* The only exception that the bridge throws itself. */
struct Refusal : std::exception {
    cairn_status status;
    std::string detail;
    Refusal(cairn_status status_in, std::string detail_in) : status(status_in), detail(std::move(detail_in))
    {
    }
    const char *what() const noexcept override { return detail.c_str(); }
};

[[noreturn]] inline void refuse(const std::string &path, const std::string &text)
{
    throw Refusal(CAIRN_INVALID, path.empty() ? text : path + ": " + text);
}

constexpr size_t NAME_BYTES_MAX = 256; /* of a tool, a property, a reference */

/* What the schemas of one request add up to. */
struct SchemaBudget {
    size_t values = 0, cubes = 0, copies = 0;
};

/* bridge_schema.cpp */
/* The schema; refused when it would take the library long to make a grammar of it. Nested no deeper than json_text_check allows. */
const common_json &schema_check(SchemaBudget &budget, const common_json &schema, const std::string &path);

struct Message {
    common_chat_msg msg;
    uint32_t index = 0; /* in the request */
    bool mark = false;  /* the client asked for a resume point after it */
};

/* A checked request. */
struct Request {
    std::vector<Message> messages;
    uint32_t count_messages = 0;
    std::vector<common_chat_tool> tools;
    bool tools_mark = false;
    common_chat_tool_choice tool_choice = COMMON_CHAT_TOOL_CHOICE_AUTO;
    std::string only_tool; /* tool_choice names one; "" otherwise */
    std::optional<bool> parallel_calls;
    SchemaBudget schemas; /* of tools and the answer's */
    std::string json_schema;
    std::string json_schema_path;
    std::string grammar;
    std::map<std::string, std::string> kwargs; /* name -> JSON text */
    bool enable_thinking = true;
    common_reasoning_format reasoning = COMMON_REASONING_FORMAT_DEEPSEEK;
    bool add_generation_prompt = true;
    common_chat_continuation continuation = COMMON_CHAT_CONTINUATION_NONE;
};

/* What a template takes, as far as common_chat_templates_get_caps does not say. */
struct Traits {
    bool system_role = true;
    bool system_repeated = true;
    bool system_anywhere = true;
    bool users_repeated = true;
    bool assistants_repeated = true;
    bool assistant_first = true;
    bool no_user = true;
    bool tool_turns = true;
    bool short_call_ids = false; /* ids of calls must have nine letters or digits */
    bool object_arguments = false;
};

/* A text by which a message's start is found: at its match plus `offset`. */
struct Opener {
    std::string text;
    size_t offset = 0;
    unsigned roles = 0; /* 1 << cairn_role */
};

/*
 * How far an answered turn keeps the assistant opener of its prompt: a prompt that ends with `tail` shares all but
 * its last `lost` bytes with the conversation that goes on.
 */
struct Parting {
    std::string tail;
    size_t lost = 0;
};

/* One call strftime_now("...") that was replaced by a variable. */
struct ClockUse {
    std::string variable;
    std::string format;
};

struct Template {
    common_chat_templates_ptr tmpls;
    std::unique_ptr<common_chat_template>
        direct; /* the same, to be rendered without the library's additions; null: they matter */
    bool add_bos = false, add_eos = false; /* the tokenizer adds them: the library cuts them off the text */
    std::vector<ClockUse> clocks;
    bool analysed =
        false; /* the library derives its parser from the template each time: 4 to 25 ms a render */
    Traits traits;
    std::vector<Opener> openers;
    std::vector<Parting> partings;
};

/* bridge_request.cpp */
Request request_parse(const std::string &body, const cairn_chat_options &options);

/* bridge_messages.cpp */
/* Fill request.messages and count_messages. */
void messages_parse(const common_json &body, uint32_t messages_max, uint32_t depth_max, Request &request);
cairn_role role_of(const std::string &role);
/* Does the client want a resume point behind this? */
bool has_mark(const common_json &object);

/* bridge_json.cpp */
std::string trim(const std::string &text);
std::string quoted(const std::string &text); /* as JSON, cut when it is long */
[[noreturn]] void wrong_type(const std::string &path, const char *wanted, const common_json &value);
/* The value of a key; null when it is absent. */
const common_json *find(const common_json &object, const char *key);
/* Absent and null mean the same in clients' bodies. */
const common_json *find_set(const common_json &object, const char *key);
/* "" when it is absent. */
std::string string_at(const common_json &object, const char *key, const std::string &path);
std::optional<bool> bool_at(const common_json &object, const char *key);
/* Refuses a text that would take long to parse, or more stack than there is; it need not be JSON. */
void json_text_check(const std::string &text, uint32_t depth_max, const std::string &path);
common_json json_parse_limited(const std::string &text, uint32_t depth_max, const std::string &path);
/* What a library says of JSON, without its own name before it and the text behind. */
std::string json_complaint(const std::string &what);

/* bridge_shape.cpp */
std::vector<Message> shape(const std::vector<Message> &messages, const Traits &traits);
Traits traits_learn(const Template &tmpl, bool caps_system_role, bool caps_object_arguments);
/* Set the template's date variables to a fixed day. */
void probe_kwargs(const Template &tmpl, common_chat_templates_inputs &inputs);
/* Render a small conversation; nothing when the template refuses. */
std::optional<std::string> render_plain(const Template &tmpl, const std::vector<common_chat_msg> &messages,
                                        const std::vector<common_chat_tool> &tools, bool opener = false);
common_chat_msg make_msg(const char *role, const std::string &content);
common_chat_msg make_call(const std::string &name, const std::string &arguments, const std::string &id,
                          const std::string &content);
common_chat_msg make_result(const std::string &name, const std::string &id, const std::string &content);
common_chat_tool make_tool(const std::string &name);
extern const char *const PROBE_CALL_ID; /* accepted by every template that takes calls */

/* bridge_direct.cpp */
/* What the library's apply gives, with one render of the whole; nothing when that way is not safe. */
std::optional<common_chat_params> direct_apply(const Template &tmpl,
                                               const common_chat_templates_inputs &inputs);
/* Is the direct way's text the library's? Tried with conversations of several shapes; tmpl.direct is set. */
bool direct_agrees(const Template &tmpl);

/* bridge_required.cpp */
/* Where a tool must be called: forbid text before the call in params.grammar, if that can be done. */
void calls_only(const Request &request, common_chat_params &params);

/* bridge_openers.cpp */
std::vector<Opener> openers_learn(const Template &tmpl);
std::vector<Parting> partings_learn(const Template &tmpl);

/* bridge_bounds.cpp */
struct BoundsInput {
    const Template &tmpl;
    const common_chat_templates_inputs &inputs; /* as rendered; messages in the order of `messages` */
    const std::vector<Message> &messages;       /* shaped; with a continued message, without it */
    const Request &request;
    const common_chat_params &params;
};
struct Bounds {
    std::vector<cairn_chat_boundary> list;
    size_t opener_at = 0; /* offset of the assistant opener; the text's length when there is none */
};
Bounds bounds_find(const BoundsInput &in);

/* bridge_format.cpp */
std::string format_save(const common_chat_params &params, const Request &request, bool continues);

inline unsigned bit(cairn_role role)
{
    return 1u << (unsigned)role;
}

inline size_t common_prefix(const std::string &a, const std::string &b)
{
    size_t n = a.size() < b.size() ? a.size() : b.size();
    size_t i = 0;
    while (i < n && a[i] == b[i]) {
        i++;
    }
    return i;
}

/*
 * Run `body`; whatever it throws becomes a status. `otherwise` is the status of an exception that says nothing about
 * whose mistake it is.
 */
template <typename Body>
cairn_status guarded(const char *where, cairn_status otherwise, cairn_error *reterr, Body &&body) noexcept
{
    try {
        body();
        return CAIRN_OK;
    } catch (const Refusal &refusal) {
        return cairn_error_set(reterr, refusal.status, where, "%s", refusal.what());
    } catch (const std::bad_alloc &) {
        return cairn_error_set(reterr, CAIRN_NOMEM, where, nullptr);
    } catch (const std::exception &error) {
        return cairn_error_set(reterr, otherwise, where, "%s", error.what());
    } catch (...) {
        return cairn_error_set(reterr, otherwise, where, nullptr);
    }
}

} // namespace cairn_chat_bridge

#endif
