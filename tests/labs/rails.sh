#!/bin/bash
# Hosts with several network ports, and everything bad that happens to ports. `make_rails HOSTS [RAILS]` makes 2 to 4
# hosts as network namespaces, named by `host N` (from 1). Each has the interfaces rail0, rail1, ...; a rail is a switch
# that joins its port of all hosts: host N is 198.18.<rail>.N on it. A port of a switch is, from the host inwards:
#
#   host: railR --- switch: portN  edge bridge N  upN --- downN  core bridge
#
# so that each thing that happens to a port has a queue of its own, in each direction, and none changes a carrier but
# port_down. Sourced, it gives the functions below. Run, `rails.sh HOSTS [RAILS]`, it makes the rails, prints a line
# `host N NAMESPACE` for each host and then `ready`, and obeys the lines of its input: a function and its arguments,
# each answered by `done`, or by `failed`. At the end of its input all is removed.
#
#   port_down HOST RAIL, port_up HOST RAIL           at the host, which sees it; the far hosts see nothing
#   silent_loss HOST RAIL [in|out|both]              the switch drops what goes to the host, what comes from it, or both
#   heal HOST RAIL                                   no loss any more
#   rate HOST RAIL MBIT                              of the port, each way; 0: no limit
#   reset HOST RAIL                                  ends the connections that the host has on the rail
#   reset_all HOST                                   ends those on all rails, at once
#   change_address HOST RAIL NEW                     to 198.18.<rail>.NEW
#   address HOST RAIL                                prints it
#   divide RAIL PART...                              the switch falls apart: host N stays with those of the same PART.
#                                                    Those of part 1 are never apart from each other, also in join
#   join RAIL                                        it is one switch again

# shellcheck source=tests/labs/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"

# What this script does must happen on time, whatever runs beside it: the scheduler has left it waiting for 14 s beside
# two busy loops. So `usual` must stand before every program that is not the script's own.
chrt --fifo --pid 1 $$ >/dev/null 2>&1
# shellcheck disable=SC2034  # for those who source this
usual=(chrt --other 0)

declare -A address_of
hosts=0
rails=0

host() { echo "tutti-$$-host$1"; }
switch() { echo "tutti-$$-rail$1"; }
address() { echo "${address_of[$1.$2]}"; }

make_rails() {
  hosts=$1
  rails=${2:-2}
  command -v tc >/dev/null || skip "needs tc; apt install iproute2"
  local host rail
  for host in $(seq "$hosts"); do
    add_namespace "$(host "$host")"
    plain_tcp "$(host "$host")"
  done
  for rail in $(seq 0 $((rails - 1))); do
    add_namespace "$(switch "$rail")"
    ip -n "$(switch "$rail")" link add core type bridge || skip "this kernel has no bridge"
    ip -n "$(switch "$rail")" link set core up
    for host in $(seq "$hosts"); do plug_in "$host" "$rail"; done
  done
  for rail in $(seq 0 $((rails - 1))); do
    for host in $(seq "$hosts"); do
      await_carrier "$(host "$host")" "rail$rail"
      await_carrier "$(switch "$rail")" "edge$host"
      await_carrier "$(switch "$rail")" "down$host"
    done
  done
}

# BBR takes the first packets through a token bucket for the speed of the rail, and then stands still for 20 to 70 ms
# now and then. A namespace may be refused cubic, reno never.
plain_tcp() {
  ip netns exec "$1" sh -c 'cd /proc/sys/net/ipv4 && echo cubic >tcp_congestion_control ||
    echo reno >tcp_congestion_control' 2>/dev/null
}

plug_in() {
  local host=$1 rail=$2 name switch
  name=$(host "$host")
  switch=$(switch "$rail")
  ip -n "$name" link add "rail$rail" type veth peer name "port$host" netns "$switch" || skip "this kernel has no veth"
  ip -n "$switch" -batch - <<BATCH
link add edge$host type bridge
link add up$host type veth peer name down$host
link set port$host master edge$host
link set up$host master edge$host
link set down$host master core
link set port$host up
link set edge$host up
link set up$host up
link set down$host up
BATCH
  address_of[$host.$rail]=198.18.$rail.$host
  ip -n "$name" addr add "198.18.$rail.$host/24" dev "rail$rail"
  ip -n "$name" link set "rail$rail" up
}

port_down() { ip -n "$(host "$1")" link set "rail$2" down; }
port_up() { ip -n "$(host "$1")" link set "rail$2" up; }

# A bridge blocks a port at once. Changing a queue waits until the kernel has emptied it, beside busy loops for seconds.
silent_loss() {
  local direction=${3:-both} switch
  switch=$(switch "$2")
  case $direction in
    both) bridge -n "$switch" link set dev "port$1" state 0 ;;
    in) tc -n "$switch" qdisc replace dev "port$1" root blackhole ;;
    out) tc -n "$switch" qdisc replace dev "up$1" root blackhole ;;
  esac
}

heal() {
  local switch
  switch=$(switch "$2")
  bridge -n "$switch" link set dev "port$1" state 3
  tc -n "$switch" qdisc del dev "port$1" root 2>/dev/null
  tc -n "$switch" qdisc del dev "up$1" root 2>/dev/null
  return 0
}

# A burst hides burst/rate of time: twice what the kernel hands down at once, and no more.
rate() {
  local shape=(tbf rate "${3}mbit" burst 128kb limit 512kb)
  if [ "$3" = 0 ]; then
    tc -n "$(host "$1")" qdisc del dev "rail$2" root 2>/dev/null
    tc -n "$(switch "$2")" qdisc del dev "down$1" root 2>/dev/null
    return 0
  fi
  tc -n "$(host "$1")" qdisc replace dev "rail$2" root "${shape[@]}" &&
    tc -n "$(switch "$2")" qdisc replace dev "down$1" root "${shape[@]}"
}

# Needs a kernel with INET_DIAG_DESTROY, as Debian's.
reset() { ss -N "$(host "$1")" -K -t state established src "$(address "$1" "$2")" >/dev/null; }

reset_all() { ss -N "$(host "$1")" -K -t state established src 198.18.0.0/16 >/dev/null; }

change_address() {
  ip -n "$(host "$1")" addr del "$(address "$1" "$2")/24" dev "rail$2" || return
  address_of[$1.$2]=198.18.$2.$3
  ip -n "$(host "$1")" addr add "$(address "$1" "$2")/24" dev "rail$2"
}

divide() {
  local rail=$1 switch number=0 part
  switch=$(switch "$rail")
  shift
  for part in "$@"; do
    number=$((number + 1))
    [ "$part" != 1 ] || continue
    if ! ip -n "$switch" link show "core$part" >/dev/null 2>&1; then
      ip -n "$switch" link add "core$part" type bridge || return
      ip -n "$switch" link set "core$part" up
    fi
    ip -n "$switch" link set "down$number" master "core$part" || return
  done
}

join() {
  local number
  for number in $(seq "$hosts"); do ip -n "$(switch "$1")" link set "down$number" master core || return; done
}

obey() {
  local words number
  make_rails "$@"
  for number in $(seq "$hosts"); do echo "host $number $(host "$number")"; done
  echo ready
  while read -ra words; do
    if "${words[@]}"; then echo "done"; else echo "failed"; fi
  done
}

if [ "$0" = "${BASH_SOURCE[0]}" ]; then
  clean() { :; }
  obey "$@"
fi
