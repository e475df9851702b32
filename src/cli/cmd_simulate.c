/*
 * simulate - replays traffic under several caching rules: sim/simulate.h is the command itself.
 */
#include <stdio.h>

#include "cli/commands.h"
#include "sim/simulate.h"

int cairn_cmd_simulate(int argc, const char **argv)
{
    return cairn_simulate_main(argc, (char *const *)argv, stdout, stderr);
}
