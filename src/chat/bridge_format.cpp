/*
 * bridge_format - see the header.
 */
#include <algorithm>
#include <memory>
#include <new>

#include "chat-peg-parser.h"

#include "chat/bridge_format.h"

namespace cairn_chat_bridge
{

using json = common_json;

std::string format_save(const common_chat_params &params, const Request &request, bool continues)
{
    json ends = json::array();
    for (const std::string &tag : params.thinking_end_tags) {
        ends.push_back(tag);
    }
    json out = {
        {"v", 1},
        {"format", (int)params.format},
        {"parser", params.parser},
        {"opener", params.generation_prompt},
        {"split", request.reasoning != COMMON_REASONING_FORMAT_NONE},
        {"continues", continues},
        {"think_start", params.thinking_start_tag},
        {"think_ends", ends},
    };
    return out.dump_safe();
}

Format Format::load(const std::string &text)
{
    Format format;
    json saved = json::parse(text);
    if (saved.at("v").get<int>() != 1) {
        refuse("format", "made by another build");
    }
    format.params.format = (common_chat_format)saved.at("format").get<int>();
    format.params.generation_prompt = saved.at("opener").get<std::string>();
    format.split = saved.at("split").get<bool>();
    format.params.reasoning_format =
        format.split ? COMMON_REASONING_FORMAT_DEEPSEEK : COMMON_REASONING_FORMAT_NONE;
    format.params.is_continuation = saved.at("continues").get<bool>();
    format.params.parser.load(saved.at("parser").get<std::string>());
    format.think_start = saved.at("think_start").get<std::string>();
    format.think_ends = saved.at("think_ends").get<std::vector<std::string>>();
    return format;
}

bool blank(const std::string &text, size_t from)
{
    return text.find_first_not_of(" \t\r\n", from) == std::string::npos;
}

static std::unique_ptr<common_chat_peg_mapper> mapper_new(common_chat_format format, common_chat_msg &msg)
{
    if (format == COMMON_CHAT_FORMAT_PEG_GEMMA4) {
        return std::make_unique<common_chat_peg_gemma4_mapper>(msg);
    }
    if (format == COMMON_CHAT_FORMAT_PEG_MINIMAX_M3) {
        return std::make_unique<common_chat_peg_minimax_m3_mapper>(msg);
    }
    return std::make_unique<common_chat_peg_mapper>(msg);
}

bool Format::parse(const std::string &text, common_chat_msg &ret, size_t *ret_end) const
{
    if (params.parser.empty()) {
        ret.content = text;
        return true;
    }
    try {
        const std::string all = params.generation_prompt + text;
        common_peg_parse_context context(all, COMMON_PEG_PARSE_FLAG_LENIENT);
        common_peg_parse_result result = params.parser.parse(context);
        if (result.fail()) {
            return false;
        }
        bool all_read = !result.success() || blank(all, result.end);
        if (!all_read && (ret_end == nullptr || result.end < all.size() - text.size())) {
            return false;
        }
        std::unique_ptr<common_chat_peg_mapper> mapper = mapper_new(params.format, ret);
        mapper->from_ast(context.ast, result);
        if (!all_read) {
            *ret_end = result.end - (all.size() - text.size());
        }
        return all_read;
    } catch (const std::bad_alloc &) {
        throw;
    } catch (...) {
        return false;
    }
}

bool Format::opener_thinks() const
{
    const std::string &opener = params.generation_prompt;
    size_t open = opener.rfind(think_start);
    if (open == std::string::npos) {
        return false;
    }
    return std::none_of(think_ends.begin(), think_ends.end(), [&](const std::string &close) {
        return opener.find(close, open) != std::string::npos;
    });
}

/* --- UTF-8, in pieces ---------------------------------------------------------------------------------------------- */

enum Look { GOOD, BAD, MORE };

/* The character at `text`: its length, or for BAD how much to skip. */
static Look look(const char *text, size_t size, size_t *length)
{
    unsigned char lead = (unsigned char)text[0];
    size_t need = lead < 0x80                   ? 1
                  : lead >= 0xC2 && lead < 0xE0 ? 2
                  : lead >= 0xE0 && lead < 0xF0 ? 3
                  : lead >= 0xF0 && lead < 0xF5 ? 4
                                                : 0;
    *length = 1;
    if (need == 0) {
        return BAD;
    }
    for (size_t i = 1; i < need; i++) {
        if (i >= size) {
            *length = i;
            return MORE;
        }
        unsigned char c = (unsigned char)text[i];
        unsigned char low = 0x80, high = 0xBF;
        if (i == 1) {
            low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
            high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
        }
        if (c < low || c > high) {
            *length = i;
            return BAD;
        }
    }
    *length = need;
    return GOOD;
}

void WholeCharacters::feed(const char *bytes, size_t size, std::string &out)
{
    held_.append(bytes, size);
    size_t i = 0;
    while (i < held_.size()) {
        size_t length = 0;
        Look found = look(held_.data() + i, held_.size() - i, &length);
        if (found == MORE) {
            break;
        }
        if (found == GOOD) {
            out.append(held_, i, length);
        } else {
            out += "\xEF\xBF\xBD";
        }
        i += length;
    }
    held_.erase(0, i);
}

void WholeCharacters::finish(std::string &out)
{
    if (!held_.empty()) {
        out += "\xEF\xBF\xBD";
        held_.clear();
    }
}

} // namespace cairn_chat_bridge
