# Everything a developer does, by name. `make help` lists it.
# Both `make bench` and `make test` set up what they need in .venv/ and .build/, once.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
BIN := .venv/bin
export VIRTUAL_ENV := $(CURDIR)/.venv
# Panic messages hold the paths of sources: a wheel must not tell where it was built. Only there, since flags that name a
# checkout keep what was built from serving in another one.
REMAP := --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo --remap-path-prefix=$(CURDIR)=/spillway
# A stray activation or a user's own settings must not decide what is built, nor that each of the many processes of the
# tests compiles anew what it imports.
unexport PYTHONPATH PYTHONHOME CONDA_PREFIX PYTHONDONTWRITEBYTECODE

# The versions of Spark that are supported. Every run of the tests has the one that is quickest to install beside the locked
# one, a soak has all of them.
SPARKS := 3.5 4.0 4.1 4.2 4.3

RUST_SOURCES := Cargo.toml Cargo.lock rust-toolchain.toml $(shell find rust -name '*.rs' -o -name Cargo.toml)
BENCH_OPTIONS ?=
RACE_OPTIONS ?=
DIST ?= dist

.PHONY: help bench targets race test test-quick peers soak lint check check-compiled advisories instructions fuzz format wheel dist import-wheel rehearse sbom releasable publish readme docs lock setup setup-tests compile-tests test-rust test-python clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

bench: .build/release-module ## Measure every Parquet writer, check the output with Spark, write table and figures to runs/
	$(BIN)/spillway bench --out runs $(BENCH_OPTIONS)

targets: .build/release-module ## Measure what the targets are about (some 40 minutes), and say how far each is met
	$(BIN)/python scripts/targets.py measure runs/targets

race: .build/release-module ## Race writers that append to one Delta table or change it (15 minutes), and say which targets are met
	$(BIN)/spillway race --targets --out runs/race $(RACE_OPTIONS)

# Processes of pytest. The groups in tests/conftest.py say which tests never run side by side.
JOBS ?= 3
# Threads of each program of cargo's tests: those of tables wait for the disk more than they compute.
export RUST_TEST_THREADS ?= 4
# The same commit draws the same examples in continuous integration: what failed there fails here, by CI=true make test.
ifdef CI
SEED := $(shell printf '%d' 0x$$(git rev-parse HEAD | cut -c1-8))
export PROPTEST_RNG_SEED := $(SEED)
# Of the 256 that it has by itself: Python's properties drive the same code with fewer, and a soak has thousands.
export PROPTEST_CASES ?= 128
endif
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist loadscope $(if $(SEED),--hypothesis-seed=$(SEED))
# The tests, and the suite of bench/, of which each does its work once.
EVERYTHING = --benchmark-disable $(if $(filter soak,$(SPILLWAY_TESTS)),,--ignore=bench/test_spark.py) bench tests

# Compiled ahead, side by side, where a whole run is in a hurry.
compile-tests: setup
	cargo test --locked --workspace --no-run

test: test-rust test-python ## Run every test, at counts that fit continuous integration

test-rust: setup
	cargo test --locked --workspace

test-python: setup setup-tests
	$(PYTEST) --durations=30 --junitxml=.build/tests.xml $(EVERYTHING)

test-quick: export SPILLWAY_TESTS := quick
test-quick: export PROPTEST_CASES := 32
test-quick: setup ## Run most tests, a few examples each: no Spark, no S3, no wheel
	cargo test --locked --workspace -- --quiet
	$(PYTEST) -q -m quick

peers: setup ## Run the Parquet tests that pyarrow ships over this writer, and open the Delta tables that others ship
	$(BIN)/python -m tests.peers
	$(BIN)/python -m tests.peers.delta_tables

# The version of which processes write to tables beside today's, in `make soak`.
EARLIER := 4b2c0f8bf146

soak: export SPILLWAY_TESTS := soak
soak: export PROPTEST_CASES := 10000
# Ten thousand examples take longer than a test of CI may.
soak: export PYTEST_TIMEOUT := 7200
soak: export SPILLWAY_EARLIER_WHEEL := $(CURDIR)/.build/earlier-$(EARLIER).whl
soak: $(SPARKS:%=.build/spark-%) .build/earlier-$(EARLIER).whl .build/fuse .build/minio test fuzz ## Run every test, at the counts of the acceptance lines (hours)

lint: .build/environment ## Format, lints and types of Python: what needs nothing compiled
	cargo fmt --all --check
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@! grep -nE '(https?|ssh)://' requirements/*.txt || { echo "a lock names a registry's address: run make lock" >&2; exit 1; }

check: lint check-compiled ## All lints: those above, clippy, rustdoc, and the stubs against the compiled module

# The settings by which maturin compiles: with others, cargo would compile pyo3 and the module above it anew, and so would
# maturin after that.
AS_MATURIN = PYO3_BUILD_EXTENSION_MODULE=1 \
	$(addprefix PYO3_CONFIG_FILE=,$(shell ls -t target/maturin/pyo3-config-$(shell uname -m)-*.txt 2>/dev/null | head -n 1 | xargs -r realpath))

# Apart from the lints above, which a whole run has first.
check-compiled: setup
	$(AS_MATURIN) cargo clippy --locked --workspace --all-targets -- -D warnings
	$(AS_MATURIN) RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --quiet
	$(BIN)/python -m mypy.stubtest spillway._native --mypy-config-file pyproject.toml

# The address sanitizer and the coverage of libFuzzer are features that a stable compiler has only when it is told to.
FUZZ_SECONDS ?= 600
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
fuzz: export RUSTC_BOOTSTRAP := 1
fuzz: export PATH := $(CURDIR)/.build/cargo-fuzz/bin:$(PATH)
fuzz: .build/cargo-fuzz ## Run every fuzz target for ten minutes (FUZZ_SECONDS=600)
	cargo fuzz build
	for target in $(FUZZ_TARGETS); do \
		cargo fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -max_len=20000 -len_control=0 -malloc_limit_mb=256; \
	done

advisories: .build/audit ## Compare the locks with the databases of advisories; fails where one cannot be reached
	scripts/advisories.sh .build/audit

# Crates that are compiled in pieces take up to 3 % more instructions.
instructions: export CARGO_INCREMENTAL := 0
instructions: setup ## Count the instructions per row; fails where a row costs over 1 % more than on record
	cargo build --locked --workspace --example write_ipc
	$(BIN)/python scripts/instructions.py compare

format: setup ## Rewrite the sources in the house format
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

wheel: export RUSTFLAGS := $(REMAP)
wheel: .build/environment ## Leave a release wheel in dist/
	rm -f $(DIST)/spillway-*.whl
	$(BIN)/maturin build --release --locked --out $(DIST)
	$(BIN)/python scripts/check_wheel.py $(DIST)/spillway-*.whl

# The oldest C library that a published wheel runs on. zig links against it wherever the wheel is built, so that no
# container is needed. `make wheel` has the compiler and the C library of this machine in place of it: it shares what
# `make bench` compiled, and its figures are those of the bench.
MANYLINUX := manylinux_2_17
DIST_TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu

dist: export RUSTFLAGS := $(REMAP)
dist: .build/environment ## Leave what is published in dist/: portable wheels for each architecture and the sdist, checked
	@PYTHON='$(PYTHON)' requirements/prerequisites.sh dist $(DIST_TARGETS)
	rm -rf $(DIST)
	for target in $(DIST_TARGETS); do \
		PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --locked --zig --target $$target \
			--compatibility $(MANYLINUX) --out $(DIST); \
	done
	$(BIN)/maturin sdist --out $(DIST)
	$(BIN)/python scripts/check_wheel.py $(DIST)/*.whl
	$(BIN)/python scripts/check_dist.py $(DIST) --policy $(MANYLINUX)

# The tag of the image is that of the policy above.
import-wheel: ## Write a file with a wheel of dist/ under the oldest C library that it is for (Docker; ARCHITECTURE=x86_64)
	docker run --rm --volume '$(CURDIR):/spillway:ro' --workdir /tmp quay.io/pypa/manylinux2014_$(ARCHITECTURE) \
		bash -euxc '/opt/python/cp311-cp311/bin/python -m venv venv; \
		venv/bin/pip install --no-index /spillway/dist/spillway-*_$(ARCHITECTURE).whl; \
		venv/bin/python /spillway/tests/packaging/write_with_wheel.py'

rehearse: dist ## Install what is published from an index into clean environments of every Python here, and use it there
	$(BIN)/python scripts/rehearse.py $(DIST)

sbom: .build/environment ## List the crates that are compiled into the wheel, in .build/sbom.cdx.json
	$(BIN)/python scripts/sbom.py .build/sbom.cdx.json

# Before anything is built for a release. The owner's account is known where the release workflow of its repository runs.
releasable: ## Check that the version is TAG's, if it is given (TAG=v0.1.0), and that the owner's name is filled in
	@[ -z "$${TAG:-}" ] || [ "$$TAG" = "v$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)" ] || \
		{ echo "the tag $$TAG is not that of the version in Cargo.toml" >&2; exit 1; }
	@! grep -n 'OWNER[./]' pyproject.toml docs/guide/catch-regressions.md || { echo "put the owner's name there first" >&2; exit 1; }

# uv authenticates with the workflow's OIDC identity; no token is stored.
publish: releasable .build/environment ## Upload dist/ to the package index, in the release workflow alone
	$(BIN)/uv publish --trusted-publishing always $(DIST)/spillway-*.whl $(DIST)/spillway-*.tar.gz

readme: setup ## Put the figures of the runs in results/ into the README, write the reports there anew, execute the notebooks
	$(BIN)/python scripts/render.py

# The site shows commands and signatures of the native module, which are the same in each build of it. The module that is
# installed stays; without one, the release module is built.
docs: $(if $(wildcard .build/module),.build/module,.build/release-module) ## Build the site into .build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lock: .build/environment ## Renew the hashed locks of both languages
	cargo update
	cargo update --manifest-path examples/external_backend_rust/Cargo.toml
	for name in uv audit fuse; do \
		$(BIN)/uv pip compile -q -U requirements/$$name.in -o requirements/$$name.txt $(LOCK_OPTIONS); done
	$(BIN)/uv pip compile -q -U --all-extras --group dev pyproject.toml -o requirements/dev.txt \
		--excludes requirements/excludes.in $(LOCK_OPTIONS)
	for version in $(SPARKS); do echo "pyspark==$$version.*" | \
		$(BIN)/uv pip compile -q -U - -o requirements/spark-$$version.txt $(LOCK_OPTIONS); done
LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock"

setup: .build/module

# MinIO is a server that tests of a soak talk to; it is never shipped. To optimise it takes longer than tests could save by
# it, and nobody debugs it. Even so it takes nearly as long as all else that a first run builds.
MINIO := v0.0.0-20260212201848-7aac2a2c5b7c

setup-tests: .build/bytecode .build/spark.jsa .build/spark-$(firstword $(SPARKS)) .build/collected

.build/earlier-$(EARLIER).whl: | .build/environment
	rm -rf .build/earlier
	git worktree add --quiet --force --detach .build/earlier $(EARLIER)
	cd .build/earlier && CARGO_TARGET_DIR=$(CURDIR)/target $(CURDIR)/$(BIN)/maturin build --locked --out wheels
	mv .build/earlier/wheels/spillway-*.whl $@
	git worktree remove --force .build/earlier

clean: ## Remove what was built (not the runs)
	rm -rf .build .venv target dist

# Each stamp is made only by a whole success, so an interrupted set-up resumes.
.build/environment: requirements/uv.txt requirements/dev.txt
	@PYTHON='$(PYTHON)' requirements/prerequisites.sh
	$(BIN)/python -c '' 2>/dev/null || { rm -rf .venv && $(PYTHON) -m venv .venv; }
	$(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install -q --require-hashes -r requirements/uv.txt
	$(BIN)/uv pip sync -q --require-hashes requirements/dev.txt
	@mkdir -p .build && touch $@

.build/cargo-fuzz:
	cargo install --quiet --locked --root $@ --version 0.13.2 cargo-fuzz || { rm -rf $@; exit 1; }

# What audits the locks is in none of the environments that it audits.
.build/audit: requirements/audit.txt | .build/environment
	rm -rf $@
	$(BIN)/uv venv -q --python $(BIN)/python $@
	$(BIN)/uv pip install -q --require-hashes --python $@/bin/python -r $< || { rm -rf $@; exit 1; }
	@touch $@

# One module is in place at a time: the one that tests load, with its debug assertions, or the one that is measured. Each
# takes the other's stamp away; what was compiled for it stays in target/.
.build/module: $(RUST_SOURCES) pyproject.toml .build/environment
	@rm -f .build/release-module
	$(BIN)/maturin develop --locked --uv
	@touch $@

.build/release-module: export RUSTFLAGS := $(REMAP)
.build/release-module: $(RUST_SOURCES) pyproject.toml .build/environment
	@rm -f .build/module
	$(BIN)/maturin develop --release --locked --uv
	@touch $@

# Python workers of Spark start from it. It is in the environment's own archives of PySpark.
.build/bytecode: tests/spark/bytecode.py .build/environment
	$(BIN)/python -m tests.spark.bytecode
	@touch $@

# pytest rewrites each file of tests for its assertions when it is first imported, which takes longer than all other
# imports. One process does it here, where a core is idle, and not each process of the tests at their start.
.build/collected: | .build/module
	$(BIN)/python -m pytest --collect-only -q $(EVERYTHING) >$@.part || { cat $@.part; exit 1; }
	@mv $@.part $@

# PySpark and py4j alone: programs have them in front of what the environment has.
.build/spark-%: requirements/spark-%.txt | .build/environment
	rm -rf $@ $@.part
	$(BIN)/uv pip install -q --require-hashes --python $(BIN)/python --target $@.part -r $<
	mv $@.part $@
	@touch $@

# The file system that loses power, in `make soak`.
.build/fuse: requirements/fuse.txt | .build/environment
	rm -rf $@ $@.part
	$(BIN)/uv pip install -q --require-hashes --python $(BIN)/python --target $@.part -r $<
	mv $@.part $@
	@touch $@

# Classes that JVMs of tests start from. It is made by the module that is there: not anew with each.
.build/spark.jsa: tests/spark/archive.py requirements/dev.txt | .build/module .build/bytecode
	$(BIN)/python -m tests.spark.archive $@

.build/minio: .build/minio-$(MINIO)

.build/minio-$(MINIO): .build/environment
	@PYTHON='$(PYTHON)' requirements/prerequisites.sh soak
	GOBIN='$(CURDIR)/.build' CGO_ENABLED=0 go install -gcflags='all=-N -l -dwarf=false' -ldflags='-s -w' \
		github.com/minio/minio@$(MINIO)
	@touch $@
