/*
 * bridge_stream - an answer, piece by piece, becomes deltas and at last a message.
 *
 * The library parses from the answer's beginning each time. So that long answers don't cost the square of their
 * length, the text is parsed at lengths that grow with it: at L, then at L + 1 + L/2048. These lengths depend on the
 * text alone, so what comes out does not depend on where the caller cut it.
 *
 *   bytes --> whole characters --> parse at L1, L2, ... --> a message that extends the last one --> deltas
 *                                    |
 *                                    does not fit the format (any more)
 *                                    --> after 1 KiB of that, or at the end, the rest is content
 *
 * What was sent can't be taken back: a parse that contradicts it is not used.
 */
#include <algorithm>

#include "chat/bridge_format.h"

namespace cairn_chat_bridge
{

using json = common_json;

static const size_t BROKEN_BYTES = 1024; /* not fitting for so long: it won't fit any more */

static bool starts_with(const std::string &text, const std::string &head)
{
    return text.compare(0, head.size(), head) == 0;
}

/* Does `next` extend `had`? White space that a parse took back is left as it was sent. */
static bool extends(const std::string &had, std::string &next)
{
    if (starts_with(next, had)) {
        return true;
    }
    if (starts_with(had, next) && blank(had, next.size())) {
        next = had;
        return true;
    }
    return false;
}

/* --- the stream ---------------------------------------------------------------------------------------------------- */

class Stream
{
  public:
    Stream(std::optional<Format> format, const cairn_chat_stream_options &options)
        : format_(std::move(format)),
          id_prefix_(options.call_id_prefix != nullptr ? options.call_id_prefix : "call_"),
          whole_(options.whole),
          text_bytes_max_(options.text_bytes_max != 0 ? options.text_bytes_max : (size_t)64 << 20)
    {
        common_chat_msg given;
        if (format_ && format_->params.is_continuation && parse("", given)) {
            given.tool_calls.clear();
            given_ = given;
            now_ = given;
        }
    }

    void feed(const char *bytes, size_t size)
    {
        if (finished_) {
            throw Refusal(CAIRN_INVALID, "the answer was finished before");
        }
        if (size > text_bytes_max_ - std::min(text_bytes_max_, text_.size())) {
            throw Refusal(CAIRN_LIMIT,
                          "the answer is longer than " + std::to_string(text_bytes_max_) + " bytes");
        }
        utf8_.feed(bytes, size, text_);
        if (!whole_) {
            advance();
        }
    }

    void finish()
    {
        if (finished_) {
            return;
        }
        utf8_.finish(text_);
        common_chat_msg last;
        bool fits = !broken_ && parse(text_, last);
        if (!fits && whole_) {
            advance(); /* as a stream would have gone, so that both end alike */
            fits = !broken_ && parse(text_, last);
        }
        if (!fits || !accept(last, true)) {
            if (!broken_) {
                leave_format(text_.size());
            }
            last = plain(text_, true);
            (void)accept(last, true);
        }
        finished_ = true;
    }

    json take_deltas()
    {
        json out = json::array();
        for (const Piece &piece : pieces_) {
            if (piece.kind != Piece::CALL) {
                out.push_back(
                    json{{piece.kind == Piece::CONTENT ? "content" : "reasoning_content", piece.text}});
                continue;
            }
            json delta = {{"index", piece.call}};
            if (!piece.name.empty()) {
                delta["id"] = piece.id;
                delta["type"] = "function";
                delta["function"] = json{{"name", piece.name}, {"arguments", piece.text}};
            } else {
                delta["function"] = json{{"arguments", piece.text}};
            }
            json list = json::array();
            list.push_back(delta);
            out.push_back(json{{"tool_calls", list}});
        }
        pieces_.clear();
        return out;
    }

    json message() const
    {
        std::string content = now_.content.substr(given_.content.size());
        std::string reasoning = now_.reasoning_content.substr(given_.reasoning_content.size());
        json out = {{"role", "assistant"}};
        out["content"] = content.empty() && !now_.tool_calls.empty() ? json(nullptr) : json(content);
        if (!reasoning.empty()) {
            out["reasoning_content"] = reasoning;
        }
        if (!now_.tool_calls.empty()) {
            json calls = json::array();
            for (size_t i = 0; i < now_.tool_calls.size(); i++) {
                calls.push_back(
                    json{{"id", now_.tool_calls[i].id},
                         {"type", "function"},
                         {"function",
                          {{"name", now_.tool_calls[i].name}, {"arguments", now_.tool_calls[i].arguments}}}});
            }
            out["tool_calls"] = calls;
        }
        return out;
    }

    size_t count_calls() const { return now_.tool_calls.size(); }
    bool broken() const { return broken_; }

    std::string out_deltas, out_message; /* what the C side borrows */

  private:
    /* False: the text can't be a beginning of anything in this format. See Format::parse. */
    bool parse(const std::string &text, common_chat_msg &ret, size_t *ret_end = nullptr) const
    {
        if (format_) {
            return format_->parse(text, ret, ret_end);
        }
        ret.content = text;
        return true;
    }

    /* Parse at every length that is due. */
    void advance()
    {
        while (true) {
            size_t length = std::max<size_t>(next_, 1);
            while (length < text_.size() && ((unsigned char)text_[length] & 0xC0) == 0x80) {
                length++;
            }
            if (length > text_.size()) {
                return;
            }
            step(text_.substr(0, length));
            next_ = length + 1 + length / 2048;
        }
    }

    void step(const std::string &text)
    {
        common_chat_msg msg;
        if (broken_) {
            msg = plain(text, false);
            (void)accept(msg, false);
            return;
        }
        if (parse(text, msg) && accept(msg, false)) {
            good_ = text.size();
            return;
        }
        if (text.size() - good_ >= BROKEN_BYTES) {
            leave_format(text.size());
            msg = plain(text, false);
            (void)accept(msg, false);
        }
    }

    /* From now on there is no format. Where the parser says how far it came, the rest is content. */
    void leave_format(size_t length)
    {
        const std::string text = text_.substr(0, length);
        common_chat_msg msg;
        size_t end = SIZE_MAX;
        (void)parse(text, msg, &end);
        broken_ = true;
        tail_ = end;
        if (end != SIZE_MAX && accept(msg, true)) {
            base_ = now_;
            return;
        }
        base_ = now_;
        tail_ = good_;
        if (now_.tool_calls.empty()) {
            msg = plain_all(text, false);
            bool extended =
                extends(now_.reasoning_content, msg.reasoning_content) && extends(now_.content, msg.content);
            tail_ = extended ? SIZE_MAX : tail_;
        }
    }

    /* What the text is without a format. */
    common_chat_msg plain(const std::string &text, bool last) const
    {
        if (tail_ == SIZE_MAX) {
            return plain_all(text, last);
        }
        common_chat_msg msg = base_;
        msg.content += text.substr(std::min(tail_, text.size()));
        return msg;
    }

    /* The whole text without a format: reasoning is still told apart where its tags are known. */
    common_chat_msg plain_all(const std::string &text, bool last) const
    {
        common_chat_msg msg = given_;
        if (!given_.content.empty() || !format_ || !format_->split || format_->think_start.empty()) {
            msg.content += text;
            return msg;
        }
        size_t begin = text.find_first_not_of(" \t\r\n");
        if (format_->opener_thinks() || !given_.reasoning_content.empty()) {
            split_thought(text, last, msg);
        } else if (begin != std::string::npos &&
                   starts_with(text.substr(begin, format_->think_start.size()), format_->think_start)) {
            split_thought(text.substr(begin + format_->think_start.size()), last, msg);
        } else {
            msg.content += last || begin != std::string::npos ? text : "";
        }
        return msg;
    }

    void split_thought(const std::string &text, bool last, common_chat_msg &msg) const
    {
        size_t end = std::string::npos, tag = 0;
        for (size_t i = 0; i < format_->think_ends.size(); i++) {
            size_t found = text.find(format_->think_ends[i]);
            if (found < end) {
                end = found;
                tag = i == 0 ? format_->think_ends[i].size() : 0; /* the others begin what follows */
            }
        }
        std::string thought = text.substr(0, end);
        if (end == std::string::npos && !last) {
            for (const std::string &close : format_->think_ends) {
                for (size_t n = std::min(close.size(), thought.size()); n > 0; n--) {
                    if (thought.compare(thought.size() - n, n, close, 0, n) == 0) {
                        thought.resize(thought.size() - n); /* may become the tag */
                        break;
                    }
                }
            }
        }
        size_t first = given_.reasoning_content.empty() ? thought.find_first_not_of(" \t\r\n") : 0;
        msg.reasoning_content += first == std::string::npos ? "" : thought.substr(first);
        if (end != std::string::npos) {
            std::string rest = text.substr(end + tag);
            size_t begin = rest.find_first_not_of(" \t\r\n");
            msg.content += begin == std::string::npos ? "" : rest.substr(begin);
        }
    }

    /* Take `next` when it extends what was sent, and note the deltas. False: it contradicts. */
    bool accept(common_chat_msg &next, bool last)
    {
        if (!extends(now_.reasoning_content, next.reasoning_content) ||
            !extends(now_.content, next.content) || next.tool_calls.size() < now_.tool_calls.size()) {
            return false;
        }
        /* a call is sent when its name can't grow any more */
        while (!last && next.tool_calls.size() > now_.tool_calls.size() &&
               (next.tool_calls.back().arguments.empty() || next.tool_calls.back().name.empty())) {
            next.tool_calls.pop_back();
        }
        for (size_t i = 0; i < next.tool_calls.size(); i++) {
            common_chat_tool_call &call = next.tool_calls[i];
            if (i < now_.tool_calls.size()) {
                const common_chat_tool_call &had = now_.tool_calls[i];
                if (call.name != had.name || !starts_with(call.arguments, had.arguments)) {
                    return false;
                }
                call.id = had.id;
            } else if (call.id.empty()) {
                call.id = id_prefix_ + std::to_string(i);
            }
        }
        note(next);
        now_ = next;
        return true;
    }

    struct Piece {
        enum Kind { REASONING, CONTENT, CALL } kind;
        size_t call;
        std::string name, id; /* of a call's first piece */
        std::string text;
    };

    void note_text(Piece::Kind kind, size_t call, const std::string &had, const std::string &next)
    {
        if (next.size() <= had.size()) {
            return;
        }
        if (!pieces_.empty() && pieces_.back().kind == kind && pieces_.back().call == call) {
            pieces_.back().text.append(next, had.size(), std::string::npos);
        } else {
            pieces_.push_back({kind, call, "", "", next.substr(had.size())});
        }
    }

    void note(const common_chat_msg &next)
    {
        note_text(Piece::REASONING, 0, now_.reasoning_content, next.reasoning_content);
        note_text(Piece::CONTENT, 0, now_.content, next.content);
        for (size_t i = 0; i < next.tool_calls.size(); i++) {
            const common_chat_tool_call &call = next.tool_calls[i];
            if (i < now_.tool_calls.size()) {
                note_text(Piece::CALL, i, now_.tool_calls[i].arguments, call.arguments);
            } else {
                pieces_.push_back({Piece::CALL, i, call.name, call.id, call.arguments});
            }
        }
    }

    std::optional<Format> format_;
    std::string id_prefix_;
    bool whole_;
    size_t text_bytes_max_;
    WholeCharacters utf8_;
    std::string text_;      /* all whole characters */
    size_t next_ = 0;       /* length of the next parse */
    size_t good_ = 0;       /* longest text that fitted */
    common_chat_msg given_; /* of the message that is continued: not part of the answer */
    common_chat_msg now_;   /* what was sent, with `given_` */
    common_chat_msg base_;  /* `now_` when the format was left */
    std::vector<Piece> pieces_;
    bool broken_ = false;
    size_t tail_ =
        SIZE_MAX; /* text from here on is content behind `base_`; SIZE_MAX: all of it is read anew */
    bool finished_ = false;
};

} // namespace cairn_chat_bridge

using namespace cairn_chat_bridge;

struct cairn_chat_stream {
    Stream stream;
    cairn_chat_stream(std::optional<Format> format, const cairn_chat_stream_options &options)
        : stream(std::move(format), options)
    {
    }
};

static void lend(const std::string &text, cairn_chat_text *out)
{
    if (out != nullptr) {
        *out = {text.c_str(), text.size()};
    }
}

cairn_status cairn_chat_stream_new(const char *format, size_t format_bytes,
                                   const cairn_chat_stream_options *options, cairn_chat_stream **ret_stream,
                                   cairn_error *reterr)
{
    return guarded("chat/stream: new", CAIRN_INVALID, reterr, [&] {
        const cairn_chat_stream_options none = {};
        std::optional<Format> loaded;
        if (format != nullptr && format_bytes != 0) {
            loaded = Format::load(std::string(format, format_bytes));
        }
        *ret_stream = new cairn_chat_stream(std::move(loaded), options != nullptr ? *options : none);
    });
}

void cairn_chat_stream_free(cairn_chat_stream *stream)
{
    delete stream;
}

cairn_status cairn_chat_stream_feed(cairn_chat_stream *stream, const char *text, size_t text_bytes,
                                    cairn_chat_text *ret_deltas, cairn_error *reterr)
{
    return guarded("chat/stream: feed", CAIRN_INTERNAL, reterr, [&] {
        stream->stream.feed(text, text_bytes);
        stream->stream.out_deltas = stream->stream.take_deltas().dump_safe();
        lend(stream->stream.out_deltas, ret_deltas);
    });
}

cairn_status cairn_chat_stream_finish(cairn_chat_stream *stream, cairn_chat_text *ret_deltas,
                                      cairn_chat_text *ret_message, cairn_error *reterr)
{
    return guarded("chat/stream: finish", CAIRN_INTERNAL, reterr, [&] {
        stream->stream.finish();
        stream->stream.out_deltas = stream->stream.take_deltas().dump_safe();
        stream->stream.out_message = stream->stream.message().dump_safe();
        lend(stream->stream.out_deltas, ret_deltas);
        lend(stream->stream.out_message, ret_message);
    });
}

uint32_t cairn_chat_stream_count_calls(const cairn_chat_stream *stream)
{
    return (uint32_t)stream->stream.count_calls();
}

bool cairn_chat_stream_is_broken(const cairn_chat_stream *stream)
{
    return stream->stream.broken();
}
