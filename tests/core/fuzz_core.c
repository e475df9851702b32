/*
 * fuzz_core - event streams chosen by the fuzzer: whatever happens in whatever order, the promises hold.
 *
 * fuzz_core_planted is the same with a fault in the world that it plays in (FUZZ_PLANTED): it must be found, by the fuzzer
 * within seconds and in the replay of the corpus, or nothing that fuzz_core doesn't find means anything.
 */
#include "core_play.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    core_totals totals = {0};
#ifdef FUZZ_PLANTED
    driver_planted_fault = true;
#endif
    if (size > 0 && size <= 4096) {
        (void)core_play_bytes(data, size, &totals);
    }
    return 0;
}
