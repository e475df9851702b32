/*
 * generate_more - scenarios that need a file of their own. For generate.c only.
 */
#ifndef CAIRN_SIM_GENERATE_MORE_H
#define CAIRN_SIM_GENERATE_MORE_H

#include "workload.h"

/* 1,000 sessions that start at a steady rate: chats, agents that drop their reasoning, five-observations agents. */
cairn_status cairn_generate_fleet(cairn_workload *w, uint64_t seed, cairn_error *reterr);

#endif
