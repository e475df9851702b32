/*
 * machine - asks the system, and the control group's files when there are any (Linux, versions 2 and 1).
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The number in a one-line file; UINT64_MAX when there is none ("max") or no file. */
static uint64_t read_limit(const char *path)
{
    uint64_t limit = UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return limit;
    }
    char line[64];
    if (fgets(line, sizeof line, file) != NULL && line[0] >= '0' && line[0] <= '9') {
        limit = strtoull(line, NULL, 10);
    }
    (void)fclose(file);
    return limit;
}

uint64_t cairn_machine_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) {
        return 0;
    }
    uint64_t bytes = (uint64_t)pages * (uint64_t)page_bytes;
    static const char *const limits[] = {"/sys/fs/cgroup/memory.max",
                                         "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        uint64_t limit = read_limit(limits[i]);
        bytes = limit < bytes ? limit : bytes;
    }
    return bytes;
}

unsigned cairn_machine_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int count = CPU_COUNT(&set);
        return count > 0 ? (unsigned)count : 1;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

bool cairn_machine_beside(const char *relative, char *out, size_t room)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) {
        return false;
    }
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    if (slash == NULL) {
        return false;
    }
    *slash = '\0';
    int written = snprintf(out, room, "%s/%s", program, relative);
    struct stat st;
    return written > 0 && (size_t)written < room && stat(out, &st) == 0 && S_ISDIR(st.st_mode);
}
