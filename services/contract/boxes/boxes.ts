import { z } from 'zod';
import { inlineFileSchema } from '../files/files.ts';
import { packageSpecsSchema } from '../runs/packages.ts';
import { environmentSchema, limitsSchema } from '../values/limits.ts';
import { pageQuerySchema, pageSchema } from '../values/page.ts';
import { foreignText, plainText } from '../values/text.ts';
import { boxNameSchema, boxUserSchema } from './names.ts';
import { boxVolumeSchema, mountVolumesSchema } from './volumes.ts';

const metadataSchema = z
  .record(plainText().min(1).max(64), plainText().max(512))
  .refine((metadata) => Object.keys(metadata).length <= 32, 'must have at most 32 entries');

export const idleSecondsSchema = z.int().min(1).max(86_400).meta({
  description:
    '`onIdle` happens after this long without use. A run that a request started counts as use, even a detached one.',
});
/** The longest lifetime of a box: 30 days. */
export const maxLifetimeSeconds = 2_592_000;
export const lifetimeSecondsSchema = z
  .int()
  .min(1)
  .max(maxLifetimeSeconds)
  .meta({ description: 'The box is deleted this long after its creation, whether it is used or not.' });

/**
 * What happens to an idle box. `delete`: the box ends and its files are deleted. `pause`: its memory is frozen; the box
 * keeps its variables and still counts against the limit of boxes. `hibernate`: its files are stored outside it and
 * everything that runs in it ends; its next use restores the files.
 */
export const onIdleSchema = z.enum(['delete', 'pause', 'hibernate']).meta({
  id: 'OnIdle',
  description:
    'What happens to an idle box: it is deleted with its files, it is frozen with its variables, or only its files are kept.',
});

export type OnIdle = z.infer<typeof onIdleSchema>;

/** `none`: loopback only. `internet`: public addresses, but never the host or another box. */
export const networkPolicySchema = z.enum(['none', 'internet']).meta({ id: 'NetworkPolicy' });

export type NetworkPolicy = z.infer<typeof networkPolicySchema>;

/** The template of requests that name none. */
export const defaultTemplate = 'python';

/** The built-in template with the full image, which a deployment may lack. */
export const fullTemplate = 'full';

export const createBoxSchema = z
  .strictObject({
    template: plainText().min(1).max(64).optional(),
    user: boxUserSchema.optional().meta({ description: 'The user that owns the box: any string of your choice.' }),
    name: boxNameSchema.optional().meta({
      description:
        "The user's name for the box, which is created unless it lives already. In every path, `user:name` stands for its id. Needs `user`; " +
        '`onIdle` is then `hibernate` by default.',
    }),
    reuse: z
      .boolean()
      .optional()
      .meta({ description: "Return the user's living box when there is one. Needs `user`." }),
    env: environmentSchema.optional(),
    metadata: metadataSchema.optional(),
    limits: limitsSchema.partial().optional(),
    network: networkPolicySchema.optional(),
    idleSeconds: idleSecondsSchema.optional(),
    maxLifetimeSeconds: lifetimeSecondsSchema.optional(),
    onIdle: onIdleSchema.optional(),
    volumes: mountVolumesSchema.optional(),
    files: z.array(inlineFileSchema).max(256).optional(),
    packages: packageSpecsSchema
      .optional()
      .meta({ description: 'Python packages to install before the box is ready, as in InstallPackages.' }),
  })
  .refine((box) => !box.reuse || box.user !== undefined, { path: ['user'], message: 'is needed with reuse' })
  .refine((box) => box.name === undefined || box.user !== undefined, { path: ['user'], message: 'is needed with name' })
  .refine((box) => box.name === undefined || !box.reuse, { path: ['reuse'], message: 'is not for a box with a name' })
  .meta({ id: 'CreateBox' });

export type CreateBox = z.infer<typeof createBoxSchema>;

export const updateBoxSchema = z
  .strictObject({
    metadata: metadataSchema.optional(),
    idleSeconds: idleSecondsSchema.optional(),
    maxLifetimeSeconds: lifetimeSecondsSchema.optional(),
    onIdle: onIdleSchema.optional(),
    network: networkPolicySchema.optional().meta({
      description:
        'The box keeps its variables. A 400 where the driver cannot change the network of a running box, and a 409 for a box ' +
        'that was started without support for it: hibernate it first.',
    }),
  })
  .meta({ id: 'UpdateBox' });

export type UpdateBox = z.infer<typeof updateBoxSchema>;

/** Any use of a `paused` or `hibernated` box resumes it first. */
export const boxStates = [
  'creating',
  'ready',
  'paused',
  'hibernated',
  'deleting',
  'deleted',
  'failed',
  'lost',
] as const;

/** The stored files of a box, which are restored when its instance is lost or released. */
export const checkpointSchema = z.object({ at: z.iso.datetime(), sizeBytes: z.int() }).meta({
  id: 'Checkpoint',
  description: 'When the files of the box were last stored outside it, and how many bytes they take there.',
});

export type Checkpoint = z.infer<typeof checkpointSchema>;

/** Why a box has ended. */
export const boxCauseSchema = z
  .object({
    code: z.enum([
      ...(['deleted', 'idle', 'expired', 'start_failed', 'cpu_limit'] as const),
      ...(['instance_lost', 'unresponsive', 'memory_limit'] as const),
      ...(['evicted', 'preempted', 'node_lost', 'unschedulable'] as const),
      ...(['image_unavailable', 'gpu_unavailable', 'volume_missing'] as const),
    ]),
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
    name: z.string().nullable(),
    metadata: metadataSchema,
    limits: limitsSchema,
    network: networkPolicySchema,
    // A gateway without volumes names none.
    volumes: z.array(boxVolumeSchema).default([]),
    createdAt: z.iso.datetime(),
    lastActiveAt: z.iso.datetime(),
    idleSeconds: z.int(),
    expiresAt: z.iso.datetime(),
    onIdle: onIdleSchema,
    continuity: z.enum(['new', 'reused', 'restored', 'lost']).meta({
      description:
        'What the caller gets: a new box, the same box as before, a box with the earlier files but without the earlier ' +
        'variables (since `restoredAt`), or a box whose files and variables are lost.',
    }),
    checkpoint: checkpointSchema.nullable(),
    restoredAt: z.iso.datetime().nullable(),
    startup: z
      .object({ kind: z.enum(['warm', 'cold']), ms: z.int() })
      .nullable()
      .meta({
        description:
          '`warm` when the instance had been started before the request; and the time from the request until the box was ready.',
      }),
  })
  .meta({ id: 'Box' });

export type Box = z.infer<typeof boxSchema>;

export const boxPageSchema = pageSchema('BoxPage', boxSchema);

/** Filters for the list of boxes; deleted boxes are left out unless `state` asks for them. */
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

/** GPUs, or shares of them. */
export const gpusSchema = z
  .object({
    count: z.int(),
    kind: z.string().meta({ description: '`nvidia.com/gpu` for whole ones, or the name of a share of one.' }),
  })
  .meta({ id: 'Gpus' });

export const templateSchema = z
  .object({
    name: z.string(),
    language: z.string().meta({ description: 'The language of code that names none.' }),
    languages: z.array(z.string()).nullable().meta({
      description:
        'What its boxes run, the default first; null until an instance of its current image has been started.',
    }),
    limits: limitsSchema,
    maxLimits: limitsSchema,
    network: networkPolicySchema,
    idleSeconds: z.int(),
    maxLifetimeSeconds: z.int(),
    warm: z.int().meta({ description: 'How many instances are kept running, ready to become boxes at once.' }),
    gpus: gpusSchema.nullable().meta({ description: 'The GPUs of each box; null for none.' }),
    version: z
      .int()
      .nullable()
      .meta({ description: 'The version that boxes are created from; null for a template of the operator.' }),
  })
  .meta({ id: 'Template' });

export type Template = z.infer<typeof templateSchema>;

/** A package or program of an image. */
const contentSchema = z.object({ name: foreignText(300), version: foreignText(300) }).meta({ id: 'TemplateContent' });

/** What an image, or the host of local boxes, brings. */
export const contentsSchema = z.object({
  packages: z
    .array(contentSchema)
    .max(5000)
    .meta({ description: 'The Python packages, including dependencies, by name.' }),
  programs: z
    .array(contentSchema)
    .max(1000)
    .meta({ description: 'Programs that code often uses; with the local driver they are those of the host.' }),
});

export type Contents = z.infer<typeof contentsSchema>;

export const templateDetailSchema = z
  .object({
    ...templateSchema.shape,
    packages: contentsSchema.shape.packages.nullable(),
    programs: contentsSchema.shape.programs.nullable(),
  })
  .meta({
    id: 'TemplateDetail',
    description: '`packages` and `programs` are null until an instance of the current image has been started.',
  });

export type TemplateDetail = z.infer<typeof templateDetailSchema>;

export const templatePageSchema = pageSchema('TemplatePage', templateSchema);
