/*
 * fuzz_core - event streams chosen by the fuzzer: whatever happens in whatever order, the promises hold.
 */
#include "core_play.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    core_totals totals = {0};
    if (size > 0 && size <= 4096) {
        (void)core_play_bytes(data, size, &totals);
    }
    return 0;
}
