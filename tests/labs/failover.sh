#!/bin/bash
# Collectives of all kinds run on hosts with two rails, a rank each, while everything bad happens to their ports. No
# operation may fail, no bit of a result be wrong, and after each fault operations must go on.
# Usage: failover.sh PATH/failover_rank HOSTS [SEED]     the seed is of the random part
set -u
program=$1
host_count=$2
seed=${3:-$((RANDOM * 32768 + RANDOM))}

# shellcheck source=tests/labs/rails.sh
. "$(dirname "$0")/rails.sh"
folder=
ranks=()
clean() {
  [ ${#ranks[@]} -gt 0 ] && kill "${ranks[@]}" 2>/dev/null
  [ -n "$folder" ] && rm -rf "$folder"
}
command -v ss >/dev/null || skip "needs ss; apt install iproute2"
make_rails "$host_count"
folder=$(mktemp -d)

start_ranks() {
  export TUTTI_SIZE=$host_count TUTTI_ADDRESS=198.18.0.1:29400 TUTTI_INTERFACES=rail
  TUTTI_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
  export TUTTI_SECRET
  local rank name
  for rank in $(seq 0 $((host_count - 1))); do
    name=$(host $((rank + 1)))
    TUTTI_RANK=$rank TUTTI_HOST_ID=$name ip netns exec "$name" timeout 80 "$program" --collective mixed --bytes 1048576 \
      --depth 2 --seconds 60 --timeout 15 --log "$folder/log$rank" --stop-file "$folder/stop" &
    ranks+=($!)
  done
}

fail() {
  echo "failed: $1 (seed $seed)"
  exit 1
}

milliseconds() { echo $((${EPOCHREALTIME/./} / 1000)); }

operations() { cat "$folder"/log* 2>/dev/null | wc -l; }

# Operations go on: so many more are done that none of them was under way.
flows() {
  local what=$1 from start rank
  start=$(milliseconds)
  from=$(operations)
  until [ "$(operations)" -ge $((from + 8 * host_count)) ]; do
    for rank in "${!ranks[@]}"; do
      kill -0 "${ranks[$rank]}" 2>/dev/null || fail "$what: rank $rank ended"
    done
    [ $(($(milliseconds) - start)) -lt 10000 ] || fail "$what: nothing moves for 10 s"
    sleep 0.01
  done
  echo "$what: $(($(milliseconds) - start)) ms until $((8 * host_count)) more operations were done"
}

# Does a thing, sees operations go on, undoes it, and sees them go on again.
while_so() {
  local what=$1 fault=$2 end=$3
  $fault || fail "$what: cannot be done here"
  flows "$what"
  $end
  flows "$what, and healed"
}

each_fault() {
  while_so "port of rail 0 down at host 1" "port_down 1 0" "port_up 1 0"
  while_so "port of rail 1 down at the last host" "port_down $host_count 1" "port_up $host_count 1"
  while_so "rail 1 drops what goes to host 2" "silent_loss 2 1 in" "heal 2 1"
  while_so "rail 1 drops what comes from host 2" "silent_loss 2 1 out" "heal 2 1"
  while_so "rail 0 drops all of host 1" "silent_loss 1 0" "heal 1 0"
  while_so "connections of rail 0 reset at host 1" "reset 1 0" true
  while_so "connections of rail 1 reset at host 2" "reset 2 1" true
  while_so "rail 1 of host 1 slowed to 50 Mb/s" "rate 1 1 50" "rate 1 1 0"
  while_so "host 2 has another address on rail 1" "change_address 2 1 77" "change_address 2 1 2"
}

# Nothing can move; all waits for the rails.
no_rail() {
  port_down 1 0
  port_down 1 1
  sleep 1
  port_up 1 0
  port_up 1 1
  flows "both rails of host 1 down for a second"
  silent_loss 2 0
  silent_loss 2 1
  sleep 1
  heal 2 0
  heal 2 1
  flows "both rails of host 2 silent for a second"
}

random_flapping() {
  local number host rail faults=0 start=$SECONDS
  RANDOM=$((seed % 32768))
  while [ $((SECONDS - start)) -lt 4 ]; do
    host=$((1 + RANDOM % host_count)) rail=$((RANDOM % 2)) number=$((RANDOM % 4))
    case $number in
      0 | 1) port_down "$host" "$rail"; sleep 0.0$((RANDOM % 10)); port_up "$host" "$rail" ;;
      2) silent_loss "$host" "$rail"; sleep 0.$((RANDOM % 3)); heal "$host" "$rail" ;;
      3) reset "$host" "$rail" ;;
    esac
    faults=$((faults + 1))
    sleep 0.$((RANDOM % 3))
  done
  flows "$faults random faults"
}

echo "$host_count hosts, 2 rails, seed $seed"
start_ranks
flows "all well"
each_fault
no_rail
random_flapping
flows "the end"
touch "$folder/stop"
status=0
for rank in "${!ranks[@]}"; do
  wait "${ranks[$rank]}" || { echo "rank $rank failed (seed $seed)"; status=1; }
done
ranks=()
exit $status
