import { z } from 'zod';
import { type CreateBox, createBoxSchema, maxLifetimeSeconds } from '#contract';
import { asked, toTemplate } from './template-names.ts';

/** The longest timeout of a sandbox, and the longest idle time of a box: a sandbox must not end before its timeout. */
const maxTimeoutSeconds = 86_400;
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

/** Every port needs the token of the sandbox, which clients send by themselves when they are given one. */
const publicTraffic = z.literal(false, { error: 'is not supported: ports need the traffic access token' }).nullish();

export const newSandboxSchema = z
  .object({
    templateID: z.string().min(1).max(64),
    timeout: timeoutSchema.optional(),
    metadata: createBoxSchema.shape.metadata.nullish(),
    envVars: createBoxSchema.shape.env.nullish(),
    autoPause: z.boolean().nullish(),
    autoPauseMemory: z.boolean().nullish(),
    autoResume: z.object({ enabled: z.boolean() }).nullish(),
    allow_internet_access: z.boolean().nullish(),
    network: egressSchema
      .extend({ allowPublicTraffic: publicTraffic, httpsPorts: unsupported, maskRequestHost: unsupported })
      .nullish(),
    volumeMounts: z.array(z.unknown()).max(0, 'is not supported').nullish(),
    mcp: unsupported,
    iam: unsupported,
  })
  // Any use resumes a sandbox that has paused itself, and nothing else does.
  .refine(({ autoPause, autoResume }) => !autoResume || autoResume.enabled === (autoPause ?? false), {
    path: ['autoResume', 'enabled'],
    error: 'has to be the same as autoPause',
  });

/** Returns the network that is asked for; undefined for that of the template. */
const toNetwork = (allows: boolean | null | undefined, offersInternet: boolean): CreateBox['network'] => {
  if (allows === false) return 'none';
  // Older clients ask for it by default, so where there is none the sandbox is created without.
  return allows && offersInternet ? 'internet' : undefined;
};

export interface Defaults {
  /** The timeout of a request that has none. */
  seconds: number;
  offersInternet: boolean;
}

/**
 * Converts the request for a sandbox to that for a box. The timeout of a sandbox is an absolute end; one that pauses itself instead does so
 * when it was not used for that long, with its memory if that is asked for.
 */
export const toCreateBox = (
  ask: z.output<typeof newSandboxSchema>,
  { seconds: defaultSeconds, offersInternet }: Defaults,
): CreateBox => {
  const { templateID, timeout = defaultSeconds, metadata, envVars } = ask;
  const seconds = Math.max(1, timeout);
  const network = toNetwork(ask.allow_internet_access, offersInternet);
  return {
    template: toTemplate(templateID),
    metadata: { ...metadata, ...asked(templateID) },
    ...(envVars && { env: envVars }),
    ...(network && { network }),
    ...(ask.autoPause
      ? { onIdle: ask.autoPauseMemory ? 'pause' : 'hibernate', idleSeconds: seconds, maxLifetimeSeconds }
      : { onIdle: 'delete', idleSeconds: maxTimeoutSeconds, maxLifetimeSeconds: seconds }),
  };
};
