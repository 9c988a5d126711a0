#!/usr/bin/env bash
# What `tutti run` does with real processes; ranks are small shell commands: run_test.sh TUTTI CASE
set -euo pipefail
tutti=$1
# shellcheck source=tests/cli/check.sh
. "$(dirname "$0")/check.sh"

numbers_ranks() {
  expect_status 0 "$tutti" run -n 3 -- sh -c \
    'echo "$TUTTI_RANK of $TUTTI_SIZE, local $TUTTI_LOCAL_RANK of $TUTTI_LOCAL_SIZE at $TUTTI_ADDRESS"'
  for rank in 0 1 2; do
    expect_line out "\[$rank\] $rank of 3, local $rank of 3 at 127\.0\.0\.1:[0-9]+"
  done
  [ "$(grep -oE '127[0-9.:]+' out | sort -u | wc -l)" -eq 1 ] || fail "ranks disagree on the address"
}

prefixes_lines() {
  expect_status 0 "$tutti" run -n 11 sh -c 'printf "a\nno end"; printf "oops\n" >&2'
  expect_line out '\[ 3\] a'
  expect_line out '\[10\] no end'
  expect_line err '\[ 0\] oops'
  # Long lines written in pieces by several ranks at once stay whole.
  expect_status 0 "$tutti" run -n 4 bash -c 'for i in $(seq 200); do printf "%s" aaaa; printf "%s\n" "$TUTTI_RANK-end"; done'
  [ "$(grep -cxE '\[([0-3])\] aaaa\1-end' out)" -eq 800 ] || fail "lines were mixed"
}

plain_lines() {
  expect_status 0 "$tutti" run -n 2 --no-prefix echo hello
  [ "$(cat out)" = $'hello\nhello' ] || fail "not two plain lines"
}

names_killed_rank() {
  expect_status 137 "$tutti" run -n 3 sh -c 'if [ "$TUTTI_RANK" = 2 ]; then kill -9 $$; fi; exec sleep 60'
  expect_line err 'tutti run: rank 2 \(pid [0-9]+\) was killed by signal 9 \(Killed\); ending the others'
  [ "$(wc -l <err)" -eq 1 ] || fail "the others, ended by us, are not failures of their own"
}

first_failure() {
  expect_status 3 "$tutti" run -n 3 sh -c 'if [ "$TUTTI_RANK" = 1 ]; then exit 3; fi; exec sleep 60'
  expect_line err 'tutti run: rank 1 \(pid [0-9]+\) exited with status 3; ending the others'
}

keep_going() {
  mkfifo gate
  # Rank 0 ends only after rank 1 has failed: it is not ended for it.
  "$tutti" run -n 2 --keep-going sh -c \
    'if [ "$TUTTI_RANK" = 1 ]; then exit 5; fi; read line <gate; echo "still here"' >out 2>err &
  launcher=$!
  wait_until grep -q 'rank 1 .* exited with status 5' err
  echo go >gate
  status=0
  wait "$launcher" || status=$?
  [ "$status" -eq 5 ] || fail "exit status $status, expected 5"
  expect_line out '\[0\] still here'
  expect_line err 'tutti run: rank 0 \(pid [0-9]+\) exited with status 0'
}

both_ready() {
  [ "$(grep -c ready out)" = 2 ]
}

forwards_signals() {
  for signal in USR1 USR2 HUP TERM INT; do
    rm -f out err  # what the signal before left must not count as ready
    # A background job of a script ignores SIGINT, and what it starts too; a trap cannot undo that, env can.
    env --default-signal=INT "$tutti" run -n 2 bash -c \
      'trap "echo got '$signal'; exit 0" '$signal'; echo ready; while :; do sleep 0.02; done' >out 2>err &
    launcher=$!
    wait_until both_ready
    kill -"$signal" "$launcher"
    status=0
    wait "$launcher" || status=$?
    [ "$status" -eq 0 ] || fail "$signal: exit status $status"
    expect_line out "\[0\] got $signal"
    expect_line out "\[1\] got $signal"
  done
}

kills_after_grace() {
  expect_status 4 "$tutti" run -n 2 --grace 0.2 bash -c \
    'if [ "$TUTTI_RANK" = 0 ]; then until [ -e deaf ]; do sleep 0.01; done; exit 4; fi
     trap "" TERM; touch deaf; while :; do sleep 0.02; done'
  expect_line err 'tutti run: one rank is still there after 0.2 s; killing it'
}

# Starts a job of $1 ranks that nothing but SIGKILL ends, with the options that follow; waits until it is deaf.
start_deaf() {
  local ranks=$1
  shift
  # A background job of a script ignores SIGINT; env undoes that.
  env --default-signal=INT "$tutti" run -n "$ranks" "$@" bash -c \
    'trap "" TERM INT; echo ready; while :; do sleep 0.02; done' >out 2>err &
  launcher=$!
  wait_until sh -c "[ \$(grep -c ready out) = $ranks ]"
}

# expect_end STATUS: how the launcher ends.
expect_end() {
  local status=0
  wait "$launcher" || status=$?
  [ "$status" -eq "$1" ] || fail "exit status $status, expected $1"
}

stops_when_told() {
  "$tutti" run -n 3 sh -c 'echo ready; exec sleep 60' >out 2>err &
  launcher=$!
  wait_until sh -c '[ $(grep -c ready out) = 3 ]'
  kill "$launcher"
  expect_end 143
  expect_line err 'tutti run: told to stop by SIGTERM; ending 3 ranks'
  [ "$(wc -l <err)" -eq 1 ] || fail "ranks are blamed for what the launcher was told"
}

kills_after_grace_when_told() {
  start_deaf 2 --grace 0.3
  kill "$launcher"
  expect_end 143
  expect_line err 'tutti run: told to stop by SIGTERM; ending 2 ranks'
  expect_line err 'tutti run: ranks are still there after 0.3 s; killing them'
}

kills_when_told_twice() {
  start_deaf 2 --grace 600
  kill -INT "$launcher"
  wait_until grep -q 'Ctrl-C again to kill' err
  kill -INT "$launcher"
  expect_end 130
  expect_line err 'tutti run: told to stop by SIGINT; ending 2 ranks \(Ctrl-C again to kill\)'
}

ends_what_ranks_started() {
  expect_status 6 "$tutti" run -n 2 --grace 1 bash -c \
    'if [ "$TUTTI_RANK" = 1 ]; then until [ -s pid ]; do sleep 0.01; done; exit 6; fi; sleep 60 & echo $! >pid; wait'
  wait_until is_gone "$(cat pid)"
}

no_orphans() {
  "$tutti" run -n 2 sh -c 'echo $$ >"pid.$TUTTI_RANK"; exec sleep 60' >out 2>err &
  launcher=$!
  wait_until test -s pid.0
  wait_until test -s pid.1
  kill -9 "$launcher"
  wait "$launcher" 2>/dev/null || true
  wait_until is_gone "$(cat pid.0)"
  wait_until is_gone "$(cat pid.1)"
}

input_to_rank_zero() {
  echo words | "$tutti" run -n 3 cat >out 2>err || fail "exit status $?"
  [ "$(cat out)" = "[0] words" ] || fail "standard input did not go to rank 0 alone"
}

bad_usage() {
  expect_status 2 "$tutti" run -n 0 true
  grep -q '0 not in range' err || fail "the bad value is not named"
  expect_status 2 "$tutti" run -n 2
  grep -q 'no program given' err || fail "no word about the missing program"
  expect_status 127 "$tutti" run -n 2 ./not-there
  expect_line err "tutti run: cannot run './not-there': No such file or directory"
  expect_status 2 "$tutti" bench all_reduce -b 12X
  grep -q "'12X' is not a size" err || fail "the bad size is not named"
  expect_status 2 "$tutti" bench all_reduce -d float99
  grep -q "'float99' is not known" err || fail "the bad type is not named"
  expect_status 2 "$tutti" bench all_reduce -b 4K -e 1K
  expect_status 2 "$tutti" nonsense
}

secret_is_fresh() {
  expect_status 0 "$tutti" run -n 2 --no-prefix sh -c 'echo "$TUTTI_SECRET"'
  [ "$(sort -u out | wc -l)" -eq 1 ] || fail "ranks have different secrets"
  expect_line out '[0-9a-f]{64}'
  cp out first
  expect_status 0 "$tutti" run -n 2 --no-prefix sh -c 'echo "$TUTTI_SECRET"'
  ! cmp -s out first || fail "two jobs have the same secret"
  TUTTI_SECRET=given expect_status 0 "$tutti" run -n 1 --no-prefix sh -c 'echo "$TUTTI_SECRET"'
  expect_line out given
}

# A file that was named must give a secret, and a poor secret is warned of.
judges_secrets() {
  local run=("$tutti" run -n 2 --no-prefix -- "$tutti" bench all_reduce -b 8 -e 8 -n 1)
  expect_status 1 env TUTTI_SECRET_FILE=./not-there "${run[@]}"
  grep -q "TUTTI_SECRET_FILE='./not-there' cannot be read: No such file or directory" err || fail "no word of the file"
  (umask 077 && : >empty)
  expect_status 1 env TUTTI_SECRET_FILE=empty "${run[@]}"
  grep -q "TUTTI_SECRET_FILE='empty' holds no secret" err || fail "no word of the empty file"
  expect_status 1 env TUTTI_SECRET_FILE=empty "$tutti" env
  (umask 022 && echo 0123456789abcdef0123456789abcdef >open)
  expect_status 0 env TUTTI_SECRET_FILE=open "${run[@]}"
  grep -q "can be read or written by other users (mode 644)" err || fail "a file that all can read was not warned of"
  chmod 600 open
  expect_status 0 env TUTTI_SECRET_FILE=open "${run[@]}"
  ! grep -q secret err || fail "a good file was warned of"
  expect_status 0 env TUTTI_SECRET=short "${run[@]}"
  grep -q 'fewer than 16 can be guessed' err || fail "a short secret was not warned of"
  # Reports are shared: what is secret does not go into them.
  expect_status 0 env TUTTI_SECRET=a-long-enough-secret TUTTI_UNIQUE_ID=holds-a-secret TUTTI_SPIN_US=21 \
    "$tutti" bench all_reduce -t 2 -b 8 -e 8 -n 1 -J report.json
  grep -q TUTTI_SPIN_US=21 report.json || fail "no environment in the report"
  ! grep -q -e a-long-enough-secret -e holds-a-secret report.json || fail "a secret in the report"
}

# With the same launcher, a rank that has another secret is told at once.
refuses_wrong_secret() {
  local port
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=test
  RANK=0 LOCAL_RANK=0 TUTTI_SECRET=0123456789abcdef0123456789abcdef TUTTI_JOIN_TIMEOUT=110 \
    "$tutti" bench all_reduce -b 8 -e 8 -n 1 >out.0 2>err.0 &
  local first=$!
  expect_status 1 env RANK=1 LOCAL_RANK=1 TUTTI_SECRET=fedcba9876543210fedcba9876543210 TUTTI_JOIN_TIMEOUT=110 \
    timeout 60 "$tutti" bench all_reduce -b 8 -e 8 -n 1
  grep -q 'turned us away: it has a different secret' err || fail "no word of the secret"
  kill "$first"
  wait "$first" || true
  [ "$(wc -l <err.0)" -le 2 ] || fail "more than a line a second at rank 0: $(cat err.0)"
}

binds_cores() {
  expect_status 0 "$tutti" run -n 2 --bind --no-prefix sh -c 'nproc'
  [ "$(sort -u out)" = 1 ] || fail "ranks are not pinned to one core each"
}

"$2"
