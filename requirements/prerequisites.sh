#!/usr/bin/env bash
# Names, in one message, everything that a machine lacks before Spillway can be built and its bench run; with the word
# `soak`, before its soak can be run; with `dist` and targets of Rust, before their wheels can be built.
set -uo pipefail

python=${PYTHON:-python3}
java=${JAVA_HOME:+$JAVA_HOME/bin/}java
missing=()

"$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    missing+=("Python 3.11 or later with venv")
cargo --version >/dev/null 2>&1 || missing+=("Rust with cargo")
cc --version >/dev/null 2>&1 || missing+=("a C compiler named cc")
major=$("$java" -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
[ "${major:-0}" -ge 17 ] || missing+=("Java 17 or later, on the path or in JAVA_HOME")

if [ "${1:-}" = soak ]; then
    minor=$(go version 2>/dev/null | sed -nE 's/.* go1\.([0-9]+).*/\1/p')
    [ "${minor:-0}" -ge 24 ] || missing+=("Go 1.24 or later, which builds the S3 server that a soak talks to")
fi

if [ "${1:-}" = dist ]; then
    libraries=$(rustc --print sysroot 2>/dev/null)/lib/rustlib
    for target in "${@:2}"; do
        [ -d "$libraries/$target/lib" ] ||
            missing+=("Rust's standard library for $target: rustup target add $target")
    done
fi

if [ ${#missing[@]} -gt 0 ]; then
    printf 'Spillway cannot be set up on this machine. Missing:\n' >&2
    printf '  - %s\n' "${missing[@]}" >&2
    printf 'Install it and run the same command again.\n' >&2
    exit 1
fi
