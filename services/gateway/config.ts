import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { z } from 'zod';
import { type Quotas, quotaNames, quotasSchema } from '#contract';
import { type BlobsConfig, blobsVariables, toBlobsConfig } from '../blobs/settings.ts';
import { ConfigurationError } from '../configuration-error.ts';
import { type DialectName, dialectNames } from './dialects/dialects.ts';
import { librechatVariables, type Signer, toSigner } from './dialects/librechat/settings.ts';
import { type Issuer, issuerVariables, toIssuer } from './dialects/mcp/settings.ts';
import { type DevicesByKind, readDevices } from './drivers/docker/gpus.ts';
import { type KubernetesSettings, kubernetesVariables, toKubernetesSettings } from './drivers/kubernetes/settings.ts';
import { keyId } from './http/admission/auth.ts';
import { type TracingSettings, toTracingSettings, tracingVariables } from './tracing/settings.ts';

const flag = z
  .enum(['0', '1'])
  .default('0')
  .transform((value) => value === '1');
const seconds = (fallback: number, max: number) => z.coerce.number().min(0).max(max).default(fallback);

const webAddress = z.url({ protocol: /^https?$/ });

const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

const isNetwork = (text: string): boolean => {
  const [address = '', bits, ...more] = text.split('/');
  const family = isIP(address);
  const most = family === 4 ? 32 : 128;
  return family !== 0 && more.length === 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most));
};

/** `boxes=5,requestsPerMinute=600` */
const readQuotas = (text: string, context: z.core.$RefinementCtx): Partial<Quotas> => {
  const pairs = listOf(text).map((part) => /^(\w+)=(\d{1,12})$/.exec(part));
  const given = Object.fromEntries(pairs.map((pair) => [pair?.[1] ?? '', Number(pair?.[2])]));
  const parsed = quotasSchema.partial().safeParse(given);
  if (parsed.success) return parsed.data as Partial<Quotas>;
  context.addIssue(`must be a list such as boxes=5,requestsPerMinute=600, with names from ${quotaNames.join(', ')}`);
  return z.NEVER;
};

const isDialect = (name: string): name is DialectName => (dialectNames as string[]).includes(name);

/** `codeboxapi,e2b` */
const readDialects = (text: string, context: z.core.$RefinementCtx): readonly DialectName[] => {
  const names = new Set(listOf(text));
  const unknown = [...names].filter((name) => !isDialect(name));
  if (unknown.length === 0) return [...names].filter(isDialect);
  context.addIssue(`has no dialect ${unknown.join(', ')}; there are ${dialectNames.join(', ')}`);
  return z.NEVER;
};

const environmentSchema = z.object({
  CODEBOX_HOST: z.string().min(1).default('127.0.0.1'),
  CODEBOX_PORT: z.coerce.number().int().min(0).max(65_535).default(8080),
  CODEBOX_DATA_DIR: z.string().min(1).default('.codebox'),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }).optional(),
  CODEBOX_DRIVER: z.enum(['auto', 'docker', 'local', 'kubernetes']).default('auto'),
  CODEBOX_SITE: z
    .string()
    .regex(/^[a-z0-9-]{1,40}$/, 'must be 1 to 40 lower-case letters, digits and hyphens')
    .optional(),
  CODEBOX_REPLACES: z
    .string()
    .regex(/^[0-9a-f]{16}$/, 'must be the 16 hexadecimal digits that the refused gateway printed')
    .optional(),
  CODEBOX_RUNTIME: z
    .string()
    .regex(/^[a-zA-Z0-9._-]+$/)
    .default('runc'),
  CODEBOX_GPUS: z.string().default('').transform(readDevices),
  CODEBOX_BOX_IMAGE: z.string().min(1).default('codebox-box:latest'),
  CODEBOX_FULL_IMAGE: z.string().min(1).optional(),
  CODEBOX_TEMPLATES: z.string().min(1).optional(),
  CODEBOX_MAX_BOXES: z.coerce.number().int().min(1).max(10_000).optional(),
  CODEBOX_MAX_MEMORY_MB: z.coerce.number().int().min(128).max(1_000_000_000).optional(),
  CODEBOX_VOLUMES_MB: z.coerce.number().int().min(0).max(1_000_000_000).optional(),
  CODEBOX_WARM_BOXES: z.coerce.number().int().min(0).max(1000).default(2),
  CODEBOX_QUEUE_SECONDS: seconds(30, 600),
  CODEBOX_START_SECONDS: seconds(60, 600),
  CODEBOX_STOP_SECONDS: seconds(10, 600),
  CODEBOX_RUN_GRACE_SECONDS: seconds(30, 600),
  CODEBOX_SILENCE_SECONDS: z.coerce.number().min(1).max(3600).default(9),
  ...blobsVariables,
  CODEBOX_CHECKPOINT_SECONDS: z.coerce.number().min(0.1).max(86_400).default(30),
  CODEBOX_SWEEP_SECONDS: z.coerce.number().min(0.1).max(60).default(5),
  CODEBOX_PORTS_DOMAIN: z
    .string()
    .max(180)
    .toLowerCase()
    .regex(/^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/, 'must be a domain name')
    .default('localhost'),
  CODEBOX_PORTS_ANSWER_SECONDS: z.coerce.number().min(0.1).max(3600).default(60),
  CODEBOX_DIALECTS: z.string().default('').transform(readDialects),
  CODEBOX_MCP_ORIGINS: z
    .string()
    .default('')
    .transform((text) => listOf(text.toLowerCase()))
    .refine(
      (hosts) => hosts.every((host) => /^[a-z0-9.-]+$/.test(host)),
      'must be host names such as chat.example.com',
    ),
  ...issuerVariables,
  ...librechatVariables,
  CODEBOX_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  CODEBOX_PIP_INDEX_URL: webAddress.optional(),
  CODEBOX_PIP_EXTRA_INDEX_URLS: z
    .string()
    .default('')
    .transform((text) => listOf(text))
    .pipe(z.array(webAddress).max(10)),
  CODEBOX_NPM_REGISTRY: webAddress.optional(),
  CODEBOX_WHEELS_DIR: z.string().min(1).optional(),
  CODEBOX_CA_BUNDLE: z.string().min(1).optional(),
  CODEBOX_FIRST_KEY: z
    .string()
    .refine((key) => keyId(key) !== undefined, 'must be cbx_, 12 letters and digits, _, and 43 of them')
    .optional(),
  CODEBOX_ADMIN_KEY: z.string().min(16, 'must have at least 16 characters').max(512).optional(),
  CODEBOX_ADMIN_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
  CODEBOX_ADMIN_HOST: z.string().min(1).default('127.0.0.1'),
  CODEBOX_OPEN_REQUESTS: z.coerce.number().int().min(1).max(1_000_000).default(4096),
  CODEBOX_READERS: z.coerce.number().int().min(1).max(1_000_000).default(3000),
  CODEBOX_QUOTAS: z.string().default('').transform(readQuotas),
  CODEBOX_IDEMPOTENCY_KEYS: z.coerce.number().int().min(1).max(100_000_000).default(1_000_000),
  CODEBOX_IDEMPOTENCY_MB: z.coerce.number().min(1).max(1_000_000).default(64),
  CODEBOX_TRUSTED_PROXIES: z
    .string()
    .default('')
    .transform((text) => listOf(text))
    .refine((networks) => networks.every(isNetwork), 'must be addresses or networks such as 10.0.0.0/8'),
  CODEBOX_OUTBOUND_ALLOW: z
    .string()
    .default('')
    .transform((text) => listOf(text))
    .refine((networks) => networks.every(isNetwork), 'must be addresses or networks such as 10.0.0.0/8'),
  CODEBOX_WEBHOOK_RETRY_SECONDS: z
    .string()
    .regex(/^\d+(\.\d+)?(,\d+(\.\d+)?){0,19}$/, 'must be up to 20 numbers such as 5,300,1800')
    .default('5,300,1800,7200,18000,36000,36000')
    .transform((text) => listOf(text).map(Number)),
  CODEBOX_WEBHOOK_TIMEOUT_SECONDS: z.coerce.number().min(0.1).max(60).default(15),
  CODEBOX_WEBHOOK_DISABLE_SECONDS: seconds(432_000, 31_536_000),
  CODEBOX_SHARED_PARENT: z
    .enum(['0', '1'])
    .transform((value) => value === '1')
    .optional(),
  CODEBOX_UNSAFE: flag,
  ...kubernetesVariables,
  ...tracingVariables,
});

/** The validated configuration. Every part of the gateway gets only the fields that it uses. */
export interface Config {
  host: string;
  port: number;
  dataDir: string;
  databaseUrl: string | undefined;
  driver: 'auto' | 'docker' | 'local' | 'kubernetes';
  /** The name of the site where boxes run; the name of the driver when undefined. */
  site: string | undefined;
  /** The former place of that site, which no longer exists. */
  replaces: string | undefined;
  runtime: string;
  /** The devices of this host that boxes get for themselves. */
  gpus: DevicesByKind;
  boxImage: string;
  /** The image of the built-in template `full`, which exists only with it. */
  fullImage: string | undefined;
  templatesFile: string | undefined;
  maxBoxes: number | undefined;
  /** The memory that all boxes may use together. */
  maxMemoryMb: number | undefined;
  /** The sum of the sizes of volumes at this host; half of the disk of the data folder when undefined. */
  volumesMb: number | undefined;
  /** The number of warm instances of the built-in template. */
  warmBoxes: number;
  /** How long a request may wait for capacity. */
  queueMs: number;
  startMs: number;
  stopMs: number;
  runGraceMs: number;
  silenceMs: number;
  sweepMs: number;
  /** The store for files of hibernated boxes. */
  blobs: BlobsConfig;
  checkpointMs: number;
  portsDomain: string;
  portResponseMs: number;
  /** The dialects that are served beside `/v1`. */
  dialects: readonly DialectName[];
  /** Hosts whose pages may call the dialect `mcp`. */
  mcpOrigins: readonly string[];
  /** The authorization server of the dialect `mcp`; undefined when it takes API keys only. */
  mcpIssuer: Issuer | undefined;
  /** The LibreChat whose tokens the dialect `librechat` accepts; undefined when it takes API keys only. */
  librechatSigner: Signer | undefined;
  logLevel: string;
  /** The package sources of boxes; the path of the wheels folder is absolute. */
  packages: {
    pipIndexUrl: string | undefined;
    pipExtraIndexUrls: readonly string[];
    npmRegistry: string | undefined;
    wheelsDir: string | undefined;
  };
  /** A PEM file with certificates that boxes trust in addition to the public ones. */
  caBundle: string | undefined;
  /** The API key of the first tenant; one is made when undefined. */
  firstKey: string | undefined;
  /** The operator's key; without it there is no admin API. */
  adminKey: string | undefined;
  /** The port of the admin API and the metrics; undefined when they share the main port. */
  adminPort: number | undefined;
  adminHost: string;
  /** The number of requests that a tenant may have open at once at this gateway. */
  maxOpenRequests: number;
  /** The number of readers of events of runs that a tenant may have at this gateway. */
  maxReaders: number;
  /** The quotas of new tenants. */
  defaultQuotas: Partial<Quotas>;
  /** Bounds on the stored Idempotency-Keys of one tenant. */
  keptKeys: { maxKeys: number; maxResponseBytes: number };
  /** Addresses and networks whose X-Forwarded-For header is trusted. */
  trustedProxies: readonly string[];
  /** Networks of the operator that tenants may have webhooks in. */
  outboundAllow: readonly string[];
  webhooks: { retrySeconds: readonly number[]; timeoutMs: number; disableSeconds: number };
  unsafe: boolean;
  /** Whether box servers are forked from a process that others are forked from; undefined for the default of the driver. */
  sharedParent: boolean | undefined;
  kubernetes: KubernetesSettings;
  /** Undefined when tracing is off. */
  tracing: TracingSettings | undefined;
}

/**
 * Reads the configuration from environment variables; an empty one counts as unset.
 * Throws a ConfigurationError that names every invalid variable and what is wrong with it.
 */
export const readConfig = (env: Record<string, string | undefined>): Config => {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = environmentSchema.safeParse(given);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
    throw new ConfigurationError(`The configuration is invalid.\n  ${faults.join('\n  ')}`);
  }
  const values = parsed.data;
  return {
    host: values.CODEBOX_HOST,
    port: values.CODEBOX_PORT,
    dataDir: resolve(values.CODEBOX_DATA_DIR),
    databaseUrl: values.DATABASE_URL,
    driver: values.CODEBOX_DRIVER,
    site: values.CODEBOX_SITE,
    replaces: values.CODEBOX_REPLACES,
    runtime: values.CODEBOX_RUNTIME,
    gpus: values.CODEBOX_GPUS,
    boxImage: values.CODEBOX_BOX_IMAGE,
    fullImage: values.CODEBOX_FULL_IMAGE,
    templatesFile: values.CODEBOX_TEMPLATES,
    maxBoxes: values.CODEBOX_MAX_BOXES,
    maxMemoryMb: values.CODEBOX_MAX_MEMORY_MB,
    volumesMb: values.CODEBOX_VOLUMES_MB,
    warmBoxes: values.CODEBOX_WARM_BOXES,
    queueMs: values.CODEBOX_QUEUE_SECONDS * 1000,
    startMs: values.CODEBOX_START_SECONDS * 1000,
    stopMs: values.CODEBOX_STOP_SECONDS * 1000,
    runGraceMs: values.CODEBOX_RUN_GRACE_SECONDS * 1000,
    silenceMs: values.CODEBOX_SILENCE_SECONDS * 1000,
    blobs: toBlobsConfig(values, resolve(values.CODEBOX_DATA_DIR, 'blobs')),
    checkpointMs: values.CODEBOX_CHECKPOINT_SECONDS * 1000,
    sweepMs: values.CODEBOX_SWEEP_SECONDS * 1000,
    portsDomain: values.CODEBOX_PORTS_DOMAIN,
    portResponseMs: values.CODEBOX_PORTS_ANSWER_SECONDS * 1000,
    dialects: values.CODEBOX_DIALECTS,
    mcpOrigins: values.CODEBOX_MCP_ORIGINS,
    mcpIssuer: toIssuer(values),
    librechatSigner: toSigner(values),
    logLevel: values.CODEBOX_LOG_LEVEL,
    packages: {
      pipIndexUrl: values.CODEBOX_PIP_INDEX_URL,
      pipExtraIndexUrls: values.CODEBOX_PIP_EXTRA_INDEX_URLS,
      npmRegistry: values.CODEBOX_NPM_REGISTRY,
      wheelsDir: values.CODEBOX_WHEELS_DIR === undefined ? undefined : resolve(values.CODEBOX_WHEELS_DIR),
    },
    caBundle: values.CODEBOX_CA_BUNDLE,
    firstKey: values.CODEBOX_FIRST_KEY,
    adminKey: values.CODEBOX_ADMIN_KEY,
    adminPort: values.CODEBOX_ADMIN_PORT,
    adminHost: values.CODEBOX_ADMIN_HOST,
    maxOpenRequests: values.CODEBOX_OPEN_REQUESTS,
    maxReaders: values.CODEBOX_READERS,
    defaultQuotas: values.CODEBOX_QUOTAS,
    keptKeys: {
      maxKeys: values.CODEBOX_IDEMPOTENCY_KEYS,
      maxResponseBytes: values.CODEBOX_IDEMPOTENCY_MB * 1024 * 1024,
    },
    trustedProxies: values.CODEBOX_TRUSTED_PROXIES,
    outboundAllow: values.CODEBOX_OUTBOUND_ALLOW,
    webhooks: {
      retrySeconds: values.CODEBOX_WEBHOOK_RETRY_SECONDS,
      timeoutMs: values.CODEBOX_WEBHOOK_TIMEOUT_SECONDS * 1000,
      disableSeconds: values.CODEBOX_WEBHOOK_DISABLE_SECONDS,
    },
    sharedParent: values.CODEBOX_SHARED_PARENT,
    unsafe: values.CODEBOX_UNSAFE,
    kubernetes: toKubernetesSettings(values),
    tracing: toTracingSettings(values),
  };
};
