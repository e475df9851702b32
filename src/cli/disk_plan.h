/*
 * disk_plan - where the disk tier's directory is, how much it may take, its key, and the secret of its namespaces.
 *
 *   --cache-disk DIR[:SIZE]   else $XDG_CACHE_HOME/cairn, else $HOME/.cache/cairn, else off
 *   DIR/namespace.key         32 random bytes, made once: a namespace is the same after a restart
 *
 * Units    bytes
 * Owner    the plan is the caller's; it owns nothing
 * Thread   the main thread
 * See      docs/guide-operators.md
 */
#ifndef CAIRN_CLI_DISK_PLAN_H
#define CAIRN_CLI_DISK_PLAN_H

#include "base/log.h"
#include "cairn/cairn.h"

enum { CAIRN_DISK_PLAN_DIR = 4096, CAIRN_DISK_PLAN_KEY = 32 };

typedef struct cairn_disk_plan {
    bool on;
    const char *off_why; /* for people, when it is off and nobody asked for that; else NULL              */
    char dir[CAIRN_DISK_PLAN_DIR];
    uint64_t bytes_max, daily_bytes;
    bool encrypted, has_secret;
    uint8_t key[CAIRN_DISK_PLAN_KEY];    /* of --cache-key                                              */
    uint8_t secret[CAIRN_DISK_PLAN_KEY]; /* of the namespaces                                           */
} cairn_disk_plan;

/*
 * Work out the plan from what was given.
 *
 *   spec      [in]  "DIR" or "DIR:SIZE"; NULL: the user's cache directory
 *   key_file  [in]  NULL: nothing is encrypted
 *   daily     [in]  bytes that may be written in a day; 0: five times the size, at least 64 GiB
 *
 * Gives    0, or the exit code after a mistake was told on stderr: 2 for the spec, 1 for a file
 */
int cairn_disk_plan_read(const char *spec, const char *key_file, uint64_t daily, cairn_log *log,
                         cairn_disk_plan *ret_plan);

/*
 * Read a key of --cache-key: 32 bytes, or 64 hexadecimal digits.
 *
 *   option  [in]  what it was given with, for messages
 *   log     [in]  where it is said that others can read the file; NULL: nowhere
 *
 * Gives    0, or 1 after the mistake was told on stderr
 */
int cairn_disk_plan_key(const char *file, const char *option, cairn_log *log,
                        uint8_t ret_key[CAIRN_DISK_PLAN_KEY]);

/* Read DIR/namespace.key. Errors: CAIRN_NOTFOUND, CAIRN_CORRUPT, CAIRN_IO. */
CAIRN_MUST_CHECK cairn_status cairn_disk_plan_secret_load(const char *dir,
                                                          uint8_t ret_secret[CAIRN_DISK_PLAN_KEY],
                                                          cairn_error *reterr);

/*
 * Make the directory, and find or make the secret of its namespaces. What can't be done is said in the log, once; the
 * server then goes on with a secret of its own, and later runs won't find what this one kept.
 */
void cairn_disk_plan_secret(cairn_disk_plan *plan, cairn_log *log);

/* "DIR, up to 20 GiB, 100 GiB a day" or "off". */
const char *cairn_disk_plan_text(const cairn_disk_plan *plan, char *text, size_t room);

#endif
