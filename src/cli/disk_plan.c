/*
 * disk_plan - see the header.
 */
#include "cli/disk_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/io.h"
#include "base/units.h"
#include "cli/term.h"

#define GIB        (UINT64_C(1) << 30)
#define KEY_DIGITS ((size_t)2 * CAIRN_DISK_PLAN_KEY)

enum { SIZE_GIB = 20, FREE_PART = 10, DAILY_TIMES = 5, DAILY_GIB_MIN = 64, LOCK_TRIES = 200 };

/* The longest part of the path that is there, for asking about space. */
static uint64_t free_bytes_at(const char *dir)
{
    char path[CAIRN_DISK_PLAN_DIR];
    cairn_io_space space;
    (void)snprintf(path, sizeof path, "%s", dir);
    while (cairn_io_space_at(cairn_io_posix(), path, &space, NULL) != CAIRN_OK) {
        char *slash = strrchr(path, '/');
        if (slash == NULL) {
            if (strcmp(path, ".") == 0)
                return 0;
            (void)snprintf(path, sizeof path, ".");
        } else {
            slash[slash == path ? 1 : 0] = '\0';
            if (strcmp(path, "/") == 0 && cairn_io_space_at(cairn_io_posix(), path, &space, NULL) != CAIRN_OK)
                return 0;
        }
    }
    return space.free_bytes;
}

/* Cut "DIR:SIZE". What follows the last colon is a size when it begins with a digit. */
static int spec_read(const char *spec, cairn_disk_plan *plan, const char **ret_size)
{
    const char *colon = strrchr(spec, ':');
    *ret_size = colon != NULL && colon[1] >= '0' && colon[1] <= '9' ? colon + 1 : NULL;
    size_t length = *ret_size != NULL ? (size_t)(colon - spec) : strlen(spec);
    if (length == 0 || length >= sizeof plan->dir) {
        char problem[160];
        (void)snprintf(problem, sizeof problem,
                       "--cache-disk %.60s: a directory is expected, as in --cache-disk DIR or DIR:20G",
                       spec);
        return cairn_term_usage("serve", problem);
    }
    memcpy(plan->dir, spec, length);
    plan->dir[length] = '\0';
    while (length > 1 && plan->dir[length - 1] == '/')
        plan->dir[--length] = '\0';
    return 0;
}

/* The user's cache directory; false: none is known. */
static bool dir_default(cairn_disk_plan *plan)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    if (cache != NULL && cache[0] == '/') { /* the standard says: others are to be ignored */
        length = snprintf(plan->dir, sizeof plan->dir, "%s/cairn", cache);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(plan->dir, sizeof plan->dir, "%s/.cache/cairn", home);
    }
    return length > 0 && (size_t)length < sizeof plan->dir;
}

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* 32 bytes as they are, or 64 hexadecimal digits and perhaps a line end. */
static bool key_parse(const uint8_t *bytes, size_t count, uint8_t key[CAIRN_DISK_PLAN_KEY])
{
    if (count == CAIRN_DISK_PLAN_KEY) {
        memcpy(key, bytes, CAIRN_DISK_PLAN_KEY);
        return true;
    }
    while (count > 0 && (bytes[count - 1] == '\n' || bytes[count - 1] == '\r'))
        count--;
    for (size_t i = 0; i < CAIRN_DISK_PLAN_KEY && count == KEY_DIGITS; i++) {
        int high = hex_digit(bytes[2 * i]), low = hex_digit(bytes[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        key[i] = (uint8_t)(high << 4 | low);
    }
    return count == KEY_DIGITS;
}

int cairn_disk_plan_key(const char *file, const char *option, cairn_log *log,
                        uint8_t ret_key[CAIRN_DISK_PLAN_KEY])
{
    cairn_buf text;
    cairn_error error = {0};
    cairn_buf_init(&text, cairn_mem_default(), 4096);
    cairn_status status = cairn_io_read_file(cairn_io_posix(), file, &text, &error);
    bool fine = status == CAIRN_OK && key_parse(text.bytes, text.len_bytes, ret_key);
    if (text.bytes != NULL)
        memset(text.bytes, 0, text.len_bytes);
    cairn_buf_release(&text);
    if (!fine) {
        char hint[128];
        (void)snprintf(hint, sizeof hint,
                       "%s FILE holds 32 bytes or 64 hexadecimal digits: openssl rand -hex 32", option);
        cairn_term_fail(status == CAIRN_OK ? "the cache key's file has no key"
                                           : "the cache key can't be read",
                        status == CAIRN_OK ? NULL : &error, hint);
        return 1;
    }
    struct stat facts;
    if (stat(file, &facts) == 0 && (facts.st_mode & 077) != 0) {
        CAIRN_LOG(log, WARN, "disk", CAIRN_FIELD_STR("message", "others can read the cache key: chmod 600"),
                  CAIRN_FIELD_STR("file", file));
    }
    return 0;
}

int cairn_disk_plan_read(const char *spec, const char *key_file, uint64_t daily, cairn_log *log,
                         cairn_disk_plan *plan)
{
    const char *size = NULL;
    memset(plan, 0, sizeof *plan);
    if (spec != NULL) {
        int code = spec_read(spec, plan, &size);
        if (code != 0)
            return code;
    } else if (!dir_default(plan)) {
        plan->off_why = "neither HOME nor XDG_CACHE_HOME is set; --cache-disk DIR names a directory";
        return 0;
    }
    uint64_t free_bytes = free_bytes_at(plan->dir);
    plan->bytes_max = free_bytes / FREE_PART < SIZE_GIB * GIB ? free_bytes / FREE_PART : SIZE_GIB * GIB;
    cairn_error error = {0};
    if (size != NULL && cairn_units_parse_bytes(size, free_bytes, &plan->bytes_max, &error) != CAIRN_OK) {
        char problem[256];
        (void)snprintf(problem, sizeof problem, "--cache-disk: %.200s", error.detail);
        return cairn_term_usage("serve", problem);
    }
    if (plan->bytes_max == 0) {
        plan->off_why = "there is no room on its disk";
        return 0;
    }
    uint64_t usual = plan->bytes_max > UINT64_MAX / DAILY_TIMES ? UINT64_MAX : plan->bytes_max * DAILY_TIMES;
    plan->daily_bytes = daily != 0 ? daily : usual > DAILY_GIB_MIN * GIB ? usual : DAILY_GIB_MIN * GIB;
    plan->on = true;
    plan->encrypted = key_file != NULL;
    return key_file != NULL ? cairn_disk_plan_key(key_file, "--cache-key", log, plan->key) : 0;
}

/* --- the secret of the namespaces -------------------------------------------------------------------------------- */

static cairn_status secret_load(const char *path, uint8_t secret[CAIRN_DISK_PLAN_KEY], cairn_error *reterr)
{
    cairn_buf bytes;
    cairn_buf_init(&bytes, cairn_mem_default(), 4096);
    cairn_status status = cairn_io_read_file(cairn_io_posix(), path, &bytes, reterr);
    if (status == CAIRN_OK && bytes.len_bytes == CAIRN_DISK_PLAN_KEY) {
        memcpy(secret, bytes.bytes, CAIRN_DISK_PLAN_KEY);
    } else if (status == CAIRN_OK) {
        status =
            cairn_error_set(reterr, CAIRN_CORRUPT, "disk: namespace.key", "%s: 32 bytes are expected", path);
    }
    cairn_buf_release(&bytes);
    return status;
}

cairn_status cairn_disk_plan_secret_load(const char *dir, uint8_t ret_secret[CAIRN_DISK_PLAN_KEY],
                                         cairn_error *reterr)
{
    char path[CAIRN_DISK_PLAN_DIR + 32];
    (void)snprintf(path, sizeof path, "%.4000s/namespace.key", dir);
    return secret_load(path, ret_secret, reterr);
}

/* Make it when it is not there. Two servers that start at once take turns. */
static cairn_status secret_make(const char *dir, const char *path, uint8_t secret[CAIRN_DISK_PLAN_KEY],
                                cairn_error *reterr)
{
    char lock_path[CAIRN_DISK_PLAN_DIR + 32];
    cairn_file *file = NULL;
    (void)snprintf(lock_path, sizeof lock_path, "%s/namespace.lock", dir);
    cairn_status status =
        cairn_io_open(cairn_io_posix(), lock_path, CAIRN_IO_WRITE | CAIRN_IO_CREATE, &file, reterr);
    if (status != CAIRN_OK)
        return status;
    for (int i = 0; i < LOCK_TRIES && (status = cairn_io_file_lock(file, reterr)) == CAIRN_BUSY; i++) {
        struct timespec tick = {.tv_nsec = 10000000L};
        (void)nanosleep(&tick, NULL);
    }
    if (status != CAIRN_BUSY) /* also where nothing can be locked: the second reads what the first wrote */
        status = secret_load(path, secret, reterr);
    if (status == CAIRN_NOTFOUND) {
        status = getrandom(secret, CAIRN_DISK_PLAN_KEY, 0) == CAIRN_DISK_PLAN_KEY
                     ? cairn_io_write_file(cairn_io_posix(), path, secret, CAIRN_DISK_PLAN_KEY, reterr)
                     : cairn_error_set_os(reterr, errno, "disk: random bytes", NULL);
    }
    cairn_io_discard(file);
    return status;
}

void cairn_disk_plan_secret(cairn_disk_plan *plan, cairn_log *log)
{
    char path[CAIRN_DISK_PLAN_DIR + 32];
    cairn_error error = {0};
    if (!plan->on)
        return;
    (void)snprintf(path, sizeof path, "%s/namespace.key", plan->dir);
    cairn_status status = cairn_io_mkdir_all(cairn_io_posix(), plan->dir, &error);
    if (status == CAIRN_OK)
        status = secret_load(path, plan->secret, &error);
    if (status == CAIRN_NOTFOUND)
        status = secret_make(plan->dir, path, plan->secret, &error);
    plan->has_secret = status == CAIRN_OK;
    if (status != CAIRN_OK)
        cairn_log_error(log, CAIRN_LOG_LEVEL_WARN, "disk", &error);
    /* None is there and none can be written now: the cache writes it when it can. */
    cairn_io_stat there;
    if (status != CAIRN_OK && cairn_io_stat_path(cairn_io_posix(), path, &there, NULL) == CAIRN_NOTFOUND)
        plan->has_secret = getrandom(plan->secret, CAIRN_DISK_PLAN_KEY, 0) == CAIRN_DISK_PLAN_KEY;
    struct stat facts;
    if (stat(plan->dir, &facts) == 0 && (facts.st_mode & 077) != 0) {
        CAIRN_LOG(log, WARN, "disk",
                  CAIRN_FIELD_STR("message", "others can look into the cache's directory: chmod 700"),
                  CAIRN_FIELD_STR("dir", plan->dir));
    }
}

const char *cairn_disk_plan_text(const cairn_disk_plan *plan, char *text, size_t room)
{
    char size[CAIRN_UNITS_TEXT], daily[CAIRN_UNITS_TEXT];
    if (!plan->on)
        return "off";
    cairn_units_print_bytes(plan->bytes_max, size);
    cairn_units_print_bytes(plan->daily_bytes, daily);
    (void)snprintf(text, room, "%.3000s, up to %s, at most %s written a day%s", plan->dir, size, daily,
                   plan->encrypted ? ", encrypted" : "");
    return text;
}
