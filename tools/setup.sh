#!/usr/bin/env bash
# Prepares the machine: Debian packages that are missing, and Python environments with pinned packages.
#   tools/setup.sh        all that building and testing need: build/venv (the build, and one jax), build/venv-newest (the newest jax that is
#                         supported, on Python 3.12 or newer) and build/venv-jax-VERSION (older clients)
#   tools/setup.sh demo   the packages and build/venv alone: what building and `make demo` need
#   tools/setup.sh dev    the clang family too (lint, thread-safety analysis, fuzzing)
#   tools/setup.sh ray    build/venv-ray alone: what the tests of `pathways up --on ray` need
#   tools/setup.sh unpinned  build/venv-unpinned alone: the newest versions on the registry (make newest)
#   tools/setup.sh paper  build/venv-paper alone: what draws the plots of `make paper`, and what it compares with
#   tools/setup.sh docs   build/venv-docs alone: what builds the documentation's site
#   tools/setup.sh lock   build/venv-lock alone: what writes and audits tools/locks
#   tools/setup.sh torchax  build/venv-torchax alone: PyTorch with torchax, and TensorFlow (8.5 GB)
#   tools/setup.sh xprof  build/venv-xprof alone: what opens profiles in a test (200 MB)
#   tools/setup.sh s3     build/venv-s3 alone: moto, an S3 server for tests, and s3fs (140 MB)
#   tools/setup.sh prometheus  build/prometheus alone: Debian's Prometheus with promtool, unpacked there and not installed (19 MB)
#   tools/setup.sh helm   build/helm alone: helm, which Go builds from its module
#   tools/setup.sh image  buildah and debootstrap alone: what the test of the container image needs
#   tools/setup.sh page   what the browser test of the operators' page needs alone: chromium, and node and npm if there are none
#   tools/setup.sh maxtext  build/venv-maxtext alone: MaxText with the newest jax (2.3 GB)
#   tools/setup.sh tunix    build/venv-tunix alone: Tunix with the newest jax (2 GB)
# Uses the network only if something is missing; a second run takes a fraction of a second.
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

# make_venv DIR LOCK...: a Python environment with the packages of the locks (tools/lock.py), made anew in place when they change. Each lock lists
# all that is wanted, so pip looks for no other package, and takes no file whose hash is not in it. $PYTHON names the Python.
make_venv() {
  local dir=$1 stamp lock
  stamp=$dir/.ready-$(cat "${@:2}" | sha256sum | cut -c1-16)
  [ -e "$stamp" ] && [ -x "$dir/bin/python" ] && return 0
  say "Python packages into $dir"
  [ -x "$dir/bin/python" ] || "${PYTHON:-python3}" -m venv --clear "$dir"
  for lock in "${@:2}"; do
    "$dir/bin/pip" install -q --disable-pip-version-check --require-hashes --no-deps -r "$lock"
  done
  rm -f "$dir"/.ready-*
  touch "$stamp"
}

# Programs that may be a Python for build/venv-newest, best first. A shim of pyenv is on the PATH also for versions that are switched off.
newest_candidates() {
  local version
  uv python find --no-python-downloads '>=3.12,<3.15' 2>/dev/null || true
  for version in 3.13 3.12 3.14; do command -v "python$version" || true; done
  for version in 3.13 3.12 3.14; do
    compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version.*/bin/python$version" | sort -rV || true
  done
  echo "${PYTHON:-python3}"
}

fits_newest() { "$1" -c 'import sys, ensurepip; sys.exit(not (3, 12) <= sys.version_info < (3, 15))' 2>/dev/null; }

# Prints the Python for build/venv-newest, which is newer than the build needs, because the newest jax wants it. Prints nothing if none is found.
newest_python() {
  local one
  if [ -n "${PYTHON_NEWEST:-}" ]; then
    fits_newest "$PYTHON_NEWEST" || die "PYTHON_NEWEST=$PYTHON_NEWEST is no Python 3.12 to 3.14 with venv"
    echo "$PYTHON_NEWEST"
    return
  fi
  while read -r one; do
    if fits_newest "$one"; then echo "$one"; return; fi
  done < <(newest_candidates)
}

# Makes the environment of the newest jax. All else works without it, so its absence is reported and is no error; tools/run_tests.py lists
# the tests that do not run without it.
make_newest() {
  local python=
  [ -x build/venv-newest/bin/python ] || python=$(newest_python)
  if [ ! -x build/venv-newest/bin/python ] && [ -z "$python" ]; then
    say "NO PYTHON 3.12 OR NEWER WAS FOUND: the newest jax cannot be installed, and nothing will be tested on it." >&2
    say "  Install one ('uv python install 3.13', or pyenv) or name one with PYTHON_NEWEST=/path/to/python, and run this again." >&2
    return 0
  fi
  PYTHON=$python make_venv build/venv-newest tools/locks/requirements-newest.txt
}

# As newest_python, but ends with an error if none is found.
demand_newest_python() {
  local python
  python=$(newest_python)
  [ -n "$python" ] || die "the newest jax wants Python 3.12 or newer, and none was found: install one (uv, pyenv) or name it with PYTHON_NEWEST="
  echo "$python"
}

if [ "${1:-}" = lock ]; then
  [ -x build/venv-lock/bin/uv ] || { "${PYTHON:-python3}" -m venv --clear build/venv-lock && build/venv-lock/bin/pip install -q --disable-pip-version-check uv pip-audit; }
  exit 0
fi
case "${1:-}" in
  ray | paper | torchax | maxtext | tunix | docs | xprof | s3)
    python=${PYTHON:-python3}
    case "$1" in maxtext | tunix | xprof | s3) python=$(demand_newest_python) ;; esac
    PYTHON=$python make_venv "build/venv-$1" "tools/locks/requirements-$1.txt"
    touch "build/venv-$1"
    exit 0
    ;;
esac
if [ "${1:-}" = prometheus ]; then
  rm -rf build/prometheus && mkdir -p build/prometheus
  (cd build/prometheus && apt-get download -qq prometheus >../apt.log 2>&1 && dpkg -x prometheus_*.deb .) ||
    { tail -20 build/apt.log >&2; die "Debian's package prometheus could not be fetched; the whole log is build/apt.log"; }
  exit 0
fi
if [ "${1:-}" = helm ]; then
  command -v go >/dev/null || die "helm is built by Go, and there is no 'go': install it, or put helm on the PATH"
  GOBIN=$PWD/build/helm go install helm.sh/helm/v3/cmd/helm@v3.22.0
  exit 0
fi
if [ "${1:-}" = image ]; then
  install_packages <(printf 'buildah\ndebootstrap\n')
  exit 0
fi
if [ "${1:-}" = page ]; then
  install_packages tools/packages-page.txt
  command -v npm >/dev/null && command -v node >/dev/null || install_packages <(printf 'nodejs\nnpm\n')
  exit 0
fi
if [ "${1:-}" = unpinned ]; then
  python=$(demand_newest_python)
  [ -x build/venv-unpinned/bin/python ] || "$python" -m venv --clear build/venv-unpinned
  build/venv-unpinned/bin/pip install -q --disable-pip-version-check --upgrade --upgrade-strategy eager -r tools/requirements-unpinned.txt
  exit 0
fi
if [ "${1:-}" = dev ]; then
  install_packages tools/packages.txt tools/packages-dev.txt
else
  install_packages tools/packages.txt
fi
"${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or newer is needed; name one with PYTHON=..."
# In parallel: unpacking takes most of the time.
make_venv build/venv tools/locks/requirements.txt tools/locks/requirements-nodeps.txt & pending=($!)
if [ "${1:-}" = demo ]; then wait "${pending[0]}"; exit; fi
make_newest & pending+=($!)
for file in tools/locks/requirements-jax-[0-9]*.txt; do
  make_venv "build/venv-${file:25:-4}" "$file" & pending+=($!)
done
failed=0
for one in "${pending[@]}"; do wait "$one" || failed=1; done
[ "$failed" = 0 ] || die "a Python environment could not be made; the reason is above"
