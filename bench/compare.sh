#!/usr/bin/env bash
# Is this tree slower than another revision? bench/compare.sh BUILD REVISION [options of bench/run.py]
# Builds REVISION's library in a worktree under BUILD, links today's loop with it, and runs both in turn.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
revision=$2
shift 2

commit=$(git rev-parse --verify --short "$revision^{commit}")
base="$build/base/$commit"
git worktree prune
[ -d "$base/tree" ] || git worktree add --detach "$base/tree" "$commit"
cmake -S "$base/tree" -B "$base/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTUTTI_TESTS=OFF >"$base/configure.log"
cmake --build "$base/build" -j "${JOBS:-$(nproc)}" --target tutti
library=$(realpath "$base/build/lib")
g++ -std=c++20 -O3 -I"$base/tree/include" -Ibench/peers bench/peers/{meeting,data,loop,tutti_peer}.cc \
  -L"$library" -Wl,-rpath,"$library" -ltutti -o "$base/tutti_peer"

echo "base: $(git log -1 --format='%h %s' "$commit")"
exec bench/run.py "$build" --base "$base/tutti_peer" "$@"
