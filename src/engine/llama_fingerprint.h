/*
 * llama_fingerprint - the digest of everything that a slot's bytes depend on.
 *
 * SHA-256 over, in this order, each with its length in front:
 *   the format's version; cairn's name for the libllama build and libllama's own; the back ends with their devices and
 *   the CPU features in use; the model file (of several parts: each): size, everything before the tensor data
 *   (metadata, vocabulary, names, shapes and types of tensors), and 1 MiB of tensor data at each of eight places
 *   spread evenly; K/V types, flash attention, batch sizes, window mode, context length, and how states are split.
 *
 * Not all weights are read: a model of 20 GB would take 10 s at every start. Two files that differ only between the
 * places, with equal metadata, would be taken for one; requantized or finetuned files differ everywhere.
 *
 * Thread   any
 * Test     tests/engine/test_engine_llama.c
 */
#ifndef CAIRN_ENGINE_LLAMA_FINGERPRINT_H
#define CAIRN_ENGINE_LLAMA_FINGERPRINT_H

#include "cairn/engine.h"

struct llama_engine;

/*
 * After    CAIRN_OK: info.fingerprint is set.
 * Errors   CAIRN_IO, CAIRN_NOTFOUND, CAIRN_CORRUPT (the model file), CAIRN_NOMEM
 * Cost     reads at most 8 MiB and the metadata of each part
 */
CAIRN_MUST_CHECK cairn_status cairn_llama_fingerprint(struct llama_engine *e, cairn_error *reterr);

#endif
