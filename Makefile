# The few commands that need remembering. Everything but `make tidy` is built with the release profile, so that
# dependencies are built once; `.ci/run` uses the same targets.

CARGO ?= cargo
# `make test` tests properties on the same random cases every time, so that the same code passes or fails again;
# `make properties` looks further, with new ones.
SEED ?= 1
# How many cases `make properties` tries of each.
CASES ?= 5000
# How long `make soak` goes on, and `make fuzz` lets each target run; `make nightly` gives them five minutes.
SECONDS ?= 60
# The toolchain that cargo-fuzz needs.
NIGHTLY ?= nightly
# `make tidy SHRINK=1` takes exceptions out that are no longer needed.
SHRINK ?=

FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

.PHONY: help build run-times dist tidy test properties soak python pictures lint wasm doc docs reference bench fuzz differential dependencies sbom ci nightly

help:
	@echo 'make build    the mmtwin command: target/release/mmtwin'
	@echo 'make dist     what is installed, in target/dist-files: archives, .deb packages, a wheel, symbols; downloads cargo-zigbuild and zig'
	@echo 'make tidy     the rules of the house, in seconds; SHRINK=1 takes exceptions out that are no longer needed'
	@echo 'make test     all tests, the rules of the house first'
	@echo 'make properties  all tests, properties on CASES=$(CASES) new random cases each'
	@echo 'make soak     random simulations with new seeds, each for SECONDS=$(SECONDS) seconds, overflows and assertions checked'
	@echo 'make python   the Python package, its tests and the notebooks, in target/python; downloads Ray, Optuna, polars, Altair'
	@echo 'make pictures tests of what draws .svg and .png, which an ordinary build does not have'
	@echo 'make lint     rustfmt and clippy, warnings are errors'
	@echo 'make wasm     machine and mm for wasm32-unknown-unknown'
	@echo 'make doc      API documentation, warnings are errors'
	@echo 'make docs     checks the pages in docs/ and builds the book, in target/book; installs mdbook where it is missing'
	@echo 'make run-times  measures how long a run of each built-in scenario takes, for `mmtwin list scenarios`; half an hour'
	@echo 'make reference  writes names.md, bounds.md and dates.md of docs/src/reference and schemas/ from the code'
	@echo 'make bench    benchmarks'
	@echo 'make fuzz     every fuzz target for SECONDS=$(SECONDS) seconds; needs cargo-fuzz and a nightly toolchain'
	@echo 'make differential  policies against the C of kernels in MMTWIN_KERNEL_SOURCES=DIR[:DIR], a million states a function'
	@echo 'make dependencies  licences, bans, sources and advisories of what others wrote, and whether it is used'
	@echo 'make sbom     what the command is made of, as CycloneDX: target/mmtwin.cdx.json'
	@echo 'make ci       everything that has to pass: .ci/run'
	@echo 'make nightly  what takes too long for that: .ci/nightly'

build:
	$(CARGO) build --release -p mmtwin

run-times: build
	python3 crates/cli/src/list/seconds.py $${CARGO_TARGET_DIR:-target}/release/mmtwin

dist:
	packaging/build

# Built by itself and without optimisation, it says what is wrong before anything else is built.
tidy:
	@.ci/prepare test
	$(if $(SHRINK),MMTWIN_SHRINK_EXCEPTIONS=1 )$(CARGO) test -q -p tidy

test: tidy
	PROPTEST_RNG_SEED=$(SEED) $(CARGO) test --release --workspace --exclude tidy

properties:
	PROPTEST_CASES=$(CASES) $(CARGO) test --release --workspace --exclude tidy --no-fail-fast

soak:
	SOAK_SECONDS=$(SECONDS) $(CARGO) test -p mm -p lab -p mmtwin --no-fail-fast --test all_mechanisms --test random_hosts --test command_fuzz -- --nocapture

python:
	python3 -m venv target/python
	target/python/bin/pip install -q '.[ray,test]'
	target/python/bin/python -m pytest -q

# All crates are named, so that what was built for `make test` need not be built again.
pictures:
	$(CARGO) test --release --workspace --exclude tidy --features mmtwin/pictures --test pictures

lint:
	@.ci/prepare lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --all-targets --features mmtwin/pictures -- -D warnings
	$(CARGO) clippy --release --manifest-path fuzz/Cargo.toml --target-dir target -- -D warnings

wasm:
	@.ci/prepare wasm
	$(CARGO) build --release -p machine -p mm --target wasm32-unknown-unknown

doc:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --release --workspace --no-deps

docs:
	@.ci/prepare docs
	docs/check
	mdbook build docs

reference:
	MMTWIN_WRITE_REFERENCE=1 $(CARGO) test --release -p lab --test reference_page
	MMTWIN_WRITE_REFERENCE=1 $(CARGO) test --release -p mmtwin schemas_are_those_of_the_types

bench:
	$(CARGO) bench -p machine -p mm -p lab

fuzz:
	@.ci/prepare fuzz
	@failed=; for target in $(FUZZ_TARGETS); do \
		echo "== fuzz $$target for $(SECONDS) s"; \
		fuzz/run $(NIGHTLY) $$target $(SECONDS) || failed="$$failed $$target"; \
	done; \
	if [ -n "$$failed" ]; then echo "== failed:$$failed"; exit 1; fi

differential:
	MMTWIN_STATES=1000000 MMTWIN_COVERAGE=1 $(CARGO) test --release -p kernel_tree --test differential -- --nocapture

# The advisories' database comes over the network; without it everything else is checked.
dependencies:
	@.ci/prepare dependencies
	$(CARGO) deny --locked check licenses bans sources
	@if $(CARGO) deny fetch db; then $(CARGO) deny --locked check --disable-fetch advisories; \
	else echo 'skipped: advisories, as their database cannot be fetched'; fi
	$(CARGO) machete

sbom:
	@.ci/prepare sbom
	@mkdir -p target
	$(CARGO) sbom --cargo-package mmtwin --output-format cyclone_dx_json_1_6 >target/mmtwin.cdx.json

ci:
	.ci/run

nightly:
	.ci/nightly
