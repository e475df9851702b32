/*
 * work_blocks - the program's operator new[]: large blocks begin on a cache line.
 *
 * ggml's kernels work in a buffer that ggml-cpu takes with new[], and malloc gives a block of that size 16 bytes after a
 * page's beginning, so that every vector load of the kernels straddles two cache lines. There is no call to give ggml a buffer of
 * one's own. On a line of its own the same work takes 5 % less time (docs/decisions/0014-work-blocks.md).
 *
 * This file is part of programs, never of a library: who embeds libcairn chooses for the whole process, and can compile
 * it in. libggml-cpu is loaded at run time and binds to the program's operator because the program exports it
 * (tests/e2e/cli.test.mjs sees that it does).
 *
 * Threads: any. Errors: std::bad_alloc, or nullptr where asked for. Cost: as malloc. Source: our own.
 */
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace
{

constexpr std::size_t LINE_BYTES = 64;
constexpr std::size_t LARGE_BYTES = 32 * 1024; /* from here on: smaller blocks are not worth the rounding */

void *take(std::size_t n_bytes) noexcept
{
    if (n_bytes < LARGE_BYTES || n_bytes > SIZE_MAX - LINE_BYTES)
        return std::malloc(n_bytes > 0 ? n_bytes : 1);
    return std::aligned_alloc(LINE_BYTES, (n_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES);
}

} // namespace

void *operator new[](std::size_t n_bytes)
{
    void *block = take(n_bytes);
    if (block == nullptr)
        throw std::bad_alloc();
    return block;
}

void *operator new[](std::size_t n_bytes, const std::nothrow_t &) noexcept
{
    return take(n_bytes);
}

void operator delete[](void *block) noexcept
{
    std::free(block);
}

void operator delete[](void *block, std::size_t) noexcept
{
    std::free(block);
}

void operator delete[](void *block, const std::nothrow_t &) noexcept
{
    std::free(block);
}
