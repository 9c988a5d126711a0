#!/usr/bin/env bash
# What `tutti status` and `tutti top` say of real ranks: monitor_test.sh TUTTI FAILURE_RANK CASE
set -euo pipefail
tutti=$1
rank=$2
# shellcheck source=tests/cli/check.sh
. "$(dirname "$0")/check.sh"
TUTTI_MONITOR_DIR=$(mktemp -d /dev/shm/tutti_test.XXXXXX)
export TUTTI_MONITOR_DIR
job=
trap 'if [ -n "$job" ]; then kill "$job" 2>/dev/null || true; wait "$job" 2>/dev/null || true; fi
  if [ -S "$work/tmux" ]; then tmux -S "$work/tmux" kill-server || true; fi
  rm -rf "$work" "$TUTTI_MONITOR_DIR"' EXIT

status_says() {
  "$tutti" status >out 2>err || true
  grep -qE -- "$1" out
}

# Three ranks, of which the last never enters what the others are in. A pipe keeps their input open.
start_hanging_job() {
  cat >rank.sh <<EOS
if [ "\$TUTTI_RANK" = 2 ]; then what=--sit-out; else what="--call all_reduce"; fi
mkfifo "input.\$TUTTI_RANK"
exec "$rank" \$what <>"input.\$TUTTI_RANK"
EOS
  "$tutti" run -n 3 sh rank.sh >job 2>&1 &
  job=$!
}

status_without_recordings() {
  "$tutti" status >out 2>err || fail "exit status $?"
  grep -q "^no recordings in $TUTTI_MONITOR_DIR: " out || fail "nothing said"
}

status_names_missing_rank() {
  start_hanging_job
  wait_until status_says '^note: .*: rank 2 has not entered barrier #1 yet: last done .*; ranks 0-1 wait for it, for'
  grep -qE '^ +0 .* barrier #1 .* rank 2$' out || fail "rank 0 waits for rank 2"
  "$tutti" status >out || fail "exit status $? though nobody is late yet"
  "$tutti" status --json >out
  python3 - <<'EOS' || fail "the JSON"
import json
status = json.load(open("out"))
communicator = status["jobs"][0]["communicators"][0]
assert status["ok"] and len(communicator["ranks"]) == 3
assert [blocker["rank"] for blocker in communicator["blockers"]] == [2]
assert communicator["blockers"][0]["why"] == "not_entered" and communicator["blockers"][0]["waiters"] == [0, 1]
assert communicator["ranks"][0]["pending"][0]["collective"] == "barrier"
assert communicator["ranks"][2]["pending"] == [] and communicator["ranks"][2]["last_operations"]
EOS
  wait_until status_says '^wrong: .*: rank 2 has not entered'
  ! "$tutti" status >out || fail "exit status 0 though a rank is late"
}

status_of_killed_rank() {
  start_hanging_job
  wait_until status_says '^ +0 .* barrier #1 .* rank 2$'
  kill -9 "$(awk '$1 == 0 && $5 == "#1" { print $2 }' out)"
  wait_until status_says '^wrong: .*: rank 0 \(pid [0-9]+\) was killed in barrier #1, worker 0 step [0-9]'
  ! "$tutti" status >out || fail "exit status 0 though a rank was killed"
}

top_once() {
  start_hanging_job
  wait_until status_says '^note: .*: rank 2 has not entered'
  "$tutti" top --once --interval 0.1 >out 2>err || fail "exit status $?"
  grep -qE '^tutti top: 3 processes, 3 ranks; ' out || fail "no head"
  grep -qE ' 0 +[0-9]+ +0 +0 B +100 % +(100|9[0-9]) % +rank 2 +barrier #1 .* 2$' out || fail "rank 0 waits all the time"
}

# Drawn on a screen of its own, ended by a key, and the terminal as before.
top_on_a_terminal() {
  command -v tmux >/dev/null || { echo "skipped: apt-get install tmux"; exit 77; }
  local session=(tmux -S "$work/tmux")
  "${session[@]}" -f /dev/null new-session -d -x 100 -y 12 "stty -a >before; $tutti top --interval 0.1; echo \$? >status
    stty -a >after; exec sleep 60"
  screen_shows() { "${session[@]}" capture-pane -p >out; grep -q "$1" out; }
  wait_until screen_shows '^tutti top: 0 processes'
  screen_shows '^q quit   sort: r rank' || fail "no line of keys at the bottom"
  "${session[@]}" resize-window -x 40 -y 6
  wait_until screen_shows '^q quit   sort: r rank, o operations, b b$'
  "${session[@]}" send-keys q
  wait_until test -s after
  [ "$(cat status)" = 0 ] || fail "exit status $(cat status)"
  diff <(grep -v rows before) <(grep -v rows after) >err || fail "the terminal is not as it was"
  ! screen_shows '^tutti top' || fail "the screen is not as it was"
}

"$3"
