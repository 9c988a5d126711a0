#!/bin/bash
# What ranks believe of each other's clocks, held against the truth: two hosts as network namespaces, of which the right
# one also lives in a time namespace whose monotonic clock is 1000 s ahead. Usage: clock_offset.sh PATH/clock_rank
set -u
program=$1

# shellcheck source=tests/labs/namespaces.sh
. "$(dirname "$0")/namespaces.sh"
folder=$(mktemp -d)
ranks=()
clean() {
  [ ${#ranks[@]} -gt 0 ] && kill "${ranks[@]}" 2>/dev/null
  rm -rf "$folder"
}
two_namespaces
unshare --time --monotonic 1000 --fork true 2>/dev/null ||
  skip "needs a kernel with time namespaces (Linux 5.6, CONFIG_TIME_NS)"

export TUTTI_SIZE=3 TUTTI_ADDRESS=198.18.0.1:29400
TUTTI_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export TUTTI_SECRET
start() {
  local rank=$1 host=$2
  shift 2
  TUTTI_RANK=$rank TUTTI_HOST_ID=$host TUTTI_MONITOR_DIR=$folder/$rank ip netns exec "$host" timeout 60 "$@" \
    "$program" >"$folder/said$rank" &
  ranks+=($!)
}
start 0 "$left"
start 1 "$left"
start 2 "$right" unshare --time --monotonic 1000 --fork
status=0
for rank in 0 1 2; do
  wait "${ranks[$rank]}" || { echo "rank $rank failed"; status=1; }
done
ranks=()
[ $status = 0 ] || exit 1

expect() {
  local rank=$1 truth=$2 most=$3 offset error
  read -r _ offset error <"$folder/said$rank"
  local wrong=$((offset - truth))
  wrong=${wrong#-}
  echo "rank $rank: offset $offset ns, told to be within $error ns; wrong by $wrong ns"
  [ "$wrong" -le "$error" ] || { echo "failed: rank $rank is wrong by more than it tells"; status=1; }
  [ "$error" -le "$most" ] || { echo "failed: rank $rank knows no better than $error ns"; status=1; }
}
expect 0 0 0
expect 1 0 0
expect 2 -1000000000000 50000000
exit $status
