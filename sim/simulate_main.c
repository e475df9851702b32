/*
 * simulate_main - the command as a program of its own, for the tests of this folder.
 */
#include "simulate.h"

int main(int argc, char **argv)
{
    return cairn_simulate_main(argc, argv, stdout, stderr);
}
