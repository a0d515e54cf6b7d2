#!/usr/bin/env bash
# tools/sanitize.sh NAME SANITIZERS: builds the torch-free rooms in build/NAME with -fsanitize=SANITIZERS and runs
# their tests. A finding ends the test that met it.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 sanitizers=$2
cmake -G Ninja -S . -B "build/$name" -DSHOAL_SANITIZE="$sanitizers" -DSHOAL_BUILD_TORCH=OFF --log-level=WARNING
ninja -C "build/$name" --quiet
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:check_initialization_order=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=second_deadlock_stack=1
ctest --test-dir "build/$name" --output-on-failure -j 2 -LE long
