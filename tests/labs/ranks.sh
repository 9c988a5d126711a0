# shellcheck shell=bash
# Ranks that run collectives while their ports fail, for scripts to source, after rails.sh. `start_ranks PROGRAM NAME...`
# starts a failover_rank on each host of make_rails, in order; ranks with the same name believe to be on one machine.
# Then `flows WHAT` sees operations go on, `stop_ranks` stops them and `end_ranks` ends the script, too.
#
# The environment makes the ranks behave like a user's job, in every lab that uses this file:
#   LAB_PAUSE_MS   milliseconds without a call after each operation
#   LAB_CHURN=1    buffers are allocated and freed for each operation
#   LAB_FILES      descriptors that a rank may have
#   LAB_BUSY       busy loops beside the ranks
folder=
ranks=()
loops=()
clean() {
  [ ${#ranks[@]} -gt 0 ] && kill "${ranks[@]}" 2>/dev/null
  [ ${#loops[@]} -gt 0 ] && kill "${loops[@]}" 2>/dev/null
  [ -n "$folder" ] && rm -rf "$folder"
}

# Each ends by itself after a while, whatever becomes of this script, and has a session of its own: bench/lab.py
# says why.
start_busy_loops() {
  local number
  [ ${#loops[@]} -eq 0 ] || return 0
  for number in $(seq "${LAB_BUSY:-0}"); do
    "${usual[@]}" setsid timeout 1200 bash -c 'while :; do :; done' &
    loops+=($!)
  done
}

between_ms=${LAB_PAUSE_MS:-0}
between_ms=${between_ms%.*}
longest=$((60 + between_ms / 10))  # seconds that ranks run: a lab sees some hundred operations

start_ranks() {
  local program=$1 rank=0 name
  shift
  local as_job=()
  [ -z "${LAB_PAUSE_MS:-}" ] || as_job+=(--pause-ms "$LAB_PAUSE_MS")
  [ -z "${LAB_CHURN:-}" ] || as_job+=(--churn)
  start_busy_loops
  [ -n "$folder" ] || folder=$(mktemp -d)
  rm -f "$folder"/*
  export TUTTI_SIZE=$# TUTTI_ADDRESS=198.18.0.1:29400 TUTTI_INTERFACES=${TUTTI_INTERFACES:-rail}
  TUTTI_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
  export TUTTI_SECRET
  for name in "$@"; do
    TUTTI_RANK=$rank TUTTI_HOST_ID=$name ip netns exec "$(host $((rank + 1)))" \
      "${usual[@]}" prlimit --nofile="${LAB_FILES:-1024}" timeout "$((longest + 20))" "$program" \
      --collective mixed --bytes 1048576 --depth 2 --seconds "$longest" --timeout "${deadline:-15}" "${as_job[@]}" \
      --log "$folder/log$rank" --stop-file "$folder/stop" 2> >(tee "$folder/errors$rank" >&2) &
    ranks+=($!)
    rank=$((rank + 1))
  done
}

fail() {
  echo "failed: $1${seed:+ (seed $seed)}" >&2
  exit 1
}

milliseconds() { echo $((${EPOCHREALTIME/./} / 1000)); }

operations() { cat "$folder"/log* 2>/dev/null | wc -l; }

all_run() {
  local rank
  for rank in "${!ranks[@]}"; do
    kill -0 "${ranks[$rank]}" 2>/dev/null || fail "$1: rank $rank ended"
  done
}

# Operations go on: so many more are done that none of them was under way.
flows() {
  local what=$1 from start more=$((8 * ${#ranks[@]}))
  [ "$between_ms" -lt 500 ] || more=$((2 * ${#ranks[@]}))
  start=$(milliseconds)
  from=$(operations)
  until [ "$(operations)" -ge $((from + more)) ]; do
    all_run "$what"
    [ $(($(milliseconds) - start)) -lt $((10000 + 3 * between_ms)) ] || fail "$what: nothing moves for 10 s"
    sleep 0.02
  done
  echo "$what: $(($(milliseconds) - start)) ms until $more more operations were done"
}

stop_ranks() {
  local rank status=0
  touch "$folder/stop"
  for rank in "${!ranks[@]}"; do
    wait "${ranks[$rank]}" || { echo "rank $rank failed${seed:+ (seed $seed)}"; status=1; }
  done
  ranks=()
  return $status
}

end_ranks() {
  stop_ranks
  exit
}
