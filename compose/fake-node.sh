#!/bin/bash
# A GPU machine without GPUs: a fake engine on port 8000, and the agent, which reads it, NVML and
# the machine's files as it would on a real one. Set NODE, RACK, GPU_KIND, MODEL and
# KV_BYTES_PER_TOKEN.
set -euo pipefail

readonly MACHINE=/tmp/machine AGENT=/tmp/agent.yaml START_S=30

stopping=
stop() { kill -TERM $(jobs -p) 2>/dev/null || true; }
trap 'stopping=1; stop' TERM INT
trap stop EXIT

isocost fake-node --name "$NODE" --listen 0.0.0.0:8000 --machine "$MACHINE" \
  --model "$MODEL" --gpu-kind "$GPU_KIND" &

# An agent is told the UUID of its GPU, as `nvidia-smi -L` lists it on a real machine.
until gpu=$(sed -n "s/^gpus=/GPU-/p" "$MACHINE/nvml/$NODE" 2>/dev/null) && [[ $gpu ]]; do
  ((SECONDS < START_S)) || { echo "fake-node: no engine after $START_S s" >&2; exit 3; }
  [[ ! $stopping ]] || exit 0
  [[ $(jobs -r) ]] || exit 3
  sleep 0.1
done
# Of this container, IPv4.
address=$(hostname -i | grep -oE -m 1 '\b[0-9]+(\.[0-9]+){3}\b')

cat >"$AGENT" <<END
name: $NODE
control_plane: control-plane:18000
http: 0.0.0.0:18081
procfs: $MACHINE/proc
sysfs: $MACHINE/sys
consul: {address: "http://consul:8500"}
nodes:
- name: $NODE
  address: ${address%%$'\n'*}:8000
  rack: $RACK
  host: $HOSTNAME
  gpu_kind: $GPU_KIND
  models: [{name: $MODEL, kv_bytes_per_token: $KV_BYTES_PER_TOKEN}]
  metrics_url: http://127.0.0.1:8000/metrics
  gpus: [$gpu]
  network: [$NODE]
  clock_url: http://127.0.0.1:8000/fake/telemetry
END
isocost agent --config "$AGENT" &

# Whichever ends first ends both: a machine that lost one of them is broken, and is started again.
status=0
wait -n || status=$?
stop
wait
[[ ! $stopping ]] || status=0
exit "$status"
