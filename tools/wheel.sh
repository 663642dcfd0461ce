#!/usr/bin/env bash
# Builds our wheel from an existing build tree and installs it into build/venv and build/venv-jax-*: wheel.sh TREE. Does nothing
# where neither the binaries nor the Python sources have changed since.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$1

# What the wheel is made of, as one hash.
state=$({
  find "$tree/bin" -type f -name 'pathways-*' -print0 | sort -z | xargs -0 -r sha256sum
  find "$tree" -name libpjrt_cpu.so -print0 | xargs -0 -r sha256sum
  git ls-files -z --cached --others --exclude-standard -- python pyproject.toml cmake/PathwaysInstall.cmake README.md |
    xargs -0 sha256sum 2>/dev/null || true
} | sha256sum | cut -c1-16)

build_wheel() {
  if [ -e "build/wheel/$state" ]; then return; fi
  echo "wheel: building"
  rm -rf build/wheel && mkdir -p build/wheel
  build/venv/bin/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/wheel -C "build-dir=$tree" . \
    >build/wheel.log 2>&1 || { tail -30 build/wheel.log >&2; echo "wheel: failed; the whole log is build/wheel.log" >&2; exit 1; }
  touch "build/wheel/$state"
}

for venv in build/venv build/venv-jax-*; do
  [ -x "$venv/bin/pip" ] && [ ! -e "$venv/.wheel-$state" ] || continue
  build_wheel
  echo "wheel: installing into $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall build/wheel/*.whl
  rm -f "$venv"/.wheel-*
  touch "$venv/.wheel-$state"
done
