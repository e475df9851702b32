/*
 * bridge_json - values of a client's JSON, with the path of what is wrong, and texts that are bounded before they are parsed.
 *
 * The library's parser looks through all keys of an object for each further one, and what reads its values calls itself for
 * each level. So levels and keys are counted in the text first.
 */
#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

constexpr uint64_t KEY_SQUARES_MAX = 100000000; /* 10,000 keys in one object: a quarter of a second */

std::string quoted(const std::string &text)
{
    std::string cut = text.size() > 40 ? text.substr(0, 40) + "..." : text;
    return json::make(cut).dump_safe();
}

static const char *type_name(const json &value)
{
    return value.is_null()      ? "null"
           : value.is_object()  ? "an object"
           : value.is_array()   ? "an array"
           : value.is_string()  ? "a string"
           : value.is_boolean() ? "a boolean"
                                : "a number";
}

void wrong_type(const std::string &path, const char *wanted, const json &value)
{
    refuse(path, std::string("must be ") + wanted + ", is " + type_name(value));
}

const json *find(const json &object, const char *key)
{
    return object.contains(key) ? &object.at(key) : nullptr;
}

const json *find_set(const json &object, const char *key)
{
    const json *value = find(object, key);
    return value != nullptr && !value->is_null() ? value : nullptr;
}

std::string string_at(const json &object, const char *key, const std::string &path)
{
    const json *value = find_set(object, key);
    if (value == nullptr) {
        return "";
    }
    if (!value->is_string()) {
        wrong_type(path + "." + key, "a string", *value);
    }
    return value->get<std::string>();
}

std::optional<bool> bool_at(const json &object, const char *key)
{
    const json *value = find_set(object, key);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (!value->is_boolean()) {
        wrong_type(key, "true or false", *value);
    }
    return value->get<bool>();
}

std::string trim(const std::string &text)
{
    const char *blank = " \t\r\n\v\f";
    size_t begin = text.find_first_not_of(blank);
    return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

/* --- texts ------------------------------------------------------------------------------------------------------- */

class TextLimits
{
  public:
    TextLimits(uint32_t depth_max, const std::string &path) : depth_max_(depth_max), path_(path) {}

    void check(const std::string &text)
    {
        bool in_string = false;
        for (size_t i = 0; i < text.size(); i++) {
            char c = text[i];
            if (in_string) {
                i += c == '\\' ? 1 : 0;
                in_string = c != '"';
            } else if (c == '"') {
                in_string = true;
            } else if (c == '[' || c == '{') {
                open(c == '{', i);
            } else if (c == ',') {
                next(i);
            } else if ((c == ']' || c == '}') && !levels_.empty()) {
                squares_ += square(levels_.back());
                levels_.pop_back();
            }
        }
    }

  private:
    struct Level {
        bool object;
        uint64_t keys;
    };
    static uint64_t square(const Level &level) { return level.object ? level.keys * level.keys : 0; }
    void open(bool object, size_t at)
    {
        if (levels_.size() == depth_max_) {
            refuse(path_, "nested deeper than " + std::to_string(depth_max_) + " levels, at byte " +
                              std::to_string(at));
        }
        levels_.push_back({object, 1});
    }
    void next(size_t at)
    {
        if (levels_.empty()) {
            return;
        }
        levels_.back().keys++;
        if (squares_ + square(levels_.back()) > KEY_SQUARES_MAX) {
            refuse(path_, "too many keys in its objects, at byte " + std::to_string(at) +
                              ": squared and summed over all objects they may be " +
                              std::to_string(KEY_SQUARES_MAX));
        }
    }

    uint32_t depth_max_;
    const std::string &path_;
    std::vector<Level> levels_;
    uint64_t squares_ = 0;
};

void json_text_check(const std::string &text, uint32_t depth_max, const std::string &path)
{
    TextLimits(depth_max, path).check(text);
}

std::string json_complaint(const std::string &what)
{
    size_t begin = what.compare(0, 15, "[json.exception") == 0 ? what.find("] ") : std::string::npos;
    std::string text = begin == std::string::npos ? what : what.substr(begin + 2);
    size_t end = text.find("; last read");
    return trim(end == std::string::npos ? text : text.substr(0, end));
}

json json_parse_limited(const std::string &text, uint32_t depth_max, const std::string &path)
{
    json_text_check(text, depth_max, path);
    try {
        return json::parse(text);
    } catch (const common_json_error &error) {
        refuse(path, "not JSON: " + json_complaint(error.what()));
    }
}

} // namespace cairn_chat_bridge
