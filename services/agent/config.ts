import { resolve } from 'node:path';
import { z } from 'zod';
import { type NetworkPolicy, networkPolicySchema } from '#contract';
import { type BlobsConfig, blobsVariables, toBlobsConfig } from '../blobs/settings.ts';
import { ConfigurationError } from '../configuration-error.ts';
import { type ModelSettings, modelVariables, toModelSettings } from './models/settings.ts';
import type { KeptBounds } from './store/blobs.ts';

const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim().toLowerCase())
    .filter((part) => part !== '');

const environmentSchema = z.object({
  CODEBOX_URL: z.url({ protocol: /^https?$/ }).default('http://localhost:8080'),
  CODEBOX_API_KEY: z.string().min(1).optional(),
  CODEBOX_API_KEY_FILE: z.string().min(1).optional(),
  CODEBOX_AGENT_HOST: z.string().min(1).default('127.0.0.1'),
  CODEBOX_AGENT_PORT: z.coerce.number().int().min(0).max(65_535).default(8090),
  CODEBOX_AGENT_METRICS_PORT: z.coerce.number().int().min(1).max(65_535).optional(),
  CODEBOX_AGENT_OPEN: z.enum(['0', '1']).optional(),
  CODEBOX_AGENT_HOSTS: z.string().default('').transform(listOf),
  CODEBOX_AGENT_DATA_DIR: z.string().min(1).optional(),
  CODEBOX_AGENT_PAGE: z.string().min(1).optional(),
  CODEBOX_DATA_DIR: z.string().min(1).default('.codebox'),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }).optional(),
  ...blobsVariables,
  CODEBOX_KEPT_CHAT_MB: z.coerce.number().int().min(1).max(1_048_576).default(1024),
  CODEBOX_KEPT_MB: z.coerce.number().int().min(1).max(1_048_576).default(10_240),
  CODEBOX_CHAT_NETWORK: networkPolicySchema.optional(),
  CODEBOX_LINK_SECONDS: z.coerce.number().int().min(1).max(604_800).default(3600),
  CODEBOX_STOP_SECONDS: z.coerce.number().min(0).max(600).default(10),
  CODEBOX_LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  ...modelVariables,
});

/** The agent's configuration, validated once. Every part receives only the fields that it uses. */
export interface Config {
  /** The gateway and the agent's key for it: given, or in a file that the gateway may still have to write. */
  gatewayUrl: string;
  apiKey: string | undefined;
  apiKeyFile: string;
  host: string;
  port: number;
  /** The only port of `/metrics`, which serves nothing else; undefined for the main one. */
  metricsPort: number | undefined;
  /** Whether browsers are admitted without a key. */
  isOpen: boolean;
  /** Host names under which requests without a key are accepted; any when empty. */
  hosts: readonly string[];
  dataDir: string;
  /** The folder of the built page; without it, nothing is served at `/`. */
  pageDir: string | undefined;
  databaseUrl: string | undefined;
  /** Where copies of pictures and files are stored. */
  blobs: BlobsConfig;
  kept: KeptBounds;
  /** The network of new boxes of chats; undefined for that of their template. */
  chatNetwork: NetworkPolicy | undefined;
  linkSeconds: number;
  models: ModelSettings;
  stopMs: number;
  logLevel: string;
}

const mebibyte = 1024 * 1024;
const loopback = new Set(['127.0.0.1', '::1', 'localhost']);
const loopbackNames = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Reads the configuration from environment variables; an empty variable counts as unset. Throws a ConfigurationError
 * that names every invalid variable and its fault.
 */
export const readConfig = (env: Record<string, string | undefined>): Config => {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = environmentSchema.safeParse(given);
  if (!parsed.success) {
    const faults = parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
    throw new ConfigurationError(`The configuration of the agent is invalid.\n  ${faults.join('\n  ')}`);
  }
  const values = parsed.data;
  const dataDir = resolve(values.CODEBOX_AGENT_DATA_DIR ?? values.CODEBOX_DATA_DIR);
  const isLocal = loopback.has(values.CODEBOX_AGENT_HOST);
  return {
    gatewayUrl: values.CODEBOX_URL,
    apiKey: values.CODEBOX_API_KEY,
    apiKeyFile: resolve(values.CODEBOX_API_KEY_FILE ?? `${dataDir}/dev-key`),
    host: values.CODEBOX_AGENT_HOST,
    port: values.CODEBOX_AGENT_PORT,
    metricsPort: values.CODEBOX_AGENT_METRICS_PORT,
    isOpen: values.CODEBOX_AGENT_OPEN === undefined ? isLocal : values.CODEBOX_AGENT_OPEN === '1',
    hosts: [...(isLocal ? loopbackNames : []), ...values.CODEBOX_AGENT_HOSTS],
    dataDir,
    pageDir: values.CODEBOX_AGENT_PAGE === undefined ? undefined : resolve(values.CODEBOX_AGENT_PAGE),
    databaseUrl: values.DATABASE_URL,
    blobs: toBlobsConfig(values, resolve(dataDir, 'blobs')),
    models: toModelSettings(values),
    kept: {
      chatBytes: values.CODEBOX_KEPT_CHAT_MB * mebibyte,
      ownerBytes: values.CODEBOX_KEPT_MB * mebibyte,
    },
    chatNetwork: values.CODEBOX_CHAT_NETWORK,
    linkSeconds: values.CODEBOX_LINK_SECONDS,
    stopMs: values.CODEBOX_STOP_SECONDS * 1000,
    logLevel: values.CODEBOX_LOG_LEVEL,
  };
};
