#!/bin/bash
# Both rails of a host are silent for a while and heal, beside busy loops that take every core. The control plane must
# find its way back within the heartbeat time-out: nobody is presumed dead, and operations go on.
# Usage: silence.sh PATH/failover_rank [TIMES] [SECONDS]...     each time is silent for the next of SECONDS (1 3)
set -u
program=$1
times=${2:-2}
lengths=("${@:3}")
[ ${#lengths[@]} -gt 0 ] || lengths=(1 3)

# shellcheck source=tests/labs/rails.sh
. "$(dirname "$0")/rails.sh"
# shellcheck source=tests/labs/ranks.sh
. "$(dirname "$0")/ranks.sh"
make_rails 2

export LAB_BUSY=${LAB_BUSY:-$(nproc)}

good=0
slow=0
for number in $(seq "$times"); do
  length=${lengths[$(((number - 1) % ${#lengths[@]}))]}
  deadline=20 start_ranks "$program" "$(host 1)" "$(host 2)"
  flows "run $number: all well"
  began=$(milliseconds)
  silent_loss 2 0
  silent_loss 2 1
  sleep "$length"
  heal 2 0
  heal 2 1
  took=$(($(milliseconds) - began))
  if [ $took -gt $((length * 1000 + 800)) ]; then
    echo "run $number: does not count: healed after $took ms"
    slow=$((slow + 1))
    kill "${ranks[@]}"
    wait "${ranks[@]}" 2>/dev/null
    ranks=()
    continue
  fi
  flows "run $number: both rails silent for $took ms"
  sleep $((6 - length))  # a death that was in the making would show now
  stop_ranks || fail "run $number: a rank failed after $took ms of silence"
  good=$((good + 1))
done
echo "$good of $((times - slow))"
[ "$slow" -lt "$times" ] || skip "this machine is too busy to heal a network in time"
