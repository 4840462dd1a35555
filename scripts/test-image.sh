#!/usr/bin/env bash
# Makes the image that tests of the sandbox use, from Debian's packages and this machine's node, unless it is there.
set -euo pipefail
name=${1:-iterion-egress-test}
docker image inspect "$name" >/dev/null 2>&1 && exit 0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
debootstrap --variant=minbase \
  --include=ca-certificates,curl,git,iproute2,iptables,netcat-openbsd,python3-minimal bookworm "$folder/root" \
  >"$folder/log" || { tail -n 20 "$folder/log" >&2; exit 1; }
# Lists and packages that were fetched are of no use in a container without a network.
rm -rf "$folder/root/var/cache/apt/archives" "$folder/root/var/lib/apt/lists"
install -m 755 "$(command -v node)" "$folder/root/usr/local/bin/node"
tar -C "$folder/root" -c . | docker import - "$name" >/dev/null
