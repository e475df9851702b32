# The verbs. `make` alone lists them. What they do is in CMakePresets.json and tools/.
#
#   make demo MODEL=file.gguf      with your own model
#   make run  MODEL=file.gguf PORT=8080 ARGS='--slots 2'
#   make run  GPU=vulkan           on a GPU, with libllama's back end of that kind from npm (or GPU=cuda)
#   make test TESTS=core           only tests whose names match

MODEL ?=
PORT ?= 8080
GPU ?=
TESTS ?=
ARGS ?=
DURATION ?= 600
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CAIRN_LLAMA ?= $(if $(filter x86_64,$(shell uname -m)),npm,source)
# What it finds is not said each time; what is wrong goes to standard error.
CONFIGURE = cmake -DCAIRN_LLAMA=$(CAIRN_LLAMA) --log-level=WARNING
SELECT = $(if $(TESTS),-R '$(TESTS)')
ON_GPU = $(if $(GPU),dir=$$(tools/gpu $(GPU)) && export CAIRN_LLAMA_LIB_DIR="$$dir" &&)

export MODEL PORT

.DEFAULT_GOAL := help
.PHONY: help architectures setup setup-build build build-release demo run verify test bench bench-peers bench-shared results test-asan test-tsan test-agents load test-fresh test-deb install uninstall deb reference format format-check tidy clean screenshots

help:
	@echo 'Try it'
	@echo '  make demo          build, and show the main job end to end (MODEL=file.gguf for your own model)'
	@echo '  make run           build, start the server and leave it running (MODEL=file.gguf, PORT=8080)'
	@echo '  make verify        does resuming give what reading would, on this machine, with this model? (MODEL=file.gguf)'
	@echo '                     each of them: GPU=vulkan or GPU=cuda'
	@echo '  make install       program, library, man pages, completions (PREFIX=/usr/local, DESTDIR=); make uninstall'
	@echo '  make deb           Debian packages into build/deb'
	@echo 'Work on it'
	@echo '  make build         build for work and tests into build/dev'
	@echo '  make test          build, and run all tests (TESTS=name for some)'
	@echo '  make format tidy   apply clang-format-14, run clang-tidy-14'
	@echo '  make reference     make docs/reference, docs/comparison.md and the figures in README.md anew'
	@echo '  make screenshots   pictures of the page into docs/images (needs chromium)'
	@echo '  make setup         install what building and testing need, by apt-get and npm (the others do so, too)'
	@echo '  make clean         remove build/ (the npm packages stay)'
	@echo 'Measure it'
	@echo '  make bench         what the cache costs and saves (MODEL=file.gguf; BIG=0.8b for the large synthetic model, too)'
	@echo '  make bench-peers   beside llama-server, built once from the same source (ARGS=--quick: two minutes)'
	@echo '  make bench-shared  two servers and one store (MODEL=0.8b; needs redis-server)'
	@echo '  make results       replay all traffic in the simulator, into docs/results/policies.md'
	@echo '  make architectures run a model of every architecture, into docs/results/architectures.md'
	@echo 'Test more'
	@echo '  make test-asan     all tests with the address and undefined behaviour sanitizers; make test-tsan: threads'
	@echo '  make test-agents   real coding agents from npm against the server (1 GB to install, minutes)'
	@echo '  make load          mixed traffic of 8 clients for DURATION=600 seconds'
	@echo '  make test-fresh    demo and test in a Debian 12 made for it (needs root and debootstrap); make test-deb: packages'

setup:
	@tools/setup tests

setup-build:
	@tools/setup

build: setup
	@[ -d build/dev ] || echo 'building for the first time; that takes some minutes'
	@$(CONFIGURE) --preset dev >/dev/null
	@cmake --build --preset dev -j $(JOBS)

build-release: setup-build
	@[ -d build/release ] || echo 'building for the first time; that takes some minutes'
	@$(CONFIGURE) -DBUILD_TESTING=OFF --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

# Nothing is fetched or built as root when `make build-release` was run before.
install:
	@if [ ! -x build/release/bin/cairn ]; then $(MAKE) --no-print-directory build-release; fi
	@$(CONFIGURE) -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX='$(PREFIX)' --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@tools/install build/release '$(PREFIX)' '$(DESTDIR)'

uninstall:
	@tools/uninstall '$(PREFIX)' '$(DESTDIR)'

deb: setup-build
	@$(CONFIGURE) -DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=/usr --preset release
	@cmake --build --preset release -j $(JOBS)
	@cd build/release && cpack -G DEB -B ../deb | grep -v '^CPack: -'
	@ls -l build/deb/*.deb

test-deb: deb
	@tools/test-deb

demo: build-release
	@$(ON_GPU) tools/demo

run: build-release
	@$(ON_GPU) tools/run $(ARGS)

verify: build-release
	@$(ON_GPU) tools/verify $(ARGS)

test: build
	@ctest --test-dir build/dev --output-on-failure -j 2 $(SELECT)

test-agents: build
	@TESTS='$(TESTS)' tools/test-agents

load: build
	@mkdir -p build/dev/load && build/dev/bin/cairn model synth -o build/dev/load/model.gguf >/dev/null
	@CAIRN_TEST_PROGRAM=$(CURDIR)/build/dev/bin/cairn CAIRN_TEST_MODEL=$(CURDIR)/build/dev/load/model.gguf \
		DURATION=$(DURATION) node tests/load/load.mjs

results: build
	@build/dev/bin/cairn simulate traces/*.jsonl.zst --scenario all --report docs/results

architectures: build-release
	@tools/architectures

bench: build-release
	@$(ON_GPU) tools/bench $(ARGS)

bench-peers: build-release
	@tools/bench-peers $(ARGS)

bench-shared: build-release
	@tools/bench-shared $(ARGS)

# What is made: docs/reference from the headers and from --help, docs/comparison.md and README.md's table from docs/results.
reference: build
	@tools/api-docs docs/reference
	@tools/command-docs build/dev/bin/cairn --reference docs/reference/commands.md
	@tools/comparison docs/comparison.md README.md

screenshots: build
	@build/dev/bin/cairn model synth -o build/dev/web/model.gguf >/dev/null
	@CAIRN_WEB_TESTS=1 CAIRN_TEST_PROGRAM=$(CURDIR)/build/dev/bin/cairn CAIRN_TEST_MODEL=$(CURDIR)/build/dev/web/model.gguf \
		node tests/web/screenshots.mjs docs/images

test-asan: setup
	@$(CONFIGURE) --preset asan
	@cmake --build --preset asan -j $(JOBS)
	@ctest --test-dir build/asan --output-on-failure -j 2 $(SELECT)

test-tsan: setup
	@$(CONFIGURE) --preset tsan
	@cmake --build --preset tsan -j $(JOBS)
	@TSAN_OPTIONS=suppressions=$(CURDIR)/tools/tsan.supp:ignore_noninstrumented_modules=1 ctest --test-dir build/tsan --output-on-failure -j 2 $(SELECT)

test-fresh:
	@tools/test-fresh

format format-check tidy: build
	@cmake --build --preset dev --target $@

clean:
	rm -rf build
