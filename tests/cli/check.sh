# shellcheck shell=bash
# What tests of the tutti command share, for scripts to source: a folder of their own, which is removed at the end, and
# expectations that show what the command wrote.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset TUTTI_SECRET TUTTI_SECRET_FILE

fail() {
  echo "FAILED: $*" >&2
  for file in out err job; do
    if [ -f "$file" ]; then sed "s/^/  $file: /" "$file" >&2; fi
  done
  exit 1
}

# expect_status WANTED COMMAND...: runs it with its output in out and err.
expect_status() {
  local wanted=$1 got=0
  shift
  "$@" >out 2>err || got=$?
  [ "$got" -eq "$wanted" ] || fail "exit status $got, expected $wanted: $*"
}

expect_line() {
  grep -qxE -- "$2" "$1" || fail "no line '$2' in $1"
}

# Waits for a condition, not for a time.
wait_until() {
  local deadline=$((SECONDS + 60))
  until "$@" 2>/dev/null; do
    [ "$SECONDS" -lt "$deadline" ] || fail "not within 60 s: $*"
    sleep 0.01
  done
}

is_gone() {
  [ ! -d "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"
}
