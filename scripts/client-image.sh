#!/usr/bin/env bash
# Makes the image with the programs that are to work behind a door without knowing of it, and with the servers that they are
# clients of: the image of the other tests, Debian's packages, and this machine's npm. Does nothing if the image is there.
set -euo pipefail
name=${1:-iterion-egress-clients}
base=${2:-iterion-egress-test}
docker image inspect "$name" >/dev/null 2>&1 && exit 0

folder=$(mktemp -d)
root=$folder/root
finish() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
mkdir "$root"
container=$(docker create "$base" true)
docker export "$container" | tar -C "$root" -x
docker rm "$container" >/dev/null

# No daemon is started, nothing waits for a disk, and what nobody reads in a container is left out.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
printf '%s\n' force-unsafe-io 'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/man/*' \
  'path-exclude=/usr/share/locale/*' 'path-exclude=/usr/share/icons/*' >"$root/etc/dpkg/dpkg.cfg.d/small"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mount -t proc proc "$root/proc"
inside() { DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 chroot "$root" "$@" >>"$folder/log" 2>&1; }
{
  mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial"
  inside apt-get -q update
  inside apt-get -q install -y --no-install-recommends \
    chromium default-jre-headless openssh-client openssh-server postgresql-client python3-pip python3-requests
  # The server alone, without what makes a cluster of it at once. What it needs besides came with the client and the browser.
  inside sh -c 'cd /tmp && apt-get -q download postgresql-15 && dpkg -x postgresql-15_*.deb / && rm postgresql-15_*.deb'
} || { tail -n 20 "$folder/log" >&2; exit 1; }
umount "$root/proc"
rm -rf "$root/var/cache/apt" "$root/var/lib/apt/lists" "$root/usr/sbin/policy-rc.d" "$root"/etc/ssh/ssh_host_*

npm=$(dirname "$(readlink -f "$(command -v npm)")")/..
mkdir -p "$root/usr/local/lib/node_modules"
cp -rL "$npm" "$root/usr/local/lib/node_modules/npm"
ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
tar -C "$root" -c . | docker import - "$name" >/dev/null
