#!/bin/sh
# Starts four ranks of the probe the way the given launcher does, and checks that all of them have joined.
#   run.sh openmpi|mpich|torchrun|slurm|kubernetes|tutti PROBE
# Where a launcher is not installed it says so and exits with 77. torchrun, slurm, kubernetes and tutti are played by
# this script: it sets the variables they set.
how=$1
probe=$2
size=4
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT LOCAL_RANK LOCAL_WORLD_SIZE

need() {
  command -v "$1" >/dev/null 2>&1 && return
  echo "skipped: $1 is not installed (apt install $2)"
  exit 77
}

# A port that is free on this host now, so that parallel test runs do not meet.
free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' 2>/dev/null ||
    echo $((20000 + $$ % 12000))
}

# all COMMAND: one process per rank, in the background, with $rank set; waits for all.
all() {
  pids=
  rank=0
  while [ $rank -lt $size ]; do
    ( "$1" ) &
    pids="$pids $!"
    rank=$((rank + 1))
  done
  for pid in $pids; do wait "$pid" || echo "a rank failed"; done
}

by_torchrun() {
  RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$size MASTER_ADDR=$(hostname) MASTER_PORT=$port \
    TORCHELASTIC_RUN_ID=test-$$ exec "$probe"
}
by_slurm() {
  SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=$size SLURM_LOCALID=$rank SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=$size \
    SLURM_STEP_NODELIST=$(hostname) SLURM_JOB_ID=$$ SLURM_STEP_ID=0 exec "$probe"
}
by_kubernetes() {
  JOB_COMPLETION_INDEX=$rank TUTTI_SIZE=$size MASTER_ADDR=localhost MASTER_PORT=$port TUTTI_SECRET=test exec "$probe"
}
by_tutti() {
  TUTTI_RANK=$rank TUTTI_SIZE=$size TUTTI_ADDRESS=127.0.0.1:$port TUTTI_SECRET=test exec "$probe"
}

port=$(free_port)
case $how in
  openmpi)
    need mpirun.openmpi openmpi-bin
    output=$(mpirun.openmpi --allow-run-as-root --oversubscribe -np $size "$probe" 2>&1)
    ;;
  mpich)
    need mpiexec.hydra mpich
    output=$(mpiexec.hydra -n $size "$probe" 2>&1)
    ;;
  torchrun | slurm | kubernetes | tutti) output=$(all "by_$how" 2>&1) ;;
  *)
    echo "unknown launcher: $how"
    exit 2
    ;;
esac
status=$?
echo "$output"
joined=$(echo "$output" | grep -c ': joined$')
[ $status -eq 0 ] && [ "$joined" -eq $size ] && exit 0
echo "failed: exit status $status, $joined of $size ranks joined"
exit 1
