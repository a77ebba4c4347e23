import { z } from 'zod';
import { inlineFileSchema } from './files.ts';
import { environmentSchema, limitsSchema } from './limits.ts';
import { packageSpecsSchema } from './packages.ts';
import { pageQuerySchema, pageSchema } from './page.ts';
import { plainText } from './text.ts';

const metadataSchema = z
  .record(plainText().min(1).max(64), plainText().max(512))
  .refine((metadata) => Object.keys(metadata).length <= 32, 'must have at most 32 entries');

const idleSeconds = z.int().min(1).max(86_400).meta({ description: 'Deleted after this long without use.' });
const maxLifetimeSeconds = z
  .int()
  .min(1)
  .max(2_592_000)
  .meta({ description: 'Deleted this long after its creation, used or not.' });

/** `none`: loopback only. `internet`: public addresses, never the host or another box. */
export const networkPolicySchema = z.enum(['none', 'internet']).meta({ id: 'NetworkPolicy' });

export const createBoxSchema = z
  .strictObject({
    template: plainText().min(1).max(64).optional(),
    user: plainText().min(1).max(256).optional().meta({ description: 'Whose box it is: any string of your choice.' }),
    reuse: z.boolean().optional().meta({ description: "Answer the user's living box when there is one. Needs user." }),
    env: environmentSchema.optional(),
    metadata: metadataSchema.optional(),
    limits: limitsSchema.partial().optional(),
    network: networkPolicySchema.optional(),
    idleSeconds: idleSeconds.optional(),
    maxLifetimeSeconds: maxLifetimeSeconds.optional(),
    files: z.array(inlineFileSchema).max(256).optional(),
    packages: packageSpecsSchema
      .optional()
      .meta({ description: 'Python packages to install before it is ready, as in InstallPackages.' }),
  })
  .refine((box) => !box.reuse || box.user !== undefined, { path: ['user'], message: 'is needed with reuse' })
  .meta({ id: 'CreateBox' });

export type CreateBox = z.infer<typeof createBoxSchema>;

export const updateBoxSchema = z
  .strictObject({
    metadata: metadataSchema.optional(),
    idleSeconds: idleSeconds.optional(),
    maxLifetimeSeconds: maxLifetimeSeconds.optional(),
  })
  .meta({ id: 'UpdateBox' });

export type UpdateBox = z.infer<typeof updateBoxSchema>;

export const boxStates = ['creating', 'ready', 'deleting', 'deleted', 'failed', 'lost'] as const;

/** Why a box is no longer there. */
export const boxCauseSchema = z
  .object({
    code: z.enum(['deleted', 'idle', 'expired', 'start_failed', 'instance_lost', 'instance_exited', 'cpu_limit']),
    detail: z.string(),
  })
  .meta({ id: 'BoxCause' });

export type BoxCause = z.infer<typeof boxCauseSchema>;

export const boxSchema = z
  .object({
    id: z.string(),
    state: z.enum(boxStates),
    cause: boxCauseSchema.optional(),
    template: z.string(),
    user: z.string().nullable(),
    metadata: metadataSchema,
    limits: limitsSchema,
    network: networkPolicySchema,
    createdAt: z.iso.datetime(),
    lastActiveAt: z.iso.datetime(),
    idleSeconds: z.int(),
    expiresAt: z.iso.datetime(),
    onIdle: z.literal('delete'),
    continuity: z.enum(['new', 'reused', 'lost']).meta({
      description:
        'What the caller gets: a new computer, the same one as before, or one whose files and variables are gone.',
    }),
    startup: z
      .object({ kind: z.enum(['cold']), ms: z.int() })
      .nullable()
      .meta({ description: 'How it was started and how long that took.' }),
  })
  .meta({ id: 'Box' });

export type Box = z.infer<typeof boxSchema>;

export const boxPageSchema = pageSchema('BoxPage', boxSchema);

/** Filters of the list of boxes; deleted ones are left out unless asked for by `state`. */
export const boxQuerySchema = pageQuerySchema.extend({
  user: plainText().max(256).optional(),
  state: z.enum(boxStates).optional(),
  metadata: plainText()
    .max(577)
    .regex(/^[^=]{1,64}=/, 'must be key=value')
    .optional()
    .meta({ description: 'Only boxes whose metadata has this key=value.' }),
});

export type BoxQuery = z.infer<typeof boxQuerySchema>;

export const templateSchema = z
  .object({
    name: z.string(),
    languages: z.array(z.string()).meta({ description: 'The first one is the default.' }),
    limits: limitsSchema,
    maxLimits: limitsSchema,
    network: networkPolicySchema,
    idleSeconds: z.int(),
    maxLifetimeSeconds: z.int(),
  })
  .meta({ id: 'Template' });

export type Template = z.infer<typeof templateSchema>;

export const templatePageSchema = pageSchema('TemplatePage', templateSchema);
