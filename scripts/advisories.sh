#!/usr/bin/env bash
# Compares the locks of both languages with the databases of known advisories: `make advisories`. Fails where one is
# about a locked package, and where a database cannot be asked. The first argument is the environment of pip-audit.
set -uo pipefail
cd "$(dirname "$0")/.."
environment=$1 cargo_audit=0.22.2 database=https://github.com/RustSec/advisory-db failed=0

complain() {
    printf 'advisories: %s\n' "$1" >&2
    failed=1
}

if timeout 60 git ls-remote --quiet "$database" HEAD >/dev/null 2>&1; then
    cargo install --quiet --locked --root .build/cargo-audit "cargo-audit@$cargo_audit" || exit 1
    for lock in Cargo.lock */Cargo.lock */*/Cargo.lock; do
        .build/cargo-audit/bin/cargo-audit audit --file "$lock" || complain "$lock: see above"
    done
else
    complain "Rust's locks were not checked: $database cannot be reached from here"
fi
# Those of the versions of Spark that tests run with hold what users have: nothing in them is this project's to renew.
for lock in requirements/{uv,audit,dev,fuse}.txt; do
    # Strict: a package that the index says nothing about was not checked.
    "$environment"/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off -r "$lock" ||
        complain "$lock has advisories, or was not checked whole: see above"
done
exit "$failed"
