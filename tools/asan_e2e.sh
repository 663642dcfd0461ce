#!/usr/bin/env bash
# Runs end-to-end tests on controllers, workers and agents under AddressSanitizer and UndefinedBehaviorSanitizer.
#   asan_e2e.sh [TEST...]
#
# The device plugin is of build/release, and the PJRT door, which is part of the program. A process that finds an error writes a report into
# build/asan-e2e/reports and ends. Tests may expect that a process ends, so a report is a failure even if all tests pass.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$PWD/build/release tree=$PWD/build/asan-e2e
# What strangers and users can reach at a host, transfers, files, functions of clients, and hosts that are lost.
tests=("$@")
[ ${#tests[@]} != 0 ] || tests=(
  tests/e2e/attacks tests/e2e/arrays/test_moves.py tests/e2e/clients/test_quotas.py tests/e2e/clients/test_security.py tests/e2e/cluster/test_crowd.py
  tests/e2e/cluster/test_slices.py tests/e2e/faults/test_worker_lost.py tests/e2e/programs/test_callbacks.py)
cmake --preset asan-e2e >build/configure.log || { cat build/configure.log; exit 1; }
ninja -C "$tree" -j"${JOBS:-$(nproc)}" pathways-controller pathways-worker pathways-agent pathways-local

# PATHWAYS_BIN_DIR names one folder, so what is not sanitized is there too.
for file in "$release"/plugins/*/*.so; do ln -sfn "$file" "$tree/bin/"; done
rm -rf "$tree/reports"
mkdir -p "$tree/reports"
gcc -shared -fPIC -O1 -o "$tree/summaries_of_reports.so" tools/summaries_of_reports.c
export REPORTS=$tree/reports
# LLVM's headers poison memory that its library does not know to be poisoned. Memory of absurd sizes is an error that requests hear of. What the plugin
# keeps until the end of its process is no leak of ours. Few freed bytes are kept aside, since tests of attacks limit the memory of a process.
export ASAN_OPTIONS=allow_user_poisoning=0:allocator_may_return_null=1:detect_leaks=0:quarantine_size_mb=8:verify_asan_link_order=0:log_path=$tree/reports/report
export UBSAN_OPTIONS=print_stacktrace=1:print_summary=1:report_error_type=1
python=build/venv-newest/bin/python
[ -x "$python" ] || python=build/venv/bin/python
failed=0
LD_PRELOAD=$tree/summaries_of_reports.so PATHWAYS_BIN_DIR=$tree/bin "$python" -m pytest -q -rf "${tests[@]}" \
  --deselect tests/e2e/cluster/test_local.py::test_a_program_outlives_it_and_gets_another || failed=1  # it sends SIGSEGV
for report in "$tree"/reports/*; do
  [ -e "$report" ] || continue
  echo "--- $report"
  head -60 "$report"
  failed=1
done
exit $failed
