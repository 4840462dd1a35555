import tap from 'tap'
import { chooseContainer } from '../../src/sandbox/choose-container.ts'
import { blockOf } from '../support/sandbox-block.ts'

const BUILD = { dockerfile: 'Dockerfile', context: '.', args: {} }

void tap.test('the nearest one that names a container is taken', async (t) => {
  const workflow = blockOf({ image: 'own:1' })
  const repository = { file: 'r.json', image: 'repository:1' }
  const both = { flag: 'flag:1', env: 'env:1', version: '1.2.3' }
  const { flag: _, ...variable } = both
  t.strictSame(chooseContainer({ workflow, repository, defaultImage: both }), {
    from: 'block',
    image: 'own:1',
  })
  const built = { workflow: blockOf({ build: BUILD }), repository, defaultImage: both }
  t.strictSame(chooseContainer(built), { from: 'block', build: BUILD })
  t.strictSame(chooseContainer({ workflow: blockOf(), repository, defaultImage: both }), {
    from: 'repository',
    image: 'repository:1',
  })
  t.strictSame(
    chooseContainer({
      workflow: undefined,
      repository: { file: 'r.json', build: BUILD },
      defaultImage: both,
    }),
    { from: 'repository', build: BUILD },
  )
  const bare = { workflow: undefined, repository: { file: 'r.json' } }
  t.strictSame(chooseContainer({ ...bare, defaultImage: both }), { from: 'flag', image: 'flag:1' })
  t.strictSame(chooseContainer({ ...bare, defaultImage: variable }), {
    from: 'env',
    image: 'env:1',
  })
  t.strictSame(chooseContainer({ workflow: undefined, defaultImage: { version: '1.2.3' } }), {
    from: 'default',
    image: 'ghcr.io/socialgouv/iterion-sandbox-slim:1.2.3',
  })
})

void tap.test(
  'a default image that cannot be one is refused, also where none is needed',
  async (t) => {
    const workflow = blockOf({ image: 'own:1' })
    for (const image of ['', '-v/:/h', 'a b', 'a\n']) {
      const shown = JSON.stringify(image)
      t.throws(() => chooseContainer({ workflow, defaultImage: { flag: image, version: '1' } }), {
        code: 'OPTION_INVALID',
        message: `--sandbox-default-image ${shown}: that cannot be the name of an image`,
      })
      t.throws(() => chooseContainer({ workflow, defaultImage: { env: image, version: '1' } }), {
        code: 'OPTION_INVALID',
        message: `ITERION_SANDBOX_DEFAULT_IMAGE=${shown}: that cannot be the name of an image`,
      })
    }
  },
)
