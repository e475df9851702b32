/*
 * commands - the program's commands: each reads its own options and gives the exit code.
 *
 *   0  done      1  it did not work (why is on stderr)      2  it was called wrongly
 */
#ifndef CAIRN_CLI_COMMANDS_H
#define CAIRN_CLI_COMMANDS_H

/* argv[0] is the command's own name. */
int cairn_cmd_serve(int argc, const char **argv);
int cairn_cmd_verify(int argc, const char **argv);
int cairn_cmd_model(int argc, const char **argv);
int cairn_cmd_store(int argc, const char **argv);
int cairn_cmd_simulate(int argc, const char **argv);
int cairn_cmd_explain(int argc, const char **argv);
int cairn_cmd_top(int argc, const char **argv);
int cairn_cmd_version(int argc, const char **argv);

#endif
