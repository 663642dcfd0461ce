#!/usr/bin/env bash
# Builds the operators' page (web/) into build/page/dist, from where the wheel takes it. Does nothing if nothing has changed since. It is built with the
# packages of web/package-lock.json, by their hashes; none of their scripts is run. A machine without node and npm gets a warning: all but
# `pathways up --page` works without the page.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'page: %s\n' "$*" >&2; }

# A hash of all that the page is built from.
state=$(find web docs/operators.md tools/page.sh -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
[ ! -e "build/page/.ready-$state" ] || exit 0

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  rm -rf build/page
  say "not built: this machine has no node and npm, so 'pathways up --page' will not work; as root: apt-get install nodejs npm"
  exit 0
fi
version=$(node -p 'process.versions.node.split(".")[0]')
if [ "$version" -lt 18 ]; then
  rm -rf build/page
  say "not built: node is of version $version, and 18 or newer is needed; 'pathways up --page' will not work"
  exit 0
fi

rm -rf build/page/dist build/page/.ready-*
mkdir -p build/page/work
cp -R web/. build/page/work/
cd build/page/work
failed() { tail -30 ../build.log >&2; say "failed; the whole log is build/page/build.log"; exit 1; }
: >../build.log
lock=$(sha256sum package-lock.json | cut -c1-16)
if [ ! -e "node_modules/.ready-$lock" ]; then
  say "npm packages into build/page"
  if ! npm ci --ignore-scripts --no-audit --no-fund >>../build.log 2>&1; then
    [ -z "${CI:-}" ] || failed
    say "not built: npm could not get its packages (build/page/build.log), so 'pathways up --page' will not work"
    exit 0
  fi
  touch "node_modules/.ready-$lock"
fi
say "building"
mkdir -p public/docs
cp ../../../docs/operators.md public/docs/operators.txt
{ npm run -s check && npm run -s test && npm run -s build; } >>../build.log 2>&1 || failed
mv dist ..
touch "../.ready-$state"
