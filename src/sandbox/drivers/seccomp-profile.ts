// What the kernel does for a sandbox. Engines bring a filter of their own, but old ones let through kinds of sockets that
// know no network namespace, and the ring of io_uring, which makes sockets past every filter.

/** Address families of sockets: each of them ends in the sandbox's own network namespace, or in its own files. */
export const SOCKET_FAMILIES = { unix: 1, inet: 2, inet6: 10, netlink: 16 } as const

/** System calls that are refused, with the reason. What is in neither list is not there: a kernel may be newer. */
export const DENIED_CALLS: readonly { readonly why: string; readonly names: string }[] = [
  {
    why: 'changes the time of the machine',
    names: 'clock_adjtime clock_adjtime64 clock_settime clock_settime64 settimeofday stime',
  },
  {
    why: 'loads code into the kernel',
    names:
      'bpf create_module delete_module finit_module get_kernel_syms init_module kexec_file_load kexec_load query_module',
  },
  {
    why: 'makes or enters namespaces',
    names: 'setns unshare',
  },
  {
    why: 'mounts, or reaches files past mounts',
    names:
      'fsconfig fsmount fsopen fspick mount mount_setattr move_mount name_to_handle_at open_by_handle_at open_tree open_tree_attr pivot_root umount umount2',
  },
  {
    why: 'reads or writes through the ring, past this filter',
    names: 'io_uring_enter io_uring_register io_uring_setup',
  },
  {
    why: 'sockets whose kind this filter cannot see',
    names: 'socketcall',
  },
  {
    why: 'keys of the kernel, which know no namespace',
    names: 'add_key keyctl request_key',
  },
  {
    why: 'looks into other processes or the kernel',
    names: 'fanotify_init kcmp lookup_dcookie perf_event_open pidfd_getfd syslog userfaultfd',
  },
  {
    why: 'memory of the whole machine',
    names:
      'get_mempolicy mbind migrate_pages move_pages set_mempolicy set_mempolicy_home_node swapoff swapon',
  },
  {
    why: 'hardware and the machine itself',
    names: 'acct ioperm iopl quotactl quotactl_fd reboot setdomainname sethostname vhangup',
  },
  {
    why: 'old, or of no use',
    names:
      '_sysctl afs_syscall bdflush break ftime getpmsg gtty idle lock mpx nfsservctl oldolduname prof profil putpmsg security stty sysfs tuxcall ulimit uselib ustat vm86 vm86old vserver',
  },
]

const ALLOWED = `
  _llseek _newselect accept accept4 access adjtimex alarm arch_prctl arm_fadvise64_64 arm_sync_file_range bind
  breakpoint brk cacheflush cachestat capget capset chdir chmod chown chown32 chroot clock_getres
  clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close close_range
  connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait
  epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2
  fadvise64 fadvise64_64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl
  fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstat64 fstatat fstatat64
  fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait futex_waitv
  futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid getegid32
  geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid getppid
  getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname
  getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init
  inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup
  io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset
  landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listxattr listxattrat llistxattr llseek
  lremovexattr lseek lsetxattr lstat lstat64 madvise map_shadow_stack membarrier memfd_create memfd_secret
  mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr
  mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap
  mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat nice oldfstat oldlstat
  oldstat olduname open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
  pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_madvise process_mrelease
  process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read readahead
  readdir readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr
  removexattrat rename renameat renameat2 restart_syscall riscv_flush_icache riscv_hwprobe rmdir rseq
  rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
  rt_sigtimedwait_time64 rt_tgsigqueueinfo s390_guarded_storage s390_pci_mmio_read s390_pci_mmio_write
  s390_runtime_instr s390_sthyi sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
  sched_getparam sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity
  sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop
  semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto set_robust_list set_thread_area
  set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32
  setitimer setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid
  setreuid32 setrlimit setsid setsockopt setuid setuid32 setxattr setxattrat sgetmask shmat shmctl shmdt shmget
  shutdown sigaction sigaltstack signal signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend
  splice ssetmask stat stat64 statfs statfs64 statx swapcontext switch_endian symlink symlinkat sync
  sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun
  timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime timerfd_gettime64
  timerfd_settime timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat
  uretprobe usr26 usr32 utime utimensat utimensat_time64 utimes vfork vmsplice wait4 waitid waitpid write writev
`

/** Bits of `clone` that make namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const NAMESPACE_FLAGS = 0x7e020000
/** Personalities that change nothing about which program is run with which rights. */
const PERSONALITIES = [0x0, 0x8, 0x20000, 0x20008, 0xffffffff]

const EPERM = 1
const ENOSYS = 38

/** One rule of a seccomp profile, in the form that docker and podman read. */
interface SeccompRule {
  readonly names: readonly string[]
  readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  readonly errnoRet?: number
  readonly args?: readonly {
    readonly index: number
    readonly value: number
    readonly valueTwo: number
    readonly op: 'SCMP_CMP_EQ' | 'SCMP_CMP_GT' | 'SCMP_CMP_LT' | 'SCMP_CMP_MASKED_EQ'
  }[]
}

/** The system calls that programs may use, by name. */
export const ALLOWED_CALLS: readonly string[] = ALLOWED.trim().split(/\s+/)

/**
 * The seccomp profile of every sandbox, as JSON. Everything that is not allowed by name is not there (ENOSYS), so that
 * programs fall back as they do on an older kernel. Programs of another word size than the machine's do not run: what their
 * `socketcall` asks for is in memory, where no filter looks.
 */
export function seccompProfile(): string {
  const rules: SeccompRule[] = [
    { names: ALLOWED_CALLS, action: 'SCMP_ACT_ALLOW' },
    ...DENIED_CALLS.map(({ names }) => refuse(names.split(' '), EPERM)),
    // Programs fall back to `clone`, whose flags a filter can see.
    refuse(['clone3'], ENOSYS),
    {
      names: ['clone'],
      action: 'SCMP_ACT_ALLOW',
      args: [{ index: 0, value: NAMESPACE_FLAGS, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }],
    },
    ...PERSONALITIES.map((value) => allowFirst('personality', value)),
    ...Object.values(SOCKET_FAMILIES).map((value) => allowFirst('socket', value)),
    allowFirst('socketpair', SOCKET_FAMILIES.unix),
  ]
  return JSON.stringify({
    defaultAction: 'SCMP_ACT_ERRNO',
    defaultErrnoRet: ENOSYS,
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: [] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: [] },
      { architecture: 'SCMP_ARCH_RISCV64', subArchitectures: [] },
    ],
    syscalls: rules,
  })
}

function refuse(names: readonly string[], errnoRet: number): SeccompRule {
  return { names, action: 'SCMP_ACT_ERRNO', errnoRet }
}

function allowFirst(name: string, value: number): SeccompRule {
  const args = [{ index: 0, value, valueTwo: 0, op: 'SCMP_CMP_EQ' as const }]
  return { names: [name], action: 'SCMP_ACT_ALLOW', args }
}
