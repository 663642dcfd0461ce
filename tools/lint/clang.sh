#!/usr/bin/env bash
# clang-format and clang-tidy over the C++ files that differ from the last commit, or over all: ALL=1.
#   clang.sh          checks
#   clang.sh --fix    formats in place
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "${ALL:-}" = 1 ]; then list=(git ls-files); else list=(git diff --name-only --diff-filter=d HEAD); fi
mapfile -t files < <("${list[@]}" -- 'pathways/*.h' 'pathways/*.cc' 'plugins/*.h' 'plugins/*.cc')
if [ ${#files[@]} = 0 ]; then echo "clang: no C++ file differs from the last commit (ALL=1 checks every file)"; exit 0; fi
if [ "${1:-}" = --fix ]; then exec clang-format-19 -i "${files[@]}"; fi
failed=0
clang-format-19 --dry-run --Werror "${files[@]}" || failed=1
# clang-tidy needs clang's compile commands, one for each source: those of the preset tsa. Only generated files are built there.
# Headers are checked through their sources.
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep '^pathways/.*\.cc$' || true)
if [ ${#sources[@]} != 0 ]; then
  cmake --preset tsa >build/configure.log || { cat build/configure.log; exit 1; }
  ninja -C build/tsa --quiet generated
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p build/tsa --quiet || failed=1
fi
exit $failed
