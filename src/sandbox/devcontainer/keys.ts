/** Keys of devcontainer.json that are read. */
const READ = [
  'image',
  'build',
  'dockerFile',
  'context',
  'containerEnv',
  'remoteEnv',
  'remoteUser',
  'containerUser',
  'workspaceFolder',
  'workspaceMount',
  'mounts',
  'postCreateCommand',
  'runArgs',
  'privileged',
  'capAdd',
  'securityOpt',
  'dockerComposeFile',
]

/** Keys for editors and people: nothing that a run could miss. */
const FOR_EDITORS = ['$schema', 'name', 'customizations', 'settings', 'extensions', 'devPort']

/** Keys of which nothing is to be said. */
export const SILENT: ReadonlySet<string> = new Set([...READ, ...FOR_EDITORS])

const NO_PORTS = 'nobody outside talks to a sandbox'
const NOT_RUN = 'not run: postCreateCommand is the one that is'
const OURS = 'a run decides that itself'

/** Keys that do nothing here, and why. Each use of one is reported. */
export const IGNORED: Readonly<Record<string, string>> = {
  initializeCommand: 'never run: it would run on the host',
  onCreateCommand: NOT_RUN,
  updateContentCommand: NOT_RUN,
  postStartCommand: NOT_RUN,
  postAttachCommand: NOT_RUN,
  waitFor: NOT_RUN,
  features: 'not supported: nothing of it is installed; put it into the image',
  overrideFeatureInstallOrder: 'not supported: no feature is installed',
  service: 'not supported: there is one container',
  runServices: 'not supported: there is one container',
  forwardPorts: NO_PORTS,
  appPort: NO_PORTS,
  portsAttributes: NO_PORTS,
  otherPortsAttributes: NO_PORTS,
  init: 'a sandbox has such a process anyway',
  overrideCommand: "the image's own command never runs",
  shutdownAction: 'a sandbox is always removed',
  updateRemoteUserUID: OURS,
  userEnvProbe: 'no shell is asked for variables',
  hostRequirements: 'not looked at',
  secrets: 'secrets stand in the workflow',
}
