#!/usr/bin/env bash
# Prepares the machine: Debian packages that are missing, and build/venv with the pinned Python packages.
#   tools/setup.sh        what building and testing need: build/venv, and build/venv-jax-VERSION for the older clients
#   tools/setup.sh dev    the clang family too (lint, thread-safety analysis, fuzzing)
#   tools/setup.sh ray    build/venv-ray alone: what the tests of `pathways up --on ray` need
#   tools/setup.sh paper  build/venv-paper alone: what draws the plots of `make paper`, and what it compares with
# Reaches for the network only where something is missing; the second run costs a fraction of a second.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; return; fi
  command -v sudo >/dev/null || die "missing Debian packages, and neither root nor sudo to install them: run as root: apt-get install $MISSING"
  sudo "$@"
}

# Installs those packages of the listed files that dpkg does not have.
install_packages() {
  command -v dpkg-query >/dev/null || die "this is not Debian; install the equivalents of tools/packages.txt by hand, and build with cmake --preset release"
  MISSING=$(comm -23 <(grep -hv '^#' "$@" | sort -u) \
                     <(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' | sed -n 's/^ii //p' | sort -u) | tr '\n' ' ')
  [ -n "${MISSING// /}" ] || return 0
  say "installing Debian packages: $MISSING"
  as_root apt-get update -qq
  # shellcheck disable=SC2086
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $MISSING >build/apt.log 2>&1 ||
    { tail -20 build/apt.log >&2; die "apt-get failed; the whole log is build/apt.log"; }
}

# make_venv DIR FILE [NODEPS-FILE]: a Python environment with the packages of the files, made anew in place when they change.
make_venv() {
  local dir=$1 stamp
  stamp=$dir/.ready-$(cat "${@:2}" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && return 0
  say "Python packages into $dir"
  [ -x "$dir/bin/python" ] || "${PYTHON:-python3}" -m venv "$dir"
  "$dir/bin/pip" install -q --disable-pip-version-check -r "$2"
  [ $# -lt 3 ] || "$dir/bin/pip" install -q --disable-pip-version-check --no-deps -r "$3"
  rm -f "$dir"/.ready-*
  touch "$stamp"
}

if [ "${1:-}" = ray ] || [ "${1:-}" = paper ]; then
  make_venv "build/venv-$1" "tools/requirements-$1.txt"
  touch "build/venv-$1"
  exit 0
fi
if [ "${1:-}" = dev ]; then
  install_packages tools/packages.txt tools/packages-dev.txt
else
  install_packages tools/packages.txt
fi
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "Python 3.10 or newer is needed; name one with PYTHON=..."
# Side by side: what takes time is unpacking.
make_venv build/venv tools/requirements.txt tools/requirements-nodeps.txt & pending=($!)
# The other clients that are supported, each with its own jaxlib.
for file in tools/requirements-jax-*.txt; do
  make_venv "build/venv-${file:19:-4}" "$file" & pending+=($!)
done
failed=0
for one in "${pending[@]}"; do wait "$one" || failed=1; done
[ "$failed" = 0 ] || die "a Python environment could not be made; what pip said is above"
