#!/usr/bin/env bash
# What commands print, to whom, and what they do if it cannot be written: output_test.sh TUTTI CASE
set -euo pipefail
tutti=$1
# shellcheck source=tests/cli/check.sh
. "$(dirname "$0")/check.sh"

other_commands() {
  expect_status 0 "$tutti" version
  expect_line out 'tutti [0-9]+\.[0-9]+\.[0-9]+'
  expect_status 0 env TUTTI_LOG=info "$tutti" env
  grep -qE '^TUTTI_LOG +info .*\(default: warn\)' out || fail "tutti env does not show a changed value"
  expect_status 1 env TUTTI_SPIN_US=many TUTTI_SPINN_US=1 "$tutti" env
  grep -q "TUTTI_SPIN_US='many' cannot be read" out || fail "tutti env hides a bad value"
  grep -q 'did you mean TUTTI_SPIN_US' out || fail "tutti env hides an unknown name"
  expect_status 0 "$tutti" doctor --json
  grep -q '"cross-memory attach"' out || fail "tutti doctor --json lacks a topic"
  expect_status 1 "$tutti" program check ./not-there.json
  grep -q 'not-there.json' err || fail "the missing file is not named"
}

# What a rank uses is told at info, and which program runs at debug.
describes_itself() {
  local run=("$tutti" run -n 2 --no-prefix -- "$tutti" bench all_reduce -b 1K -e 1K -n 1 -w 0)
  expect_status 0 "${run[@]}"
  ! grep -q 'tutti info' err || fail "the default level tells what a rank uses"
  expect_status 0 env TUTTI_LOG=info "${run[@]}"
  for rank in 0 1; do
    expect_line err ".* tutti info: rank $rank of 2.*, tutti [0-9.]+: pid [0-9]+ on .*, local rank $rank of 2, 1 host, .*"
    expect_line err ".* tutti info: rank $rank transport: shared memory to rank $((1 - rank)).*"
    expect_line err ".* tutti info: rank $rank programs: .*"
  done
  [ "$(grep -c 'tutti info' err)" -le 10 ] || fail "more than five lines a rank"
  ! grep -q 'tutti debug' err || fail "info tells what debug does"
  expect_status 0 env TUTTI_LOG=debug TUTTI_SHM=0 "${run[@]}"
  expect_line err '.* tutti info: rank 0 listens for data on .*:[0-9]+ \([a-z0-9]+\).*; at least [0-9]+ lanes? to each peer, all carry'
  expect_line err '.* tutti info: rank 0 transport: TCP to rank 1'
  expect_line err '.* tutti debug: rank 0 to rank 1: TCP to .*:[0-9]+; .*'
  expect_line err '.* tutti debug: rank 1: all_reduce of 256 x float32: program [a-z_]+ .*'
}

# What cannot be written is an error, and a device stays a device.
full_disk() {
  mknod full c 1 7 2>/dev/null && mknod null c 1 3 && { : >null; } 2>/dev/null || {
    echo "skipped: no device can be made here (needs root, and a file system that allows it)"
    exit 77
  }
  local ring=$(dirname "$0")/../../examples/programs/ring_all_reduce_4.xml
  expect_status 0 "$tutti" simulate ring --collective all_gather --topology ring:8 --size 1M --trace line.json
  local command
  for command in "topo show ndv2 --json -o" "topo show ndv2 -o" "topo trees torus2d:size=4x4 -o" "program show $ring --svg" \
    "bench all_reduce -t 2 -b 8 -e 8 -n 1 -J" "simulate ring --collective all_gather --topology ring:8 --size 1M -o" \
    "simulate ring --collective all_gather --topology ring:8 --size 1M --trace" \
    "trace --merge line.json -o"; do
    expect_status 1 "$tutti" $command full
    grep -q 'No space left on device' err || fail "no word about the full disk: $command"
    [ -c full ] || fail "a device was replaced: $command"
    expect_status 0 "$tutti" $command null
    [ -c null ] || fail "a device was replaced: $command"
  done
  ls *.part 2>/dev/null && fail "a draft was left behind"
  # Standard output counts as well.
  for command in "env" "version" "topo show ndv2 --json" "topo list" "--help"; do
    local got=0
    "$tutti" $command >/dev/full 2>err || got=$?
    [ "$got" -eq 1 ] || fail "exit status $got with a full disk as standard output: $command"
    grep -q 'No space left on device' err || fail "no word about the full disk: $command"
  done
  [ -c /dev/full ] || fail "/dev/full was replaced"
}

"$2"
