import { z } from 'zod';
import { createVolumeSchema, tenantVolumeSchema, type Volume, volumePageSchema, volumeQuerySchema } from '#contract';
import type { TenantVolumes } from '../../../boxes/volumes/volumes.ts';
import type { VolumeRow } from '../../../store/volumes/volumes.ts';
import type { Endpoints } from '../../endpoint.ts';

const tag = 'Volumes';
const params = z.strictObject({
  volume: z.string().max(321).meta({ description: 'The id of the volume, its name, or `user:name`.' }),
});

/** `/v1/volumes`: file systems that boxes share. */
export const addVolumeRoutes = ({ add }: Endpoints, volumes: TenantVolumes): void => {
  add(
    {
      method: 'post',
      path: '/v1/volumes',
      scope: 'boxes:write',
      summary: 'Create a volume that boxes share, or get the one of this name',
      tag,
      body: createVolumeSchema,
      responses: {
        201: { description: 'A new volume, empty.', schema: tenantVolumeSchema },
        200: { description: 'The existing volume of this name.', schema: tenantVolumeSchema },
      },
    },
    async ({ c, tenant, body }) => {
      const { volume, isNew } = await volumes.create(tenant, body, c.req.raw.signal);
      c.header('Location', `/v1/volumes/${volume.id}`);
      return c.json(toVolume(volume), isNew ? 201 : 200);
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/volumes',
      scope: 'boxes:read',
      summary: 'List volumes, the newest first',
      tag,
      query: volumeQuerySchema,
      responses: { 200: { description: 'A page of volumes.', schema: volumePageSchema } },
    },
    async ({ c, tenant, query }) => {
      const page = await volumes.list(tenant, query);
      return c.json({ ...page, items: page.items.map(toVolume) });
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/volumes/{volume}',
      scope: 'boxes:read',
      summary: 'Read a volume',
      tag,
      params,
      responses: { 200: { description: 'The volume.', schema: tenantVolumeSchema } },
    },
    async ({ c, tenant, params }) => c.json(toVolume(await volumes.read(tenant, params.volume))),
  );

  add(
    {
      method: 'delete',
      path: '/v1/volumes/{volume}',
      scope: 'boxes:write',
      summary: 'Delete a volume with its files',
      tag,
      params,
      responses: { 204: { description: 'The volume and its files are deleted.' } },
    },
    async ({ c, tenant, params }) => {
      await volumes.delete(tenant, params.volume);
      return c.body(null, 204);
    },
  );
};

const toVolume = ({ id, name, userId, sizeMb, createdAt }: VolumeRow): Volume => ({
  id,
  name,
  user: userId,
  sizeMb,
  createdAt: createdAt.toISOString(),
});
