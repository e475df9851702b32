/*
 * routes - which path and method lead where, and what is said when they lead nowhere.
 *
 * Thread   any; a constant table
 */
#ifndef CAIRN_ROUTES_H
#define CAIRN_ROUTES_H

#include "serve/serve_inside.h"

typedef struct cairn_route {
    const char *method; /* "GET" answers HEAD, too                                                  */
    const char *path;   /* one that ends in a star takes one further name                         */
    cairn_route_fn fn;
    bool open; /* needs no API key                                                                  */
} cairn_route;

/* The route of a request; NULL with a 404, or a 405 that lists the methods. A slash at the end is forgiven; HEAD of
 * a path without GET only says that it exists. */
const cairn_route *cairn_routes_find(const char *method, const char *path, cairn_api_error *error);

#endif
