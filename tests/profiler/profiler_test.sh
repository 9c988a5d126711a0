#!/usr/bin/env bash
# What a profiler plugin sees of two ranks: profiler_test.sh TUTTI RANK_PROGRAM PLUGIN
set -euo pipefail
tutti=$1
rank_program=$2
plugin=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export WITNESS_LOG=$work/seen
unset TUTTI_PROFILER_PLUGIN NCCL_PROFILER_PLUGIN

fail() {
  echo "FAILED: $*"
  exit 1
}

# One operation and its parents, as they are told, from the event number $1 on.
operation() {
  local first=$1 call=$2 task=$3
  cat <<EOF
start $first GroupApi depth 1 in 0
state of $first: 23
start $((first + 1)) $call in $first
start $((first + 2)) Group in 0
start $((first + 3)) $task group $((first + 2)) in $((first + 1))
start $((first + 4)) KernelCh 0 in $((first + 3))
state of $((first + 4)): lasted a while
state of $first: 24
stop $((first + 4))
stop $((first + 3))
stop $((first + 2))
stop $((first + 1))
stop $first
EOF
}

collective() {
  local first=$1 what=$2 root=$3 number=$4
  operation "$first" "CollApi $what root $root" "Coll $what root $root number $number channels 1 rank $rank"
}

expected() {
  local rank=$1 end=Send
  [ "$rank" = 0 ] || end=Recv
  echo "init pair hosts 1 ranks 2 rank $rank"
  # The first operation of all is tutti's own: it is not told, but it has a number.
  collective 1 "AllReduce 1000 ncclFloat32" 0 1
  collective 6 "AllReduce 1000 ncclFloat32" 0 2
  collective 11 "Broadcast 5 ncclInt64" 1 3
  collective 16 "Barrier 0 ncclInt8" 0 4
  collective 21 "AllGather 1000 ncclFloat32" 0 5
  operation 26 "P2pApi $end 7 ncclInt8" "P2p $end 7 ncclInt8 peer $((1 - rank)) channels 1 rank $rank"
  echo finalize
}

sees_all() {
  "$tutti" run -n 2 -- "$rank_program" 2>"$work/err" || fail "the ranks failed: $(cat "$work/err")"
  for rank in 0 1; do
    diff <(expected $rank) "$WITNESS_LOG.$rank" || fail "$1: what rank $rank was told (right) is not what was to be"
    grep -q "profiler plugin: rank $rank is witnessed, communicator named" "$work/err" || fail "$1: no log line"
  done
  rm -f "$WITNESS_LOG".*
}

TUTTI_PROFILER_PLUGIN=$plugin sees_all "by our setting"
NCCL_PROFILER_PLUGIN=$plugin sees_all "by NCCL's"
LD_LIBRARY_PATH=$(dirname "$plugin") TUTTI_PROFILER_PLUGIN=witness sees_all "by its name"

silent() {
  "$tutti" run -n 2 -- "$rank_program" 2>"$work/err" || fail "the ranks failed: $(cat "$work/err")"
  [ ! -e "$WITNESS_LOG.0" ] || fail "$1: a plugin was told"
}

TUTTI_PROFILER_PLUGIN=none NCCL_PROFILER_PLUGIN=$plugin silent "none"
TUTTI_PROFILER_PLUGIN=nowhere silent "a plugin that is not there"
[ "$(grep -c "the profiler plugin 'nowhere' is not used: .*libnccl-profiler-nowhere.so" "$work/err")" = 2 ] ||
  fail "no warning, or more than one, of a plugin that is not there: $(cat "$work/err")"
echo "ok"
