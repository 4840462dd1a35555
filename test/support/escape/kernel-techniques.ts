import type { Technique } from './technique.ts'

// Around the walls: namespaces, interfaces, devices, kernel interfaces, processes and sockets of this machine.

const NO_RIGHT = { kept: 'no run has the capability or the system call' }
const OWN_NAMESPACE = { kept: 'every run has namespaces of its own' }
const RIGHT = { advisory: NO_RIGHT, open: 'out' } as const
const APART = { advisory: OWN_NAMESPACE, open: 'out' } as const
/** A process seal is one of the network: what else is this machine's is there as for every program of the caller. */
const THERE = {
  process: { left: 'files, devices, processes and the kernel are those of the caller' },
} as const
const RIGHT_HERE = { ...RIGHT, ...THERE }
const APART_HERE = { ...APART, ...THERE }

function sh(
  name: string,
  script: string,
  expected: Pick<Technique, 'advisory' | 'open' | 'process'>,
): Technique {
  return { name, by: 'sh', script, ...expected }
}

/** Opens a file for writing and writes nothing. */
const opens = (path: string) => `(exec 3>>${path}) 2>/dev/null && echo OUT ${path}`

export const KERNEL: readonly Technique[] = [
  sh(
    'a new network namespace with a way back',
    `
unshare -n sh -c "ip link add out type veth peer name esc1 netns $$" && echo OUT
ip link del esc1 2>/dev/null`,
    RIGHT,
  ),
  sh(
    'a network namespace of a user namespace of its own',
    `
unshare -Urn sh -c "ip link add out type veth peer name esc2 netns $$" && echo OUT
ip link del esc2 2>/dev/null`,
    {
      advisory: NO_RIGHT,
      open: { kept: 'a user namespace has no right to the network namespace of its parent' },
    },
  ),
  sh(
    'a route',
    'ip route add 198.51.100.0/24 dev lo && ip route del 198.51.100.0/24 && echo OUT',
    RIGHT,
  ),
  sh(
    'an address',
    'ip address add 198.51.100.1/32 dev lo && ip address del 198.51.100.1/32 dev lo && echo OUT',
    RIGHT,
  ),
  ...['bridge', 'veth'].map((type) =>
    sh(
      `an interface: ${type}`,
      `ip link add esc-${type} type ${type} && ip link del esc-${type} && echo OUT`,
      RIGHT,
    ),
  ),
  sh(
    'an interface: vlan',
    'ip link add link lo name esc-vlan type vlan id 7 && ip link del esc-vlan && echo OUT',
    {
      advisory: NO_RIGHT,
      open: { kept: 'loopback takes no vlan' },
    },
  ),
  sh(
    'an interface: tap',
    'ip tuntap add dev esc-tap mode tap && ip tuntap del dev esc-tap mode tap && echo OUT',
    RIGHT,
  ),
  sh(
    'the network namespace of the first process, and of one of the host',
    `
for one in 1 $PROCESS; do
  nsenter --target $one --net curl -s --max-time 3 --noproxy '*' http://127.0.0.1:$LOOPBACK_PORT/
done`,
    APART,
  ),
  sh(
    'any other network namespace',
    `
own=$(readlink /proc/self/ns/net)
for one in /proc/[0-9]*/ns/net; do
  other=$(readlink $one) || continue
  [ "$other" != "$own" ] && nsenter --net=$one true && echo OUT $other && break
done`,
    APART,
  ),
  sh(
    'the file system of the first process, and of one of the host',
    `
cat /proc/1/root$SECRET_FILE /proc/$PROCESS/root$SECRET_FILE`,
    APART_HERE,
  ),
  sh(
    'the file system of any process',
    `
for one in /proc/[0-9]*/root; do [ -e $one$SECRET_FILE ] && cat $one$SECRET_FILE && break; done`,
    APART_HERE,
  ),
  sh(
    'arguments of programs of the host',
    `cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -a far-side`,
    APART_HERE,
  ),
  sh(
    'environment of programs of the host',
    `cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -a ESCAPE_SECRET`,
    APART_HERE,
  ),
  sh(
    'secrets of another run',
    `cat /proc/[0-9]*/root/run/secrets/* 2>/dev/null | grep -a far-side`,
    APART_HERE,
  ),
  sh('a signal to a program of the host', 'kill -USR1 $PROCESS && echo OUT', APART_HERE),
  {
    name: 'tracing a program of the host',
    by: 'perl',
    script: `
# PTRACE_ATTACH, then PTRACE_DETACH.
if (syscall(101, 16, $ENV{PROCESS} + 0, 0, 0) == 0) {
  waitpid($ENV{PROCESS}, 0);
  syscall(101, 17, $ENV{PROCESS} + 0, 0, 0);
  print "OUT\\n";
}`,
    ...APART_HERE,
  },
  {
    name: 'a file of the host by its handle',
    by: 'perl',
    script: `
# open_by_handle_at: the root folder of the file system that the workspace is on.
opendir(my $folder, '.') or die;
my $handle = pack('LlQL', 8, 1, 2, 0);
$handle = pack('LlLL', 8, 1, 2, 0);
my $opened = syscall(304, fileno($folder), $handle, 65536);
print $opened >= 0 ? "OUT\\n" : "$!\\n";`,
    ...RIGHT_HERE,
  },
  {
    name: 'a program for the kernel',
    by: 'perl',
    script: `
# bpf(BPF_MAP_CREATE) of a map with one entry.
my $attributes = pack('L8', 2, 4, 4, 1, 0, 0, 0, 0);
my $opened = syscall(321, 0, $attributes, length $attributes);
print $opened >= 0 ? "OUT\\n" : "$!\\n";`,
    ...RIGHT_HERE,
  },
  {
    name: 'families of sockets that no namespace holds',
    by: 'perl',
    script: `
# Bluetooth, vsock, the phone ones and their like lead out of a machine by other wires than its network.
for my $family (grep { $_ != 1 && $_ != 2 && $_ != 10 && $_ != 16 && $_ != 17 && $_ != 38 } 3 .. 46) {
  for my $type (1, 2, 3, 5) {
    print "OUT family $family\\n" if socket(my $socket, $family, $type, 0);
  }
  # The same call by the numbers of the x32 interface.
  print "OUT family $family by x32\\n" if syscall(0x40000029, $family, 1, 0) >= 0;
}`,
    advisory: { kept: 'the system call is refused in every run' },
    open: 'out',
    process: { left: 'a process seal has no filter of system calls' },
  },
  {
    name: 'a netlink socket that changes routes',
    by: 'python3',
    script: `
import socket, struct
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
s.settimeout(1)
# RTM_NEWROUTE with an acknowledgement: a route by loopback.
body = struct.pack('=BBBBBBBBI', 2, 24, 0, 0, 254, 4, 253, 1, 0)
body += struct.pack('=HH4B', 8, 1, 203, 0, 113, 0) + struct.pack('=HHI', 8, 4, 1)
s.send(struct.pack('=IHHII', 16 + len(body), 24, 0x605, 1, 0) + body)
code = struct.unpack_from('=i', s.recv(4096), 16)[0]
print('OUT' if code == 0 else code)
if code == 0: s.send(struct.pack('=IHHII', 16 + len(body), 25, 5, 2, 0) + body)`,
    ...RIGHT,
  },
  sh('mounting proc', 'd=$(mktemp -d); mount -t proc none $d && umount $d && echo OUT', RIGHT_HERE),
  sh(
    'mounting sysfs',
    'd=$(mktemp -d); mount -t sysfs none $d && umount $d && echo OUT',
    RIGHT_HERE,
  ),
  sh('mounting over a folder that is read-only', 'mount -o remount,rw /sys && echo OUT', {
    advisory: NO_RIGHT,
    open: 'out',
    ...THERE,
  }),
  sh(
    'the release agent of a cgroup',
    `
d=$(mktemp -d)
mount -t cgroup -o devices none $d || exit
[ -w $d/release_agent ] && echo OUT
umount $d`,
    RIGHT_HERE,
  ),
  sh('the cgroup of the container', opens('/sys/fs/cgroup/pids/pids.max'), {
    advisory: { kept: 'cgroups are read-only in every run' },
    open: { kept: 'the root of the tree has no bound to lift' },
    ...THERE,
  }),
  sh(
    'devices by files of its own',
    `
# The disks, memory, the log of the kernel, loop devices, tunnels. Which of them a kernel has differs.
d=$(mktemp -d)
{ awk '$4 ~ /^(vd|sd|nvme|xvd)/ { print "b", $1, $2 }' /proc/partitions; printf '%s\\n' 'c 1 1' 'c 1 11' 'b 7 0' 'c 10 200'; } |
while read -r kind major minor; do
  rm -f $d/device
  mknod $d/device $kind $major $minor && (exec 3<$d/device) && echo OUT $kind $major $minor
done
rm -r $d
for one in /dev/mem /dev/kmem /dev/port /dev/net/tun /dev/vsock; do [ -r $one ] && (exec 3<$one) && echo OUT $one; done`,
    RIGHT_HERE,
  ),
  sh(
    'the log of the kernel',
    'timeout 1 dd if=/dev/kmsg bs=8192 count=1 iflag=nonblock | grep -q . && echo OUT',
    RIGHT_HERE,
  ),
  ...[
    '/proc/sys/kernel/core_pattern',
    '/proc/sys/vm/overcommit_memory',
    '/proc/sys/net/ipv4/ip_forward',
    '/sys/kernel/mm/ksm/run',
  ].map((path) => sh(`writing to ${path}`, opens(path), RIGHT_HERE)),
  {
    name: 'an abstract socket of the host',
    by: 'node',
    script: `talk({ path: '\\0' + E.ABSTRACT })`,
    ...APART,
  },
  sh(
    'an abstract socket that the network namespace lists',
    `awk '$8 ~ /^@/ { print "OUT " $8 }' /proc/net/unix`,
    {
      advisory: { kept: 'nobody but the run is in its namespace' },
      open: 'out',
    },
  ),
  {
    name: 'a socket file of the host',
    by: 'node',
    script: 'talk({ path: E.UNIX_PATH })',
    advisory: { kept: 'no run has that folder' },
    open: 'out',
  },
  {
    name: 'the socket of the engine',
    by: 'sh',
    script: `
for one in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock /run/podman/podman.sock; do
  [ -S $one ] && curl -s --max-time 3 --unix-socket $one http://engine/version | grep -q Version && echo OUT $one
done`,
    advisory: { kept: 'no run has that socket' },
    open: 'out',
  },
  {
    name: 'sockets of the door',
    by: 'sh',
    script: `
find / -xdev \\( -name 'iterion-egress-*' -o -name door.sock -o -path '*/door/*' \\) -type s 2>/dev/null | sed 's/^/OUT /'
cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -aqE '[r]elay-program|[n]etns-helper' && echo OUT`,
    advisory: { kept: 'there is none' },
    process: { left: 'its helper is in sight where /proc cannot be mounted anew' },
    open: { left: 'what other runs of this machine do is not of this test' },
  },
  ...['127.0.0.1', '0.0.0.0', '::', '::ffff:127.0.0.1'].map((host): Technique => ({
    name: `taking over the door as ${host}`,
    by: 'python3',
    script: `
import os, socket
family = socket.AF_INET6 if ':' in '${host}' else socket.AF_INET
s = socket.socket(family, socket.SOCK_STREAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try:
  s.bind(('${host}', int(os.environ['PROXY_PORT'])))
  s.listen(5)
  print('OUT', s.getsockname())
except OSError as error: print(error)`,
    advisory: { left: 'the proxy does not listen inside' },
    open: { left: 'the proxy does not listen inside' },
  })),
]
