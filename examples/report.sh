#!/bin/sh
# A command job without Python: reports a number and a checkpoint with socat. Each line is answered; `ack` and
# `committed` say that it is safe. `muster submit -- sh report.sh`
set -eu

say() {
  # An offer is answered only when the checkpoint is committed, so the other end is waited for.
  printf '%s\n' "$1" | socat -t 60 - "UNIX-CONNECT:$MUSTER_SOCKET" | head -n 1
}

start=0
[ -z "$MUSTER_RESUME" ] || start=$(cat "$MUSTER_RESUME/count.txt")
for step in $(seq $((start + 1)) $((start + 3))); do
  echo "$step" > "$MUSTER_CHECKPOINT_DIR/count.txt"
  say "{\"type\":\"metrics\",\"step\":$step,\"values\":{\"count\":$step}}"
done
say "{\"type\":\"checkpoint\",\"kind\":\"offer\",\"step\":$step,\"path\":\"$MUSTER_CHECKPOINT_DIR/count.txt\"}"
