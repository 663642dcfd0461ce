#!/usr/bin/env bash
# Builds the CPU plugin alone with the newest tf-nightly-cpu of the registry, and runs its tests: its own programs, then tests/plugin on the
# newest jax that tools/setup.sh has installed. Prints the results and the versions. Nightly wheels disappear from the registry, so nothing
# else depends on this, and each run asks for the newest anew. plugin_nightly.sh [FOLDER]: the environment (2 GB) and the build tree go there.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/plugin-nightly}
jobs=${JOBS:-$(nproc)}
mkdir -p "$folder"
folder=$(realpath "$folder")
python=$folder/venv/bin/python
plugin=$folder/tree/libpjrt_cpu.so

say() { printf 'plugin-nightly: %s\n' "$*"; }
# step LOG COMMAND...: runs the command; if it fails, shows the end of its output and exits.
step() {
  local log=$folder/$1.log
  "${@:2}" >"$log" 2>&1 && return
  tail -n 30 "$log" >&2
  say "FAILED: ${*:2} (the whole output is $log)" >&2
  exit 1
}

[ -x "$python" ] || step venv "${PYTHON:-python3}" -m venv --clear "$folder/venv"
step pip "$python" -m pip install -q --disable-pip-version-check --pre --no-deps --upgrade tf-nightly-cpu
wheel=$("$python" -c 'import importlib.metadata as m; print(m.version("tf-nightly-cpu"))')
say "tf-nightly-cpu $wheel, $(c++ --version | head -n 1)"
step configure cmake -S plugins/pjrt_cpu -B "$folder/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPW_PYTHON="$python" --fresh
step build ninja -C "$folder/tree" -j"$jobs"

jax=build/venv-newest
[ -x "$jax/bin/python" ] || jax=build/venv
failed=0
ctest --test-dir "$folder/tree" --output-on-failure || failed=1
say "$(sed -n 's/^<testsuites tests="\([0-9]*\)" failures="\([0-9]*\)".*/\1 tests, \2 failed/p' "$folder"/tree/gtest/*.xml | paste -sd ';')"
say "tests/plugin on jax $("$jax/bin/python" -c 'import importlib.metadata as m; print(m.version("jax"))')"
PW_PJRT_CPU_PLUGIN=$plugin "$jax/bin/python" -m pytest -q -p no:cacheprovider tests/plugin || failed=1
if [ $failed = 0 ]; then say "passed with tf-nightly-cpu $wheel"; else say "FAILED with tf-nightly-cpu $wheel"; fi
exit $failed
