/*
 * bridge_schema - how large JSON schemas may be, so that making a grammar of them takes a bounded time, memory and stack.
 *
 * What the library (common/json-schema-to-grammar.cpp) does with a schema:
 *
 *   optional properties   lists, for each, all that may follow it, and copies these lists: the cube of their number
 *   "type": [a, b]        makes the whole again for each type that uses properties or items
 *   $ref                  copies the schema for each other one, and calls itself for its target; a reference that leads to
 *                         itself is followed for ever below allOf
 *   names                 calls itself for each character of a property's name
 */
#include <algorithm>

#include "chat/bridge_internal.h"

namespace cairn_chat_bridge
{

using json = common_json;

constexpr size_t VALUES_MAX = 100000;   /* in the schemas of a request, each as often as it is looked at */
constexpr size_t CUBES_MAX = 27000000;  /* 300 optional properties in one object: about half a second */
constexpr size_t COPIES_MAX = 4000000;  /* values that are copied for references: about half a second */
constexpr size_t REFERENCES_MAX = 1000; /* to different places */
constexpr size_t LEVELS_MAX = 1200; /* of a schema and the targets of its references, one inside the other */

/* One schema; its sizes are added up in the budget. */
class SchemaMeasure
{
  public:
    SchemaMeasure(SchemaBudget &budget, const json &schema, const std::string &path)
        : budget_(budget), root_(schema), path_(path)
    {
    }
    void run()
    {
        size_t before = budget_.values;
        levels_ = measure(root_, 1);
        budget_.copies += targets_.size() * (budget_.values - before);
        over(budget_.copies > COPIES_MAX, "too many references for its size");
        for (const auto &[ref, target] : targets_) {
            levels_ += target != nullptr ? depth(*target) : 0;
            over(levels_ > LEVELS_MAX,
                 "its references lead more than " + std::to_string(LEVELS_MAX) + " levels deep");
        }
    }

  private:
    void over(bool is, const std::string &what) const
    {
        if (is) {
            refuse(path_, what);
        }
    }

    /* How often the library makes what is inside of an object. */
    static size_t times(const json &object)
    {
        const json *types = find(object, "type");
        if (types == nullptr || !types->is_array()) {
            return 1;
        }
        size_t objects = 0, arrays = 0;
        bool all_of = object.contains("allOf");
        for (size_t i = 0; i < types->size(); i++) {
            std::string type = types->at(i).is_string() ? types->at(i).get<std::string>() : "";
            objects += type == "object" || (all_of && type == "string");
            arrays += type == "array";
        }
        return std::max<size_t>({1, objects, arrays});
    }

    static size_t count_optional(const json &object)
    {
        const json *properties = find(object, "properties"), *required = find(object, "required"),
                   *more = find(object, "additionalProperties");
        if (properties == nullptr || !properties->is_object()) {
            return 0;
        }
        size_t named = 0;
        std::set<std::string> names;
        for (size_t i = 0; required != nullptr && required->is_array() && i < required->size(); i++) {
            if (required->at(i).is_string()) {
                names.insert(required->at(i).get<std::string>());
            }
        }
        for (const auto &[name, value] : properties->items()) {
            named += names.count(name);
        }
        return properties->size() - named + (more != nullptr);
    }

    void limits_check(const json &object, const char *least, const char *most) const
    {
        const json *min = find(object, least), *max = find(object, most);
        if (min == nullptr || max == nullptr || !min->is_number_integer() || !max->is_number_integer()) {
            return;
        }
        over(min->get<int64_t>() > max->get<int64_t>(), std::string(least) + " is more than " + most);
    }

    /* Follow references that lead to references; what they end at is measured once. */
    void follow(const json &object)
    {
        const json *at = &object;
        for (size_t step = 0; at != nullptr && at->is_object() && at->contains("$ref"); step++) {
            const json &ref = at->at("$ref");
            if (!ref.is_string()) {
                refuse(path_, "$ref must be a string");
            }
            std::string text = ref.get<std::string>();
            over(text.size() > NAME_BYTES_MAX,
                 "a $ref is longer than " + std::to_string(NAME_BYTES_MAX) + " bytes");
            over(step > 32, "the reference " + quoted(text) + " leads to itself");
            auto known = targets_.find(text);
            if (known != targets_.end() && step == 0) {
                return;
            }
            at = known != targets_.end() ? known->second : resolve(text);
            targets_.emplace(text, at);
            over(targets_.size() > REFERENCES_MAX,
                 "more than " + std::to_string(REFERENCES_MAX) + " references");
        }
    }
    /* null: the library will say what is wrong with it */
    const json *resolve(const std::string &ref) const
    {
        if (ref.compare(0, 2, "#/") != 0) {
            return nullptr;
        }
        const json *at = &root_;
        for (size_t begin = 2; at != nullptr && begin <= ref.size();) {
            size_t end = std::min(ref.find('/', begin), ref.size());
            std::string key = ref.substr(begin, end - begin);
            if (at->is_object()) {
                at = find(*at, key.c_str());
            } else {
                size_t index =
                    key.size() < 7 && key.find_first_not_of("0123456789") == std::string::npos && !key.empty()
                        ? (size_t)std::stoul(key)
                        : SIZE_MAX;
                at = at->is_array() && index < at->size() ? &at->at(index) : nullptr;
            }
            begin = end + 1;
        }
        return at;
    }

    static size_t depth(const json &value)
    {
        size_t most = 0;
        if (value.is_object()) {
            for (const auto &[name, inner] : value.items()) {
                most = std::max(most, depth(inner));
            }
        } else if (value.is_array()) {
            for (size_t i = 0; i < value.size(); i++) {
                most = std::max(most, depth(value.at(i)));
            }
        }
        return most + 1;
    }

    void look_at(const json &object)
    {
        size_t optional = count_optional(object);
        budget_.cubes += optional * optional * optional;
        over(budget_.cubes > CUBES_MAX,
             "too many optional properties: cubed and summed over all objects they may be " +
                 std::to_string(CUBES_MAX));
        limits_check(object, "minLength", "maxLength");
        limits_check(object, "minItems", "maxItems");
        if (object.contains("$ref")) {
            follow(object);
        }
    }

    /* The depth below, `value` included. */
    size_t measure(const json &value, size_t weight)
    {
        budget_.values += weight;
        over(budget_.values > VALUES_MAX, "more than " + std::to_string(VALUES_MAX) + " values");
        size_t most = 0;
        if (value.is_object()) {
            look_at(value);
            weight *= times(value);
            for (const auto &[name, inner] : value.items()) {
                over(name.size() > NAME_BYTES_MAX,
                     "a name is longer than " + std::to_string(NAME_BYTES_MAX) + " bytes");
                most = std::max(most, measure(inner, weight));
            }
        } else if (value.is_array()) {
            for (size_t i = 0; i < value.size(); i++) {
                most = std::max(most, measure(value.at(i), weight));
            }
        }
        return most + 1;
    }

    SchemaBudget &budget_;
    const json &root_;
    const std::string &path_;
    std::map<std::string, const json *> targets_; /* of references */
    size_t levels_ = 0;
};

const common_json &schema_check(SchemaBudget &budget, const common_json &schema, const std::string &path)
{
    SchemaMeasure(budget, schema, path).run();
    return schema;
}

} // namespace cairn_chat_bridge
