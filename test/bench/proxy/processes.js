// What processes cost, from /proc: the processor time of a tree of them, and the memory that it holds.
import { readdirSync, readFileSync } from 'node:fs'

/** The ids of a process and of all that it started. */
export function treeOf(root) {
  const children = new Map()
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const stat = read(`/proc/${entry}/stat`)
    // Behind the name, which may hold anything: state, then the parent.
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
    children.set(parent, [...(children.get(parent) ?? []), Number(entry)])
  }
  const all = [root]
  for (let i = 0; i < all.length; i++) all.push(...(children.get(all[i]) ?? []))
  return all
}

/**
 * Nanoseconds that a tree of processes has been on a processor, all of its threads. A thread that has ended is only in the
 * coarse count of its process, in hundredths of a second, which is taken where it is the greater one.
 */
export function cpuOf(root) {
  let sum = 0
  for (const pid of treeOf(root)) sum += Math.max(fineCpuOf(pid), coarseCpuOf(pid) - 2 * TICK_NS)
  return sum
}

const TICK_NS = 1e7

function coarseCpuOf(pid) {
  const stat = read(`/proc/${pid}/stat`)
  const [, , , , , , , , , , , user = 0, system = 0] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
  return (Number(user) + Number(system)) * TICK_NS
}

function fineCpuOf(pid) {
  let sum = 0
  for (const task of list(`/proc/${pid}/task`)) {
    sum += Number(read(`/proc/${pid}/task/${task}/schedstat`).split(' ')[0] ?? 0)
  }
  return sum
}

/** Bytes that are a tree's own, shared pages counted by their share. */
export function memoryOf(root) {
  let sum = 0
  for (const pid of treeOf(root)) {
    const [, kib = 0] = /^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`)) ?? []
    sum += Number(kib) * 1024
  }
  return sum
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // It has ended.
    return ''
  }
}

function list(folder) {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}
