import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { z } from 'zod';

/** The condition under which a service may start. */
const conditionSchema = z.enum(['service_completed_successfully', 'service_healthy']);

const volumeSchema = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('bind'),
    // A path of the host, or relative to the folder of the file.
    source: z.string().regex(/^\.?\//),
    target: z.string().startsWith('/'),
    read_only: z.boolean().default(false),
    bind: z.strictObject({ propagation: z.enum(['rshared']), create_host_path: z.literal(true) }).optional(),
  }),
  z.strictObject({
    type: z.literal('volume'),
    source: z.string(),
    target: z.string().startsWith('/'),
    read_only: z.boolean().default(false),
  }),
]);

const duration = z
  .string()
  .regex(/^\d+s$/)
  .transform((text) => Number(text.slice(0, -1)) * 1000);

const size = z
  .string()
  .regex(/^\d+m$/)
  .transform((text) => Number(text.slice(0, -1)) * 1024 * 1024);

const serviceSchema = z.strictObject({
  image: z.string(),
  profiles: z.array(z.string()).default([]),
  build: z.strictObject({ context: z.string(), dockerfile: z.string().default('Dockerfile') }).optional(),
  entrypoint: z.array(z.string()).optional(),
  command: z.array(z.string()).optional(),
  user: z.string().optional(),
  environment: z.record(z.string(), z.string()).default({}),
  ports: z.array(z.string().regex(/^127\.0\.0\.1:\d+:\d+$/)).default([]),
  networks: z.array(z.string()).default([]),
  network_mode: z.literal('none').optional(),
  pid: z.literal('host').optional(),
  cap_drop: z.array(z.string()).default([]),
  cap_add: z.array(z.string()).default([]),
  security_opt: z.array(z.string()).default([]),
  device_cgroup_rules: z.array(z.string()).default([]),
  read_only: z.boolean().default(false),
  tmpfs: z.array(z.string()).default([]),
  shm_size: size.optional(),
  volumes: z.array(volumeSchema).default([]),
  healthcheck: z
    .strictObject({
      test: z.array(z.string()),
      interval: duration,
      timeout: duration,
      retries: z.int(),
      start_period: duration,
    })
    .optional(),
  stop_grace_period: duration.optional(),
  restart: z.literal('unless-stopped').optional(),
  logging: z.strictObject({ driver: z.string(), options: z.record(z.string(), z.string()) }).optional(),
  depends_on: z.record(z.string(), z.strictObject({ condition: conditionSchema })).default({}),
});

const fileSchema = z.strictObject({
  name: z.string(),
  services: z.record(z.string(), serviceSchema),
  networks: z.record(z.string(), z.strictObject({ internal: z.boolean() }).nullable()),
  volumes: z.record(z.string(), z.null()),
});

export type ComposeFile = z.infer<typeof fileSchema>;
export type ComposeService = z.infer<typeof serviceSchema>;
export type ComposeVolume = z.infer<typeof volumeSchema>;

/**
 * Reads a compose file as Docker Compose would with these variables. It supports only the keys that our file uses and throws an
 * Error that names any other, so that the file cannot contain what the test does not apply.
 */
export const readComposeFile = async (path: string, env: Record<string, string>): Promise<ComposeFile> => {
  const source: unknown = parse(await readFile(path, 'utf8'), { merge: true });
  if (typeof source !== 'object' || source === null) throw new Error(`${path} is not a compose file.`);
  const own = Object.fromEntries(Object.entries(source).filter(([key]) => !key.startsWith('x-')));
  const parsed = fileSchema.safeParse(interpolate(own, env));
  if (!parsed.success)
    throw new Error(`${path} has keys that this test does not support:\n${z.prettifyError(parsed.error)}`);
  return parsed.data;
};

/** `${NAME:-default}` in every string; an empty variable counts as unset. */
const interpolate = (node: unknown, env: Record<string, string>): unknown => {
  if (typeof node === 'string') {
    const text = node.replace(/\$\{(\w+):-([^}]*)\}/g, (_, name: string, fallback: string) => env[name] || fallback);
    if (text.includes('$')) throw new Error(`Cannot interpolate ${node}`);
    return text;
  }
  if (Array.isArray(node)) return node.map((item) => interpolate(item, env));
  if (typeof node === 'object' && node !== null) {
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, interpolate(value, env)]));
  }
  return node;
};
