#!/usr/bin/env bash
# The container engine that tests run against: `start FOLDER` unless one answers already, `stop FOLDER` what was started.
set -euo pipefail
folder=${2:?usage: docker-engine.sh start|stop FOLDER}
pid_file=$folder/docker.pid

case ${1:-} in
start)
  if docker info >/dev/null 2>&1; then
    echo 'a container engine answers already'
    exit 0
  fi
  mkdir -p "$folder"
  dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$pid_file" \
    >"$folder/docker.log" 2>&1 &
  for _ in $(seq 120); do
    docker info >/dev/null 2>&1 && exit 0
    sleep 0.5
  done
  tail -n 20 "$folder/docker.log" >&2
  echo 'the container engine does not answer' >&2
  exit 1
  ;;
stop)
  [ -e "$pid_file" ] || exit 0
  pid=$(cat "$pid_file")
  kill "$pid"
  for _ in $(seq 60); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.5
  done
  # The engine leaves the namespace of the host's own network mounted.
  grep -o " $folder[^ ]*" /proc/self/mounts | sort -r | xargs -r umount -l || true
  rm -rf "$folder"
  ;;
*)
  echo 'usage: docker-engine.sh start|stop FOLDER' >&2
  exit 2
  ;;
esac
