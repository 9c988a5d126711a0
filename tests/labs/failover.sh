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
# shellcheck source=tests/labs/ranks.sh
. "$(dirname "$0")/ranks.sh"
command -v ss >/dev/null || skip "needs ss; apt install iproute2"
make_rails "$host_count"

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

# Nothing can move; all waits for the rails. On a busy machine the kernel may notice only seconds later that a port is up.
no_rail() {
  local start rail woke
  start=$(milliseconds)
  port_down 1 0
  port_down 1 1
  sleep 1
  woke=$(milliseconds)
  port_up 1 0
  port_up 1 1
  for rail in 0 1; do
    await_carrier "$(host 1)" "rail$rail"
    await_carrier "$(switch "$rail")" edge1
  done
  flows "both rails of host 1 down for $(($(milliseconds) - start)) ms, $((woke - start)) of them asked for"
  start=$(milliseconds)
  silent_loss 2 0
  silent_loss 2 1
  sleep 1
  woke=$(milliseconds)
  heal 2 0
  heal 2 1
  flows "both rails of host 2 silent for $(($(milliseconds) - start)) ms, $((woke - start)) of them asked for"
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

# How long silence may last is for silence.sh.
export TUTTI_HEARTBEAT_TIMEOUT=30
deadline=30
echo "$host_count hosts, 2 rails, seed $seed"
names=()
for number in $(seq "$host_count"); do names+=("$(host "$number")"); done
start_ranks "$program" "${names[@]}"
flows "all well"
each_fault
no_rail
random_flapping
flows "the end"
end_ranks
