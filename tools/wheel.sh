#!/usr/bin/env bash
# Builds our wheel from an existing build tree and installs it into the environments that tools/setup.sh makes, or into those that are
# named: wheel.sh TREE [VENV...]. Does nothing if neither the binaries nor the Python sources have changed since.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$1
shift
venvs=("$@")
if [ $# = 0 ]; then
  venvs=(build/venv build/venv-newest)
  for file in tools/requirements-jax-[0-9]*.txt; do venvs+=("build/venv-${file:19:-4}"); done
fi

# A hash of all that the wheel is made of.
state=$({
  find "$tree/bin" -type f -name 'pathways-*' -print0 | sort -z | xargs -0 -r sha256sum
  find "$tree" \( -name libpjrt_cpu.so -o -name 'libpathways_*.so' \) -print0 | sort -z | xargs -0 -r sha256sum
  find build/page/dist -type f -print0 2>/dev/null | sort -z | xargs -0 -r sha256sum
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

# Only build/venv holds tensorflow-cpu. The CPU plugin looks for its two libraries in its own folder too (plugins/pjrt_cpu/CMakeLists.txt), so
# there each other environment gets links to them.
link_tensorflow() {
  local libraries folder name
  libraries=$(compgen -G "$PWD/build/venv/lib/python3*/site-packages/tensorflow/libtensorflow_cc.so.2") || return 0
  folder=$(compgen -G "$1/lib/python3*/site-packages/pathways/lib") || return 0
  for name in libtensorflow_cc.so.2 libtensorflow_framework.so.2; do
    ln -sf "$(realpath --relative-to="$folder" "$(dirname "$libraries")")/$name" "$folder/$name"
  done
}

# The wheel fits every version of Python: it holds programs and plain Python, no extension module.
install_into() {
  echo "wheel: installing into $1"
  "$1/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall build/wheel/*.whl
  [ "$1" = build/venv ] || link_tensorflow "$1"
  rm -f "$1"/.wheel-*
  touch "$1/.wheel-$state"
}

pending=()
for venv in "${venvs[@]}"; do
  [ -x "$venv/bin/pip" ] && [ ! -e "$venv/.wheel-$state" ] || continue
  build_wheel
  [ -e build/wheel/*-py3-none-*.whl ] || { echo "wheel: $(ls build/wheel) is bound to one version of Python" >&2; exit 1; }
  install_into "$venv" & pending+=($!)
done
for one in "${pending[@]}"; do wait "$one"; done
