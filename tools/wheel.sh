#!/usr/bin/env bash
# Builds our wheel from an existing build tree and installs it: wheel.sh TREE VENV. Does nothing when neither the binaries nor
# the Python sources have changed since.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$1 venv=$2
state=$({ find "$tree/bin" "$tree/plugins" -type f \( -perm -u+x -o -name '*.so' \) -not -name '*_test' -print0 2>/dev/null | sort -z |
            xargs -0 -r sha256sum
          git ls-files -z --cached --others --exclude-standard -- python pyproject.toml README.md | xargs -0 sha256sum 2>/dev/null
        } | sha256sum | cut -c1-16)
stamp=$venv/.wheel-$state
if [ -e "$stamp" ]; then exit 0; fi
echo "wheel: installing into $venv"
rm -rf build/wheel && mkdir -p build/wheel
"$venv/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/wheel -C "build-dir=$tree" . >build/wheel.log 2>&1 ||
  { tail -30 build/wheel.log >&2; echo "wheel: failed; the whole log is build/wheel.log" >&2; exit 1; }
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall build/wheel/*.whl
rm -f "$venv"/.wheel-*
touch "$stamp"
