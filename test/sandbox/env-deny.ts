import tap from 'tap'
import { DENY_CLASS, filterEnvironment, isDenied } from '../../src/sandbox/env-deny.ts'

/** What must be denied whatever the table looks like, one name or more for each of its rows. */
const DENIED = [
  'ANTHROPIC_BASE_URL MY_BASE_URL MY_API_BASE MY_API_URL AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 X_ENDPOINT',
  'MY_API_KEY GPG_KEY NPM_TOKEN AWS_SECRET CLIENT_SECRET PG_PASSWORD DB_CREDENTIALS SENTRY_DSN',
  'HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY FTP_PROXY http_proxy https_proxy no_proxy SOCKS_SERVER',
  'NVM_NODEJS_ORG_MIRROR MY_REGISTRY X_INDEX_URL PLAYWRIGHT_DOWNLOAD_HOST',
  'CLAUDE_CONFIG_DIR CLAUDE_CODE_USE_BEDROCK ANTHROPIC_MODEL ANTHROPIC_AUTH_TOKEN MCP_TIMEOUT',
  'OPENAI_ORGANIZATION CODEX_HOME GEMINI_SANDBOX KIMI_X MOONSHOT_X ZAI_X XAI_X GROK_X PI_X ITERION_HOME',
  'AIDER_CONFIG OPENROUTER_X OLLAMA_HOST LANGSMITH_TRACING OTEL_EXPORTER_OTLP_HEADERS',
  'AWS_PROFILE AWS_CONFIG_FILE GOOGLE_APPLICATION_CREDENTIALS CLOUDSDK_CONFIG AZURE_CONFIG_DIR MSI_X',
  'GIT_SSH_COMMAND GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_ASKPASS GIT_PROXY_COMMAND SVN_SSH RSYNC_RSH HGRCPATH',
  'SSH_AUTH_SOCK SSH_ASKPASS GNUPGHOME GH_HOST GITLAB_HOST',
  'npm_config_registry NPM_CONFIG_USERCONFIG YARN_RC_FILENAME PNPM_HOME COREPACK_NPM_X BUN_X DENO_X',
  'PIP_INDEX_URL PIP_CONFIG_FILE UV_INDEX POETRY_X PIPENV_X CONDARC',
  'GOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOINSECURE GOFLAGS GOENV GOTOOLCHAIN GOCACHEPROG',
  'CARGO_HOME CARGO_REGISTRIES_X_INDEX RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTUP_DIST_SERVER',
  'GEM_HOME BUNDLE_GEMFILE COMPOSER_HOME MAVEN_OPTS GRADLE_OPTS MVNW_REPOURL NUGET_PACKAGES NIX_PATH',
  'OPAMFETCH CABAL_CONFIG DOTNET_STARTUP_HOOKS CORECLR_PROFILER_PATH',
  'LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES GLIBC_TUNABLES GCONV_PATH',
  'PYTHONPATH PYTHONSTARTUP PYTHONHOME IPYTHONDIR NODE_OPTIONS NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED',
  'RUBYOPT PERL5OPT PERL5LIB JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS PHPRC PHP_INI_SCAN_DIR LUA_INIT LUA_INIT_5_4',
  'ERL_FLAGS MIX_HOME HOSTALIASES RES_OPTIONS LOCALDOMAIN',
  'OPENSSL_CONF SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  'CURL_HOME WGETRC PATH HOME SHELL ENV BASH_ENV BASH_FUNC_ls%% PROMPT_COMMAND PS4 ZDOTDIR',
  'EDITOR VISUAL PAGER MANPAGER LESSOPEN BROWSER SUDO_ASKPASS RIPGREP_CONFIG_PATH TAR_OPTIONS DBUS_X',
  'XDG_CONFIG_HOME DOCKER_HOST DOCKER_CONFIG KUBECONFIG CONTAINER_HOST VAULT_ADDR',
].flatMap((line) => line.split(' '))

/** What authors set, and what tells nobody anything. */
const ALLOWED = [
  'CI TZ LANG LC_ALL LANGUAGE TERM COLORTERM DEBUG PORT HISTFILE DISPLAY HOSTNAME TMPDIR',
  'DATABASE_URL REDIS_URL POSTGRES_USER PGHOST MIX_ENV RAILS_ENV FLASK_APP DJANGO_SETTINGS_MODULE APP_ENV',
  'GOPATH JAVA_HOME DOTNET_ROOT ANDROID_HOME RUST_BACKTRACE RUST_LOG RUSTUP_HOME NVM_DIR RUBY_VERSION',
  'CC CXX CFLAGS MAKEFLAGS HF_HOME DOTNET_CLI_TELEMETRY_OPTOUT CONTAINER_WORKSPACE_FOLDER',
  'PROXY_NAME KEYBOARD TOKENS MYPATH PATHS ENVIRONMENT GOAL LDAP_URL DIGIT_COUNT',
].flatMap((line) => line.split(' '))

void tap.test('what leads an agent elsewhere, or makes it run something, is denied', async (t) => {
  for (const name of DENIED) t.ok(isDenied(name), name)
})

void tap.test('what authors set for their own programs is not denied', async (t) => {
  for (const name of ALLOWED) t.notOk(isDenied(name), name)
})

void tap.test('a name is compared without regard to case', async (t) => {
  for (const name of DENIED) {
    t.ok(isDenied(name.toLowerCase()), name.toLowerCase())
    t.ok(isDenied(name[0]?.toLowerCase() + name.slice(1).toUpperCase()), `mixed: ${name}`)
  }
})

void tap.test('every row has a reason and a name, and every pattern is of use', async (t) => {
  const all = DENY_CLASS.flatMap(({ names }) => names)
  for (const { names, reason } of DENY_CLASS) {
    t.ok(names.length > 0, reason)
    t.match(reason, /^[^|]{5,}$/)
  }
  t.equal(new Set(all).size, all.length, 'no pattern stands twice')
  for (const pattern of all) {
    t.match(pattern, /^[A-Z0-9_*]+$/)
    t.notMatch(pattern, /^\*+$/)
    const name = pattern.replaceAll('*', 'X')
    t.ok(isDenied(name), `${pattern} denies ${name}`)
    t.notOk(isDenied(`Q${name.replaceAll('_', '')}Q`), `${pattern} is of whole names`)
  }
})

void tap.test('each row of the table is needed by a name that must be denied', async (t) => {
  for (const { names, reason } of DENY_CLASS) {
    const patterns = names.map((one) => new RegExp(`^${one.replaceAll('*', '.*')}$`, 'i'))
    t.ok(
      DENIED.some((name) => patterns.some((pattern) => pattern.test(name))),
      reason,
    )
  }
})

void tap.test('an environment keeps the rest, and tells names in its order', async (t) => {
  const env = { CI: '1', PATH: '/x', LANG: 'C', ld_preload: '/y', Http_Proxy: 'z' }
  t.strictSame(filterEnvironment(env), {
    kept: { CI: '1', LANG: 'C' },
    denied: ['PATH', 'ld_preload', 'Http_Proxy'],
  })
  t.strictSame(filterEnvironment({}), { kept: {}, denied: [] })
})

void tap.test('a variable with a name of JavaScript’s own is one like another', async (t) => {
  const env = Object.fromEntries([
    ['__proto__', '1'],
    ['constructor', '2'],
  ])
  const { kept, denied } = filterEnvironment(env)
  t.strictSame(Object.entries(kept), Object.entries(env))
  t.strictSame(denied, [])
})

// D-25: the case book drops these. A variable that an agent reads is no reason to refuse a whole repository.
void tap.test(
  'D-25: variables that load code, move credentials or replace the proxy',
  async (t) => {
    const names = [
      'NODE_OPTIONS LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV PYTHONSTARTUP PYTHONPATH PERL5OPT RUBYOPT',
      'JAVA_TOOL_OPTIONS GIT_SSH_COMMAND GIT_CONFIG_COUNT GIT_PROXY_COMMAND GIT_ASKPASS ANTHROPIC_BASE_URL',
      'OPENAI_BASE_URL AWS_ENDPOINT_URL npm_config_registry PIP_INDEX_URL HTTPS_PROXY no_proxy SSL_CERT_FILE',
      'NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED PATH DOCKER_HOST',
    ].flatMap((line) => line.split(' '))
    const env = Object.fromEntries(names.map((name) => [name, 'x']))
    t.strictSame(filterEnvironment({ ...env, MINE: '1' }), { kept: { MINE: '1' }, denied: names })
  },
)

void tap.test('a name of any length is judged at once', async (t) => {
  const started = Date.now()
  for (const name of ['_CA_CERT'.repeat(100_000), `A${'_'.repeat(1_000_000)}`]) isDenied(name)
  t.ok(Date.now() - started < 3_000)
})
