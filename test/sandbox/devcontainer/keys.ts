import tap from 'tap'
import { IGNORED, SILENT } from '../../../src/sandbox/devcontainer/keys.ts'

/** The keys of the reference of devcontainer.json, but those inside of build. */
const REFERENCE = [
  'name forwardPorts portsAttributes otherPortsAttributes containerEnv remoteEnv remoteUser',
  'containerUser updateRemoteUserUID userEnvProbe overrideCommand shutdownAction init privileged',
  'capAdd securityOpt mounts features overrideFeatureInstallOrder customizations image build',
  'appPort workspaceMount workspaceFolder runArgs dockerComposeFile service runServices',
  'initializeCommand onCreateCommand updateContentCommand postCreateCommand postStartCommand',
  'postAttachCommand waitFor hostRequirements secrets $schema',
].flatMap((line) => line.split(' '))

void tap.test(
  'every key of the reference is known, with a reason if it does nothing',
  async (t) => {
    for (const key of REFERENCE) t.ok(SILENT.has(key) || Object.hasOwn(IGNORED, key), key)
    for (const reason of Object.values(IGNORED)) t.match(reason, /^\w[^|]+$/)
  },
)

void tap.test('no key is both', async (t) => {
  for (const key of Object.keys(IGNORED)) t.notOk(SILENT.has(key), key)
})

void tap.test('D-15: nothing is silent that an author would miss', async (t) => {
  t.match(IGNORED['initializeCommand'], /^never run/)
  t.match(IGNORED['features'], /^not supported/)
  for (const key of REFERENCE.filter(
    (one) => one.endsWith('Command') && one !== 'postCreateCommand',
  )) {
    t.ok(Object.hasOwn(IGNORED, key), key)
  }
})
