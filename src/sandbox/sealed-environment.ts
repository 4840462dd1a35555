import { proxyVariables } from './env-file.ts'

/**
 * Variables that lead to a service outside by its socket. All of those are closed inside a sealed process, and a program
 * that finds the variable goes there, and waits or complains, instead of doing without.
 */
const LEADING_OUT: ReadonlySet<string> = new Set([
  // Agents sign for hosts that the policy knows nothing of, and some load libraries at a word.
  'SSH_AUTH_SOCK',
  'SSH_AGENT_PID',
  'GPG_AGENT_INFO',
  'DBUS_SESSION_BUS_ADDRESS',
  'DBUS_SYSTEM_BUS_ADDRESS',
  'DISPLAY',
  'WAYLAND_DISPLAY',
  'WAYLAND_SOCKET',
  'PULSE_SERVER',
  'PIPEWIRE_REMOTE',
  'DOCKER_HOST',
  'DOCKER_CONTEXT',
  'CONTAINER_HOST',
  // A multiplexer or an editor runs commands outside.
  'TMUX',
  'STY',
  'VSCODE_IPC_HOOK_CLI',
  'VSCODE_GIT_IPC_HANDLE',
  'NOTIFY_SOCKET',
  // Its folder is empty and read-only; without it programs make one of their own.
  'XDG_RUNTIME_DIR',
])

/** npm takes these for its own settings, before the variables of the door. */
const NPM_PROXY = /^npm_config_(?:https?[-_])?proxy$|^npm_config_no[-_]?proxy$/i

/**
 * The environment of a sealed process of this machine: the caller's, without what leads out, and with the proxy's.
 *
 * @param env the caller's
 */
export function sealedEnvironment(
  env: Readonly<Partial<Record<string, string>>>,
  proxyUrl: string,
): Record<string, string> {
  const kept: Record<string, string> = {}
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && !LEADING_OUT.has(name) && !NPM_PROXY.test(name)) kept[name] = value
  }
  return { ...kept, ...proxyVariables(proxyUrl) }
}
