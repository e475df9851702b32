/*
 * top - `cairn top`: slots, tiers and the last requests of a running server, again and again. Not on a terminal, or with
 * --once: one time.
 */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/http_get.h"
#include "cli/options.h"
#include "cli/term.h"

enum {
    ANSWER_BYTES_MAX = 64 * 1024 * 1024,
    BAR_CELLS = 24,
    TIMEOUT_MS = 30000,
    LINES_OTHER = 14,
    LINES_MIN = 5
};

typedef struct settings {
    const char *host, *key;
    int64_t port, interval;
    bool once;
} settings;

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

/* --- asking ------------------------------------------------------------------------------------------------------ */

/* The JSON at a path; NULL with a sentence in `problem`. */
static json_t *ask(const settings *s, const char *path, char problem[256])
{
    char port[16];
    (void)snprintf(port, sizeof port, "%d", (int)s->port);
    cairn_http_get from = {.host = s->host, .port = port, .key = s->key, .timeout_ms = TIMEOUT_MS};
    cairn_buf body;
    cairn_buf_init(&body, cairn_mem_default(), ANSWER_BYTES_MAX);
    cairn_error error = {0};
    int status = 0;
    json_t *value = NULL;
    if (cairn_http_get_text(&from, path, &status, &body, &error) != CAIRN_OK) {
        (void)snprintf(problem, 256, "%.240s", error.detail[0] != '\0' ? error.detail : "no answer");
    } else if (status == 401) {
        (void)snprintf(problem, 256, "the server asks for an API key: set CAIRN_API_KEY");
    } else if (status != 200) {
        (void)snprintf(problem, 256, "%s gave status %d; is that a cairn server?", path, status);
    } else {
        value = json_loadb(cairn_buf_str(&body), body.len_bytes, 0, NULL);
        if (value == NULL)
            (void)snprintf(problem, 256, "%s gave no JSON; is that a cairn server?", path);
    }
    cairn_buf_release(&body);
    return value;
}

static uint64_t number(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value > 0 ? (uint64_t)value : 0;
}

static const char *text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value != NULL ? value : "";
}

/* --- showing ----------------------------------------------------------------------------------------------------- */

static const char *bar(uint64_t part, uint64_t whole, char cells[BAR_CELLS + 3])
{
    uint64_t full = whole > 0 ? part * BAR_CELLS / whole : 0;
    if (full > BAR_CELLS)
        full = BAR_CELLS;
    cells[0] = '[';
    memset(cells + 1, '.', BAR_CELLS);
    memset(cells + 1, '#', full);
    cells[BAR_CELLS + 1] = ']';
    cells[BAR_CELLS + 2] = '\0';
    return cells;
}

static void show_slots(const json_t *slots)
{
    size_t i;
    json_t *slot;
    char cells[BAR_CELLS + 3];
    json_array_foreach((json_t *)slots, i, slot)
    {
        unsigned long long id = number(slot, "id"), done = number(slot, "n_prompt_tokens_processed"),
                           all = number(slot, "n_prompt_tokens"), written = number(slot, "n_decoded");
        if (!json_is_true(json_object_get(slot, "is_processing"))) {
            printf("slot %-3llu   %s free\n", id, bar(0, 1, cells));
        } else if (written == 0) {
            printf("slot %-3llu   %s request %llu: reading, %llu of %llu tokens\n", id, bar(done, all, cells),
                   (unsigned long long)number(slot, "id_task"), done, all);
        } else {
            printf("slot %-3llu   %s request %llu: writing, %llu tokens after %llu\n", id,
                   bar(all + written, number(slot, "n_ctx"), cells),
                   (unsigned long long)number(slot, "id_task"), written, all);
        }
    }
}

static void show_tier(const char *name, const json_t *tier)
{
    char now[CAIRN_UNITS_TEXT], limit[CAIRN_UNITS_TEXT], cells[BAR_CELLS + 3];
    cairn_units_print_bytes(number(tier, "now"), now);
    cairn_units_print_bytes(number(tier, "limit"), limit);
    printf("%-8s   %s %s of %s\n", name, bar(number(tier, "now"), number(tier, "limit"), cells), now, limit);
}

static void show_cache(const json_t *cache)
{
    show_tier("memory", json_object_get(cache, "bytes"));
    const json_t *disk = json_object_get(cache, "disk");
    if (number(disk, "limit") > 0)
        show_tier("disk", disk);
    const json_t *shared = json_object_get(cache, "shared");
    if (json_is_true(json_object_get(shared, "on"))) {
        char came[CAIRN_UNITS_TEXT], went[CAIRN_UNITS_TEXT];
        cairn_units_print_bytes(number(shared, "fetched_bytes"), came);
        cairn_units_print_bytes(number(shared, "sent_bytes"), went);
        printf("shared     %s; had something for %llu of %llu requests; %s came, %s went\n",
               json_is_true(json_object_get(shared, "works")) ? "works" : "out of reach",
               (unsigned long long)number(shared, "found"), (unsigned long long)number(shared, "asked"), came,
               went);
    }
    const json_t *since = json_object_get(cache, "since_start"), *held = json_object_get(cache, "held");
    uint64_t prompt = number(since, "tokens_prompt"), read = number(since, "tokens_read");
    if (since != NULL && prompt > 0 && read <= prompt) {
        char asked[CAIRN_UNITS_TEXT], tokens[CAIRN_UNITS_TEXT], states[CAIRN_UNITS_TEXT];
        cairn_units_print_count(number(since, "requests"), asked);
        cairn_units_print_count(prompt, tokens);
        cairn_units_print_count(number(held, "states"), states);
        printf("requests   %s since start; %.0f%% of %s prompt tokens reused; checkpoints held: %s\n", asked,
               100.0 * (double)(prompt - read) / (double)prompt, tokens, states);
    }
}

static void show_requests(const json_t *list, size_t rows_max)
{
    static cairn_term_table table; /* large */
    memset(&table, 0, sizeof table);
    static const char *const heads[] = {">request", ">prompt", ">reused", ">read",
                                        ">least",   "from",    ">ms",     "why not more"};
    cairn_term_head(&table, heads, sizeof heads / sizeof heads[0]);
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)list, i, item)
    {
        const json_t *r = json_object_get(item, "cairn");
        if (i >= rows_max)
            break;
        cairn_term_row(&table);
        static const char *const numbers[] = {"prompt_tokens", "reused", "read", "least"};
        cairn_term_cell(&table, 0, "%llu", (unsigned long long)number(item, "id"));
        for (size_t c = 0; c < 4; c++) {
            char count[CAIRN_UNITS_TEXT];
            cairn_units_print_count(number(r, numbers[c]), count);
            cairn_term_cell(&table, c + 1, "%s", count);
        }
        cairn_term_cell(&table, 5, "%s", text(r, "tier"));
        cairn_term_cell(&table, 6, "%.0f",
                        json_real_value(json_object_get(json_object_get(item, "timings"), "prompt_ms")));
        cairn_term_cell(&table, 7, "%s", text(json_object_get(r, "reason"), "word"));
    }
    cairn_term_print(&table, stdout);
}

/* Gives false, with a sentence, when the server didn't answer. */
static bool show(const settings *s, size_t lines, char problem[256])
{
    json_t *models = ask(s, "/v1/models", problem);
    json_t *slots = models != NULL ? ask(s, "/slots", problem) : NULL;
    json_t *cache = slots != NULL ? ask(s, "/cairn/cache", problem) : NULL;
    json_t *requests = cache != NULL ? ask(s, "/cairn/requests", problem) : NULL;
    if (requests != NULL) {
        printf("cairn top   %s:%d   %s\n\n", s->host, (int)s->port,
               text(json_array_get(json_object_get(models, "data"), 0), "id"));
        show_slots(slots);
        printf("\n");
        show_cache(cache);
        printf("\n");
        size_t other = LINES_OTHER + json_array_size(slots),
               rows = lines > other + LINES_MIN ? lines - other : LINES_MIN;
        show_requests(json_object_get(requests, "requests"),
                      rows < CAIRN_TERM_ROWS_MAX - 1 ? rows : CAIRN_TERM_ROWS_MAX - 1);
    }
    bool good = requests != NULL;
    json_decref(models);
    json_decref(slots);
    json_decref(cache);
    json_decref(requests);
    return good;
}

/* --- the terminal ------------------------------------------------------------------------------------------------ */

static size_t lines_of_terminal(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

/* Wait for the next look. false: the person wants to leave. */
static bool wait_for_key(int64_t seconds)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = poll(&keys, 1, (int)seconds * 1000);
    char key = 0;
    if (ready > 0 && read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q' || key == 3))
        return false;
    return interrupted == 0;
}

static int watch(const settings *s)
{
    struct termios before, now;
    bool keys = isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before) == 0;
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (keys) {
        now = before;
        now.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
    }
    (void)fputs("\033[?1049h\033[?25l", stdout);
    do {
        char problem[256] = "";
        (void)fputs("\033[H\033[2J", stdout);
        if (!show(s, lines_of_terminal(), problem))
            printf("cairn top   %s:%d\n\n%s\nTrying again.\n", s->host, (int)s->port, problem);
        printf("\nq: quit\n");
        (void)fflush(stdout);
    } while (wait_for_key(s->interval));
    (void)fputs("\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    if (keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return 0;
}

int cairn_cmd_top(int argc, const char **argv)
{
    settings s = {.host = "127.0.0.1", .port = 8080, .interval = 1};
    const cairn_option options[] = {
        {.kind = CAIRN_OPTION_TEXT,
         .name = "host",
         .value = &s.host,
         .arg = "HOST",
         .help = "where the server is (127.0.0.1)"},
        {.kind = CAIRN_OPTION_INT,
         .name = "port",
         .letter = 'p',
         .value = &s.port,
         .arg = "PORT",
         .min = 1,
         .max = 65535,
         .help = "its port (8080)"},
        {.kind = CAIRN_OPTION_TEXT,
         .name = "api-key",
         .value = &s.key,
         .arg = "KEY",
         .help =
             "for servers that ask for one. Better as CAIRN_API_KEY, which other\nusers of the machine can't "
             "see"},
        {.kind = CAIRN_OPTION_INT,
         .name = "interval",
         .value = &s.interval,
         .arg = "SECONDS",
         .min = 1,
         .max = 3600,
         .help = "time between updates (1)"},
        {.kind = CAIRN_OPTION_FLAG, .name = "once", .value = &s.once, .help = "print once and end"},
    };
    const cairn_option_set set = {
        .usage = "cairn top [options]",
        .about = "Shows the slots, tiers and last requests of a running server. q or Ctrl-C ends it.",
        .options = options,
        .count = sizeof options / sizeof options[0]};
    const char *rest[1];
    int code = cairn_options_take(&set, "top", argc, argv, rest, 1);
    if (code >= 0)
        return code;
    if (!s.once && isatty(STDOUT_FILENO) == 1)
        return watch(&s);
    char problem[256] = "";
    if (show(&s, CAIRN_TERM_ROWS_MAX, problem))
        return 0;
    (void)fprintf(stderr, "cairn: %s\n", problem);
    return 1;
}
