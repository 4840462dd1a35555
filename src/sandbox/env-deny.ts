/** Names of variables, with `*` for any part, and why a repository may not set them. */
export interface DenyEntry {
  readonly names: readonly string[]
  readonly reason: string
}

/**
 * What a repository, or an image that it chose, may not set. A variable of a sandbox is read by the agent as well as by
 * what the agent builds: what leads the agent elsewhere, or makes it run something, is for the operator and the workflow
 * to say. Names are compared without regard to case. docs/sandbox.md has the same table.
 */
export const DENY_CLASS: readonly DenyEntry[] = [
  {
    names: words('*_BASE_URL *_API_BASE *_API_URL *_API_HOST *_BASEURL *_ENDPOINT*'),
    reason: 'moves an API, and with it the credentials that are sent there',
  },
  {
    names: words('*_API_KEY *_KEY *_TOKEN *_SECRET *_PASSWORD *_CREDENTIALS *_DSN'),
    reason: "replaces the operator's credentials by ones whose owner sees what is sent",
  },
  {
    names: words('*_PROXY SOCKS_SERVER SOCKS5_SERVER'),
    reason: 'leads past the proxy of the run, or to another one',
  },
  {
    names: words('*_MIRROR *_REGISTRY *_INDEX_URL *_DOWNLOAD_HOST'),
    reason: 'moves the place that programs are fetched from',
  },
  {
    names: words('CLAUDE_* ANTHROPIC_* MCP_*'),
    reason: 'settings of Claude Code: endpoint, provider, tools, hooks',
  },
  {
    names: words('OPENAI_* CODEX_* CHATGPT_* CLAUDECODE QWEN_* API_TIMEOUT_MS'),
    reason: 'settings of Codex and OpenAI clients',
  },
  { names: words('GEMINI_* ANTIGRAVITY_*'), reason: 'settings of Gemini and its clients' },
  { names: words('KIMI_* MOONSHOT_*'), reason: 'settings of Kimi' },
  { names: words('ZAI_* ZHIPU* GLM_*'), reason: 'settings of Z.ai' },
  { names: words('XAI_* GROK_*'), reason: 'settings of Grok' },
  { names: words('PI_*'), reason: 'settings of Pi' },
  { names: words('ITERION_*'), reason: 'settings of this program and of the engine that calls it' },
  {
    names: words('CURSOR_* COPILOT_* AIDER_* GOOSE_* OPENCODE_* CLINE_* AMP_* CONTINUE_*'),
    reason: 'settings of other agents',
  },
  {
    names: words(`
      OPENROUTER_* LITELLM_* OLLAMA_* MISTRAL_* COHERE_* GROQ_* DEEPSEEK_* DASHSCOPE_*
    `),
    reason: 'settings of other model providers',
  },
  {
    names: words('LANGCHAIN_* LANGSMITH_* LANGFUSE_* OTEL_*'),
    reason: 'sends what the agent says and does to somebody',
  },
  { names: words('AWS_* BEDROCK_*'), reason: 'credentials, endpoints and helpers of AWS' },
  {
    names: words('GOOGLE_* GCLOUD_* GCP_* CLOUDSDK_* VERTEX_* CLOUD_ML_* BOTO_*'),
    reason: 'credentials, endpoints and helpers of Google Cloud',
  },
  { names: words('AZURE_* ARM_* MSI_* IDENTITY_*'), reason: 'the same of Azure' },
  { names: words('GIT_*'), reason: 'settings, hooks and helpers of git: git runs what they name' },
  { names: words('SVN_* HGRCPATH JJ_CONFIG *_RSH'), reason: 'the same of other version control' },
  { names: words('SSH_* GNUPGHOME'), reason: 'programs, keys and sockets of ssh and gpg' },
  { names: words('GH_* GITHUB_* GITLAB_* GLAB_* HUB_*'), reason: 'hosts of forge clients' },
  {
    names: words('NPM_* YARN_* PNPM_* COREPACK_* BUN_* DENO_*'),
    reason: 'registries, scripts and settings of package managers for JavaScript',
  },
  {
    names: words('PIP_* PIPX_* PIPENV_* UV_* POETRY_* PDM_* CONDA_CHANNELS CONDARC MAMBARC'),
    reason: 'indexes and settings of package managers for Python',
  },
  {
    names: words(`
      GOCACHEPROG GODEBUG GOPROXY GONOPROXY GOSUMDB GONOSUMDB GONOSUMCHECK GOPRIVATE
      GOINSECURE GOAUTH GOENV GOFLAGS GOROOT GOTOOLCHAIN GOTOOLDIR GOVCS GOWORK
    `),
    reason: 'moves modules of Go, switches their checks off, or names programs that go runs',
  },
  {
    names: words(`
      CARGO_* RUSTC* RUSTDOC* RUSTFLAGS RUSTUP_DIST_* RUSTUP_UPDATE_ROOT RUSTUP_TOOLCHAIN
    `),
    reason: 'registries, wrappers and programs of Cargo',
  },
  { names: words('GEM_* BUNDLE_* BUNDLER_*'), reason: 'sources and settings of RubyGems' },
  { names: words('COMPOSER_*'), reason: 'repositories and settings of Composer' },
  {
    names: words(`
      MAVEN_OPTS MAVEN_ARGS MAVEN_SETTINGS* GRADLE_OPTS GRADLE_USER_HOME ANT_OPTS SBT_OPTS
      JVM_OPTS MVNW_* COURSIER_*
    `),
    reason: 'arguments of builds on Java: they load agents',
  },
  {
    names: words(`
      NUGET_* DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE CORECLR_* COR_*
    `),
    reason: 'sources of NuGet, and code that .NET loads',
  },
  { names: words('NIX_* HOMEBREW_* APT_* DPKG_*'), reason: 'sources of system packages' },
  {
    names: words('OPAM* CABAL_* STACK_* CONAN_* PUB_* LUAROCKS_*'),
    reason: 'sources and settings of other package managers',
  },
  {
    names: words('LD_* DYLD_* GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH'),
    reason: 'code that every program loads',
  },
  {
    names: words('PYTHON* _PYTHON_* PYTEST_* PYENV_ROOT IPYTHONDIR'),
    reason: 'code that Python loads',
  },
  { names: words('NODE_*'), reason: 'code that Node.js loads, and its trust' },
  { names: words('RUBYOPT RUBYGEMS_* IRBRC RUBYLIB RUBYSHELL'), reason: 'code that Ruby loads' },
  { names: words('PERL5* PERL_* PERLLIB'), reason: 'code that Perl loads' },
  {
    names: words(`
      JAVA_TOOL_OPTIONS OPENJ9_JAVA_OPTIONS IBM_JAVA_OPTIONS LEIN_* JAVA_OPTS JAVA_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH
    `),
    reason: 'code that Java loads',
  },
  { names: words('PHP* LUA_* TCLLIBPATH GUILE_* R_* JULIA_*'), reason: 'the same of others' },
  {
    names: words('ERL_* ELIXIR_* MIX_HOME MIX_EXS MIX_ARCHIVES MIX_PATH HEX_* REBAR_*'),
    reason: 'the same of Erlang',
  },
  {
    names: words('HOSTALIASES RES_OPTIONS LOCALDOMAIN RESOLV_* NSS_*'),
    reason: 'how names are resolved',
  },
  {
    names: words(`
      OPENSSL_* SSL_* SSLKEYLOGFILE *_CA_BUNDLE *_CA_FILE *_CA_CERT* *_CACERT* *_CAINFO
      *_CERT_FILE *_CERT_DIR *_SSL_ROOTS_*
    `),
    reason: 'whose certificates are trusted, and whether any is asked for',
  },
  { names: words('CURL_* WGETRC NETRC SYSTEM_WGETRC'), reason: 'settings of curl and wget' },
  {
    names: words('PATH HOME SHELL USER LOGNAME PWD OLDPWD IFS CDPATH GLOBIGNORE'),
    reason: 'which program a name means, and where settings are',
  },
  {
    names: words(`
      ENV BASH_* BASHOPTS SHELLOPTS PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 ZDOTDIR FPATH KSH_*
      FISH_* INPUTRC COMMAND_NOT_FOUND*
    `),
    reason: 'what shells run when they start, or while they run',
  },
  {
    names: words(`
      EDITOR VISUAL PAGER *_PAGER MANPAGER *_EDITOR LESS* BROWSER *_ASKPASS TERMINAL VIMINIT
      EXINIT RSYNC_* FZF_* GTK_MODULES GIO_* QT_* STARSHIP_* ELECTRON_* MAKEFILES CONFIG_SITE EMACS* FCEDIT PSQLRC RIPGREP_CONFIG_PATH TAR_OPTIONS DBUS_* DIRENV_* MISE_*
    `),
    reason: 'programs that other programs start',
  },
  { names: words('XDG_*'), reason: 'where programs find their settings' },
  {
    names: words(`
      DOCKER_* BUILDKIT_* BUILDX_* COMPOSE_* CONTAINER_HOST CONTAINER_CONNECTION
      CONTAINER_SSHKEY CONTAINERS_* PODMAN_* KUBE* HELM_* VAULT_* CONSUL_* NOMAD_* TF_CLI_*
      TF_PLUGIN_* TERRAFORM_* PULUMI_* ANSIBLE_*
    `),
    reason: 'engines, clusters and stores of secrets that clients talk to',
  },
]

function words(text: string): string[] {
  return text.trim().split(/\s+/)
}

/** A wildcard pattern as an expression over a whole name. */
function patternOf(names: string): RegExp {
  return new RegExp(`^${names.replaceAll('*', '.*')}$`, 'is')
}

const PATTERNS = DENY_CLASS.flatMap(({ names }) => names.map(patternOf))

/** True for a variable that a repository may not set. */
export function isDenied(name: string): boolean {
  return PATTERNS.some((pattern) => pattern.test(name))
}

/** An environment without what is denied. */
export interface FilteredEnvironment {
  readonly kept: Readonly<Record<string, string>>
  /** The names that were taken out, in the order of the environment. Never a value. */
  readonly denied: readonly string[]
}

/** Takes out of an environment what a repository may not set. */
export function filterEnvironment(env: Readonly<Record<string, string>>): FilteredEnvironment {
  const entries = Object.entries(env)
  return {
    kept: Object.fromEntries(entries.filter(([name]) => !isDenied(name))),
    denied: entries.filter(([name]) => isDenied(name)).map(([name]) => name),
  }
}
