/*
 * shared_plan - see the header.
 */
#include "cli/shared_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/term.h"
#include "store/shared_url.h"

static const char secret_label[] = "cairn: namespaces of a shared store";

/* A variable that is set and not empty; NULL: it isn't. */
static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* Everybody who uses the store must come to the same secret. */
static int secret_read(const cairn_serve_settings *s, const cairn_shared_url *url, cairn_log *log,
                       cairn_shared_plan *plan)
{
    cairn_digest digest;
    if (s->cache_shared_key != NULL)
        return cairn_disk_plan_key(s->cache_shared_key, "--cache-shared-key", log, plan->secret);
    if (s->cache_key != NULL) {
        if (cairn_digest_keyed(plan->key, sizeof plan->key, secret_label, sizeof secret_label - 1, &digest) !=
            CAIRN_OK) {
            cairn_term_fail("the shared store's secret can't be made", NULL, NULL);
            return 1;
        }
        memcpy(plan->secret, digest.bytes, sizeof plan->secret);
        return 0;
    }
    if (url->scheme == CAIRN_SHARED_FILE) {
        cairn_disk_plan dir = {.on = true};
        (void)snprintf(dir.dir, sizeof dir.dir, "%s", url->path);
        cairn_disk_plan_secret(&dir, log);
        memcpy(plan->secret, dir.secret, sizeof plan->secret);
        if (dir.has_secret)
            return 0;
        cairn_term_fail("the shared directory has no namespace.key, and none can be made there", NULL,
                        "Let the server write there, or give --cache-shared-key FILE.");
        return 1;
    }
    cairn_term_fail(
        "a shared store needs a secret that all of its servers have", NULL,
        "openssl rand -hex 32 > FILE once, then --cache-shared-key FILE on each; or --cache-key FILE, "
        "which also encrypts.");
    return 2;
}

int cairn_shared_plan_read(const cairn_serve_settings *s, cairn_log *log, cairn_shared_plan *plan)
{
    cairn_shared_url url;
    cairn_error error = {0};
    memset(plan, 0, sizeof *plan);
    if (s->cache_shared == NULL || s->cache_shared[0] == '\0' || s->no_cache)
        return 0;
    if (cairn_shared_url_parse(s->cache_shared, &url, &error) != CAIRN_OK) {
        char problem[256];
        (void)snprintf(problem, sizeof problem, "--cache-shared: %.200s", error.detail);
        return cairn_term_usage("serve", problem);
    }
    int code = s->cache_key != NULL ? cairn_disk_plan_key(s->cache_key, "--cache-key", NULL, plan->key) : 0;
    if (code == 0)
        code = secret_read(s, &url, log, plan);
    plan->shared = (cairn_cache_shared){.url = s->cache_shared,
                                        .key = s->cache_key != NULL ? plan->key : NULL,
                                        .ttl_s = (uint32_t)s->cache_shared_ttl,
                                        .deadline_ns = (uint64_t)s->cache_shared_deadline * 1000000u,
                                        .bytes_max = s->cache_shared_max,
                                        .s3_id = variable("AWS_ACCESS_KEY_ID"),
                                        .s3_secret = variable("AWS_SECRET_ACCESS_KEY"),
                                        .s3_token = variable("AWS_SESSION_TOKEN"),
                                        .s3_region = variable("AWS_REGION")};
    if (plan->shared.s3_region == NULL)
        plan->shared.s3_region = variable("AWS_DEFAULT_REGION");
    plan->on = code == 0;
    return code;
}

const char *cairn_shared_plan_text(const cairn_shared_plan *plan, char *text, size_t room)
{
    char shown[CAIRN_SHARED_URL_BYTES];
    if (!plan->on)
        return "off";
    uint32_t ttl = plan->shared.ttl_s;
    bool hours = ttl % 3600 == 0;
    (void)snprintf(text, room, "%s, kept for %u %s%s",
                   cairn_shared_url_show(plan->shared.url, shown, sizeof shown), hours ? ttl / 3600 : ttl,
                   hours ? "h" : "s", plan->shared.key != NULL ? ", encrypted" : "");
    return text;
}
