/*
 * shared_plan - which store is shared with other servers, with which key, and the secret that makes the namespaces of all
 * of them the same.
 *
 *   --cache-shared URL         redis://, http(s)://, s3://, file://
 *   --cache-shared-key FILE    the secret; else it follows from --cache-key, else file://DIR/namespace.key
 *   AWS_ACCESS_KEY_ID, ...     s3:// only
 *
 * Owner    the plan is the caller's; texts are borrowed from the settings and the environment
 * Thread   the main thread
 * See      docs/guide-operators.md
 */
#ifndef CAIRN_CLI_SHARED_PLAN_H
#define CAIRN_CLI_SHARED_PLAN_H

#include "cli/disk_plan.h"
#include "cli/serve_settings.h"

typedef struct cairn_shared_plan {
    bool on;
    cairn_cache_shared shared;           /* for the cache; its key is the plan's                        */
    uint8_t key[CAIRN_DISK_PLAN_KEY];    /* of --cache-key                                              */
    uint8_t secret[CAIRN_DISK_PLAN_KEY]; /* of the namespaces                                           */
} cairn_shared_plan;

/* Work out the plan. Gives 0, or the exit code after a mistake was told on stderr. */
int cairn_shared_plan_read(const cairn_serve_settings *settings, cairn_log *log, cairn_shared_plan *ret_plan);

/* "redis://host:6379, kept for 24 h, encrypted" or "off". Never a password. */
const char *cairn_shared_plan_text(const cairn_shared_plan *plan, char *text, size_t room);

#endif
