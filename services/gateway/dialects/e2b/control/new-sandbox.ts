import { z } from 'zod';
import { type CreateBox, createBoxSchema, defaultTemplate, maxLifetimeSeconds } from '#contract';

/** The longest timeout of a sandbox, and the longest idle time of a box: a sandbox must not end before its timeout. */
const maxTimeoutSeconds = 86_400;
/** Names of E2B's own templates, which stand for the default template. */
const ownTemplates = new Set(['base', 'code-interpreter', 'code-interpreter-v1']);

/** Maps a template name of E2B's clients to ours. */
export const toTemplate = (name: string): string => (ownTemplates.has(name) ? defaultTemplate : name);

export const timeoutSchema = z.number().min(0).max(maxTimeoutSeconds).transform(Math.ceil);

/** A field without a counterpart here. It is refused rather than ignored, because callers rely on its effect. */
const unsupported = z.undefined({ error: 'is not supported' }).nullish();

const egressSchema = z.object({
  allowOut: unsupported,
  denyOut: unsupported,
  egressProxy: unsupported,
  rules: unsupported,
});

export const networkSchema = egressSchema.extend({ allow_internet_access: z.boolean().nullish() });

export const newSandboxSchema = z.object({
  templateID: z.string().min(1).max(64),
  timeout: timeoutSchema.optional(),
  metadata: createBoxSchema.shape.metadata.nullish(),
  envVars: createBoxSchema.shape.env.nullish(),
  autoPause: z.boolean().nullish(),
  allow_internet_access: z.boolean().nullish(),
  network: egressSchema.extend({ maskRequestHost: unsupported }).nullish(),
  volumeMounts: z.array(z.unknown()).max(0, 'is not supported').nullish(),
  mcp: unsupported,
  iam: unsupported,
});

/**
 * Converts the request for a sandbox to that for a box. The timeout of a sandbox is an absolute end; one that pauses itself instead does so
 * when it was not used for that long.
 */
export const toCreateBox = (ask: z.output<typeof newSandboxSchema>, defaultSeconds: number): CreateBox => {
  const { templateID, timeout = defaultSeconds, metadata, envVars } = ask;
  const seconds = Math.max(1, timeout);
  return {
    template: toTemplate(templateID),
    ...(metadata && { metadata }),
    ...(envVars && { env: envVars }),
    // Otherwise the network is that of the template, because its operator may permit none.
    ...(ask.allow_internet_access === false && { network: 'none' }),
    ...(ask.autoPause
      ? { onIdle: 'hibernate', idleSeconds: seconds, maxLifetimeSeconds }
      : { onIdle: 'delete', idleSeconds: maxTimeoutSeconds, maxLifetimeSeconds: seconds }),
  };
};
