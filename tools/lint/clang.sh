#!/usr/bin/env bash
# clang-format and clang-tidy over the C++ files that differ from the last commit, or over all: ALL=1.
#   clang.sh TREE     checks, with the compile commands of that build tree
#   clang.sh --fix    formats in place
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "${ALL:-}" = 1 ]; then list=(git ls-files); else list=(git diff --name-only --diff-filter=d HEAD); fi
mapfile -t files < <("${list[@]}" -- 'pathways/*.h' 'pathways/*.cc' 'plugins/*.h' 'plugins/*.cc')
if [ ${#files[@]} = 0 ]; then echo "clang: no C++ file differs from the last commit (ALL=1 checks every file)"; exit 0; fi
if [ "$1" = --fix ]; then exec clang-format-19 -i "${files[@]}"; fi
failed=0
clang-format-19 --dry-run --Werror "${files[@]}" || failed=1
# clang-tidy needs compile commands: sources of the release tree have them, headers are seen through their sources.
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep '^pathways/.*\.cc$' || true)
if [ ${#sources[@]} != 0 ]; then
  printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-19 -p "$1" --quiet || failed=1
fi
exit $failed
