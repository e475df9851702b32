/*
 * shared_support - two servers and one store, for the tests of the cache's side of a shared store.
 *
 * The store is a real one, which the tests start, freeze, fill, empty and kill.
 */
#ifndef CAIRN_TESTS_SHARED_SUPPORT_H
#define CAIRN_TESTS_SHARED_SUPPORT_H

#include "cache/sharer_internal.h"
#include "cache_support.h"
#include "store/server_support.h"

#define SECOND_NS UINT64_C(1000000000)

/* One server. */
typedef struct shared_world {
    world w;
    cairn_cache_shared shared;
    char url[256];
} shared_world;

/* Usual settings over a redis-server; change them before shared_open. */
void shared_init(shared_world *s, const server *store);
/* Open it; fails the test when the sharer could not be made. */
void shared_open(shared_world *s);
/* What the cache counted of its store. */
cairn_cache_shared_stats shared_stats(const shared_world *s);
/* Until all that it holds is in the store. */
void shared_send_all(shared_world *s);
/* Wait until the receivers have nothing in hand. */
void shared_asks_end(shared_world *s);

/* Two servers over one store; b has read nothing. */
typedef struct pair {
    server store;
    shared_world a, b;
    talk t;
    uint32_t read; /* prompt tokens that a read */
} pair;

/* Start a redis-server (`more`: further arguments) and give both the usual settings; change them before pair_open. */
void pair_init(pair *p, const char *const *more);
void pair_open(pair *p);
/* a reads a conversation, and all of it is sent. */
void pair_talk(pair *p, cairn_resume_mode mode);
/* All three, with nothing changed. */
void pair_start(pair *p, cairn_resume_mode mode);
/* Close both and the store. */
void pair_close(pair *p);
/* b asks after something happened to the store: the answer is the cold one. Gives its source. */
cairn_source pair_other_asks(pair *p, outcome *o);

#endif
