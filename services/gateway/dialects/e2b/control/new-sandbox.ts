import { z } from 'zod';
import { type CreateBox, createBoxSchema, maxLifetimeSeconds } from '#contract';
import { asked, openFor, toTemplate } from './marks.ts';
import { isAlwaysDenied } from './private-ranges.ts';

/** The longest timeout of a sandbox, and the longest idle time of a box: a sandbox must not end before its timeout. */
const maxTimeoutSeconds = 86_400;
export const timeoutSchema = z.number().min(0).max(maxTimeoutSeconds).transform(Math.ceil);

/** A field without a counterpart here. It is refused rather than ignored, because callers rely on its effect. */
const unsupported = z.undefined({ error: 'is not supported' }).nullish();

const wholeOnly = 'is not supported: traffic is permitted or denied as a whole';
/** Names of everything that a sandbox could reach. */
const everywhere = ['0.0.0.0/0', '::/0'] as const;
const isEverywhere = (range: string): boolean => everywhere.some((one) => one === range);

const egressSchema = z.object({
  allowOut: z.array(z.enum(everywhere, { error: wholeOnly })).nullish(),
  // What no sandbox reaches is denied already.
  denyOut: z
    .array(z.string().refine((range) => isEverywhere(range) || isAlwaysDenied(range), wholeOnly))
    .max(1000)
    .transform((denied) => denied.filter(isEverywhere))
    .nullish(),
  egressProxy: unsupported,
  rules: unsupported,
});

export const networkSchema = egressSchema.extend({ allow_internet_access: z.boolean().nullish() });

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
      .extend({ allowPublicTraffic: z.boolean().nullish(), httpsPorts: unsupported, maskRequestHost: unsupported })
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

type Egress = z.output<typeof networkSchema>;

/** Whether a request permits all traffic by name; at E2B that prevails over what it denies. */
const permitsAll = ({ allowOut }: Pick<Egress, 'allowOut'>): boolean => (allowOut?.length ?? 0) > 0;

/** Whether a request wants the internet for a sandbox or not; undefined when it leaves that open. */
export const wantsInternet = ({ allow_internet_access: allows, allowOut, denyOut }: Egress): boolean | undefined => {
  if (permitsAll({ allowOut })) return true;
  return denyOut?.length ? false : (allows ?? undefined);
};

/** Returns the network that is asked for; undefined for that of the template. */
const toNetwork = (allows: boolean | undefined, offersInternet: boolean): CreateBox['network'] => {
  if (allows === false) return 'none';
  // Older clients ask for it by default, so where there is none the sandbox is created without.
  return allows && offersInternet ? 'internet' : undefined;
};

export interface Defaults {
  /** The timeout of a request that has none. */
  seconds: number;
  offersInternet: boolean;
  /** The key of the request. */
  keyId: string;
}

/** Converts the request for a sandbox to that for a box. */
export const toCreateBox = (
  ask: z.output<typeof newSandboxSchema>,
  { seconds: defaultSeconds, offersInternet, keyId }: Defaults,
): CreateBox => {
  const { templateID, timeout = defaultSeconds, metadata, envVars } = ask;
  const egress = { ...ask.network, ...ask };
  const network = permitsAll(egress) ? 'internet' : toNetwork(wantsInternet(egress), offersInternet);
  const isOpen = ask.network?.allowPublicTraffic === true;
  return {
    template: toTemplate(templateID),
    metadata: { ...metadata, ...asked(templateID), ...(isOpen && openFor(keyId)) },
    ...(envVars && { env: envVars }),
    ...(network && { network }),
    ...lifeOf({ seconds: timeout, ...ask }),
  };
};

/**
 * Returns how long a box for a sandbox lives. The timeout of a sandbox is an absolute end; one that pauses itself instead does so when it
 * was not used for that long, with its memory if that is asked for.
 */
export const lifeOf = ({ seconds, autoPause, autoPauseMemory }: Life): Partial<CreateBox> =>
  autoPause
    ? { onIdle: autoPauseMemory ? 'pause' : 'hibernate', idleSeconds: Math.max(1, seconds), maxLifetimeSeconds }
    : { onIdle: 'delete', idleSeconds: maxTimeoutSeconds, maxLifetimeSeconds: Math.max(1, seconds) };

interface Life extends Pick<z.output<typeof newSandboxSchema>, 'autoPause' | 'autoPauseMemory'> {
  seconds: number;
}
