#!/usr/bin/env bash
# Builds the container image pathways:VERSION from deploy/Dockerfile and the wheel in build/wheel, by buildah. BASE and DEVICES are the Dockerfile's.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v buildah >/dev/null || { echo "image: buildah is missing: apt-get install buildah; or docker build -f deploy/Dockerfile ." >&2; exit 1; }
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)
arguments=()
for name in BASE DEVICES; do
  [ -z "${!name:-}" ] || arguments+=(--build-arg "$name=${!name}")
done
buildah bud "${arguments[@]}" -f deploy/Dockerfile -t "pathways:$version" .
