import { z } from 'zod';
import { inlineFileSchema } from '../files/files.ts';
import { packageSpecsSchema } from '../runs/packages.ts';
import { environmentSchema, limitsSchema } from '../values/limits.ts';
import { pageQuerySchema, pageSchema } from '../values/page.ts';
import { foreignText, plainText } from '../values/text.ts';
import { idleSecondsSchema, lifetimeSecondsSchema, networkPolicySchema } from './boxes.ts';

const templateName = z.string().min(1).max(64);

/** What a template is built from, and the settings of boxes from it. */
export const buildTemplateSchema = z
  .strictObject({
    from: z
      .union([
        z.strictObject({ template: templateName }),
        z.strictObject({
          box: z.string().min(1).max(321),
          variables: z.boolean().default(false).meta({
            description:
              'Whether boxes begin with the variables of its default Python context, those that can be kept.',
          }),
        }),
      ])
      .default({ template: 'python' })
      .meta({
        description:
          'Another template, or a box, whose files and environment the template then begins with. Default: `python`.',
      }),
    env: environmentSchema.optional(),
    files: z.array(inlineFileSchema).max(256).optional(),
    packages: z
      .strictObject({ pip: packageSpecsSchema.optional(), npm: packageSpecsSchema.optional() })
      .optional()
      .meta({ description: 'Packages to install, by package manager.' }),
    commands: z
      .array(plainText().min(1).max(65_536))
      .max(50)
      .optional()
      .meta({ description: 'Commands of bash that set the template up, in order, after files and packages.' }),
    buildNetwork: networkPolicySchema
      .optional()
      .meta({ description: 'The network of the box in which it is built. Default: the network of its boxes.' }),
    buildSeconds: z.int().min(1).max(3600).default(1800).meta({ description: 'The time for the whole build.' }),
    limits: limitsSchema.partial().optional(),
    network: networkPolicySchema.optional(),
    idleSeconds: idleSecondsSchema.optional(),
    maxLifetimeSeconds: lifetimeSecondsSchema.optional(),
    warm: z
      .int()
      .min(0)
      .max(100)
      .default(0)
      .meta({ description: 'How many instances are kept running, ready to become boxes at once.' }),
  })
  .meta({ id: 'BuildTemplate' });

export type BuildTemplate = z.input<typeof buildTemplateSchema>;
export type TemplateBuild = z.output<typeof buildTemplateSchema>;

export const templateVersionSchema = z
  .object({
    template: z.string(),
    version: z.int(),
    state: z.enum(['building', 'ready', 'failed', 'replaced']).meta({
      description:
        'New boxes are created from the version that is `ready`. It is `replaced` once a later one is; boxes that exist stay.',
    }),
    cause: foreignText(2000).nullable().meta({ description: 'Why the build failed.' }),
    sizeBytes: z.int().nullable().meta({ description: 'The size of its stored files.' }),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: 'TemplateVersion' });

export type TemplateVersion = z.infer<typeof templateVersionSchema>;

export const templateVersionPageSchema = pageSchema('TemplateVersionPage', templateVersionSchema);

/** One piece of the log of a build, or its end. */
export const buildEventSchema = z
  .discriminatedUnion('type', [
    z.object({ seq: z.int(), type: z.literal('step'), text: foreignText(70_000) }),
    z.object({ seq: z.int(), type: z.literal('output'), text: foreignText(70_000) }),
    z.object({
      seq: z.int(),
      type: z.literal('done'),
      state: templateVersionSchema.shape.state.exclude(['building']),
      cause: foreignText(2000).nullable(),
    }),
  ])
  .meta({ id: 'BuildEvent' });

export type BuildEvent = z.infer<typeof buildEventSchema>;

export const buildEventPageSchema = pageSchema('BuildEventPage', buildEventSchema);

export const buildLogQuerySchema = z.strictObject({
  after: z.coerce
    .number()
    .int()
    .min(0)
    .max(999_999_999)
    .optional()
    .meta({ description: 'Only events after this one.' }),
});

export const templateVersionQuerySchema = pageQuerySchema;
