#!/usr/bin/env bash
# Builds every fuzzer (pw_fuzz in a CMakeLists.txt) and runs each for FUZZ_SECONDS (default 60) under AddressSanitizer. Inputs that
# found something new stay in build/fuzz/corpus; a crash leaves its input in build/fuzz/crashes and ends the run with 1.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz >build/configure.log || { cat build/configure.log; exit 1; }
ninja -C build/fuzz fuzzers
mkdir -p build/fuzz/crashes
failed=0
for fuzzer in build/fuzz/fuzzers/*; do
  [ -x "$fuzzer" ] || continue
  name=$(basename "$fuzzer") && mkdir -p "build/fuzz/corpus/$name"
  echo "fuzz: $name for ${FUZZ_SECONDS:-60} s"
  "$fuzzer" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=5 -rss_limit_mb=4096 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/crashes/$name-" "build/fuzz/corpus/$name" >"build/fuzz/$name.log" 2>&1 ||
    { tail -30 "build/fuzz/$name.log"; failed=1; }
  grep -E 'stat::number_of_executed_units|Done ' "build/fuzz/$name.log" || true
done
exit $failed
