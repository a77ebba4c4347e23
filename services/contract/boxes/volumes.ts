import { z } from 'zod';
import { pageQuerySchema, pageSchema } from '../values/page.ts';
import { plainText } from '../values/text.ts';
import { boxUserSchema } from './names.ts';

/** Where boxes have their volumes: a folder that only root can write. */
export const volumesFolder = '/volumes';

/** What the ids of volumes begin with, so no name does. */
const idPrefix = 'vol-';

/** Also the name of its folder, so that it is neither `.` nor `..`. */
export const volumeNameSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/,
    'must be 1 to 64 letters, digits, ".", "_" or "-", and not begin with "."',
  )
  .refine((name) => !name.startsWith(idPrefix), `must not begin with ${idPrefix}, as ids do`);

/** The size of a volume that is created without one. */
export const defaultVolumeMb = 1024;

export const createVolumeSchema = z
  .strictObject({
    name: volumeNameSchema.meta({ description: 'Unique among those of the same user, or those without one.' }),
    user: boxUserSchema
      .optional()
      .meta({ description: 'Only boxes of this user can have it; without one, all boxes of the tenant can.' }),
    sizeMb: z
      .int()
      .min(16)
      .max(102_400)
      .optional()
      .meta({ description: `What it holds at most, in MiB; ${defaultVolumeMb} by default. The size is fixed.` }),
  })
  .meta({ id: 'CreateVolume' });

export type CreateVolume = z.infer<typeof createVolumeSchema>;

export const tenantVolumeSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    user: z.string().nullable(),
    sizeMb: z.int(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: 'Volume' });

export type Volume = z.infer<typeof tenantVolumeSchema>;

export const volumePageSchema = pageSchema('VolumePage', tenantVolumeSchema);

export const volumeQuerySchema = pageQuerySchema.extend({
  user: plainText().max(256).optional().meta({ description: 'Only volumes of this user.' }),
});

export type VolumeQuery = z.infer<typeof volumeQuerySchema>;

const pathSchema = z.string().regex(/^\/volumes\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/, 'must be /volumes/ and one name');

/** A volume that a new box gets. */
export const mountVolumeSchema = z
  .strictObject({
    volume: plainText().min(1).max(321).meta({
      description: "The id or the name of a volume; `user:name` for one of the box's user.",
    }),
    path: pathSchema.optional().meta({
      description: 'Where the box has it: `/volumes/` and a name; by default that of the volume.',
    }),
    readOnly: z.boolean().optional().meta({ description: 'The box can only read it.' }),
  })
  .meta({ id: 'MountVolume' });

export type MountVolume = z.infer<typeof mountVolumeSchema>;

export const mountVolumesSchema = z.array(mountVolumeSchema).max(8).meta({
  description: 'Volumes that the box shares with others, from the start and whenever it is restored.',
});

/** A volume of a box. */
export const boxVolumeSchema = z
  .object({ volume: z.string(), name: z.string(), path: z.string(), readOnly: z.boolean() })
  .meta({ id: 'BoxVolume' });
