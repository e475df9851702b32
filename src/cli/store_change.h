/*
 * store_change - the parts of `cairn store` that check every byte or remove files; and what was asked for.
 *
 * Thread   the main thread
 */
#ifndef CAIRN_CLI_STORE_CHANGE_H
#define CAIRN_CLI_STORE_CHANGE_H

#include "cli/store_list.h"

typedef struct cairn_store_ask {
    const char *const *names; /* char *[count_names]: the first digits of names                         */
    size_t count_names;
    const char *space, *salt, *api_key_file, *key_file;
    uint64_t bytes_max; /* gc; 0: no limit                                                               */
    uint64_t older_s;   /* gc; 0: no limit                                                               */
    bool json, all, dry_run;
    uint8_t key_bytes[32]; /* filled by complete, with what follows                                     */
    const uint8_t *key;    /* NULL: none was given                                                      */
    char space_hex[33];    /* first digits of the namespace that is asked for; "": all                  */
} cairn_store_ask;

/* Read the key, find the namespace of a salt or an API key. Gives 0, or the exit code after it was told why. */
int cairn_store_ask_complete(const char *dir, cairn_store_ask *ask);

/* Is the item in the namespace that is asked for? One with a damaged header is in none. */
bool cairn_store_in_space(const cairn_store_item *item, const cairn_store_ask *ask);

/* The one file whose name begins so; NULL after it was told on stderr that there is none or more than one. */
const cairn_store_item *cairn_store_find(const cairn_store_list *list, const char *digits);

/* The commands; each gives the exit code. */
int cairn_store_verify(const cairn_store_list *list, const cairn_store_ask *ask);
int cairn_store_gc(const cairn_store_list *list, const cairn_store_ask *ask);
int cairn_store_rm(const cairn_store_list *list, const cairn_store_ask *ask);

#endif
