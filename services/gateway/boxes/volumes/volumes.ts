import { setTimeout as sleep } from 'node:timers/promises';
import {
  CodeBoxError,
  type CreateVolume,
  defaultVolumeMb,
  hasCode,
  type MountVolume,
  parseBoxName,
  type VolumeQuery,
  volumeNameSchema,
  volumesFolder,
} from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { NewBox } from '../../store/supply/allocation.ts';
import { noSuchVolume, type VolumeKey, type VolumeRow, type VolumeStore } from '../../store/volumes/volumes.ts';

export interface VolumesOptions {
  driver: Pick<Driver, 'site' | 'capabilities' | 'volumes'>;
  store: VolumeStore;
  background: Background;
}

/** What one tenant may have. */
const mostVolumes = 100;
const makeMs = 150_000;
const removeMs = 30_000;
const [firstPollMs, lastPollMs] = [50, 1000];
/** When a client may retry a request for a volume of another site: another gateway may receive it then. */
const otherSiteSeconds = 5;
const batch = 16;
/** How many ids are compared with rows at once. */
const pageSize = 500;

/** Volumes that boxes of a tenant share. The row of a volume is written before the driver makes it, and deleted after it is removed. */
export const createVolumes = ({ driver, store, background }: VolumesOptions) => {
  /** Ids of volumes that could not be made, and whose rows could not be changed. */
  const unsettled = new Set<string>();
  const obstacle = driver.capabilities.volumesObstacle ?? 'its driver does not know them';

  /** Returns the volumes of the driver. Throws `invalid_request` where it has none. */
  const offered = (pointer: string) => {
    if (driver.volumes) return driver.volumes;
    throw new CodeBoxError('invalid_request', 'This deployment has no volumes.', {
      errors: [{ pointer, detail: `is not offered by this deployment, because ${obstacle}` }],
    });
  };

  const remove = async (id: string): Promise<void> => {
    await driver.volumes?.remove(id, AbortSignal.timeout(removeMs));
    await store.forget(id);
  };

  const find = async (tenant: string, key: VolumeKey): Promise<VolumeRow> => {
    const row = await store.find(tenant, key);
    if (row?.state !== 'ready') throw noSuchVolume();
    return row;
  };

  const make = async (row: VolumeRow): Promise<VolumeRow> => {
    const { id, sizeMb, tenantId: owner } = row;
    try {
      await offered('/name').make({ id, sizeMb, owner }, AbortSignal.timeout(makeMs));
      const ready = await store.markReady(id);
      if (ready) return ready;
      throw new CodeBoxError('gone', 'The volume was deleted while it was made.');
    } catch (error) {
      // If this fails, a sweep tries again.
      unsettled.add(id);
      await background.attempt('remove a volume', () => settle(id));
      throw error;
    }
  };

  /** Removes a volume that could not be made, unless it was: the response of the database may have been lost. */
  const settle = async (id: string): Promise<void> => {
    if (await store.giveUp(id)) await remove(id);
    unsettled.delete(id);
  };

  /** Returns the volume of this name once the request that creates it has; undefined when that failed. */
  const whenReady = async (tenant: string, key: VolumeKey, signal: AbortSignal): Promise<VolumeRow | undefined> => {
    const deadline = performance.now() + makeMs;
    for (let pauseMs = firstPollMs; ; pauseMs = Math.min(pauseMs * 1.5, lastPollMs)) {
      const row = await store.find(tenant, key);
      if (row?.state !== 'creating') return row;
      if (performance.now() > deadline || signal.aborted)
        throw new CodeBoxError('timeout', 'The volume was not made in time.');
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  };

  const checkHere = ({ site }: VolumeRow): void => {
    if (site === driver.site) return;
    const detail = `The volume is at the site ${site}, and this gateway serves the site ${driver.site}: ask one of that site.`;
    throw new CodeBoxError('unavailable', detail, { retryAfterSeconds: otherSiteSeconds });
  };

  return {
    read: (tenant: string, id: string) => find(tenant, { id }),

    /** Returns the id that a text stands for: itself, or that of the volume that it names. Throws `not_found` when there is none. */
    async idOf(tenant: string, text: string): Promise<string> {
      const key = keyOf(text);
      return 'id' in key ? key.id : (await find(tenant, key)).id;
    },

    list: (tenant: string, query: VolumeQuery) => store.list(tenant, query),

    /**
     * Creates a volume, or returns the one of this name, for which `signal` ends the wait. Throws `conflict` if that has another size than
     * asked for, `quota_exceeded`, and `unavailable` when the host has no room for it.
     */
    async create(
      tenantId: string,
      { name, user, sizeMb }: CreateVolume,
      signal: AbortSignal,
    ): Promise<{ volume: VolumeRow; isNew: boolean }> {
      offered('/name');
      const userId = user ?? null;
      const wanted = { id: newId('vol'), tenantId, userId, name, sizeMb: sizeMb ?? defaultVolumeMb, site: driver.site };
      const row = await store.begin(wanted, mostVolumes);
      if (row) return { volume: await make(row), isNew: true };
      const found = await whenReady(tenantId, { user: userId, name }, signal);
      if (!found)
        throw new CodeBoxError('conflict', 'The volume of this name was just deleted.', { retryAfterSeconds: 1 });
      if (sizeMb !== undefined && sizeMb !== found.sizeMb)
        throw new CodeBoxError('conflict', `The volume ${name} has ${found.sizeMb} MiB, and its size is fixed.`);
      return { volume: found, isNew: false };
    },

    /** Deletes a volume with its files. Throws `conflict` for one that a living box has. */
    async delete(tenant: string, id: string): Promise<void> {
      const found = await store.delete(tenant, id);
      if (!found) throw noSuchVolume();
      const { volume, usedBy } = found;
      if (usedBy !== undefined)
        throw new CodeBoxError('conflict', `The box ${usedBy} has the volume: delete that box first.`, {
          reason: 'volume_in_use',
        });
      // If this fails, or the volume is at another site, a sweep there removes it.
      if (volume.site === driver.site) await background.attempt('remove a volume', () => remove(volume.id));
    },

    /**
     * Resolves with the volumes of a new box. Throws `invalid_request` where there are none, for a volume of another user and for two at one
     * path, `not_found` for a volume that is not this tenant's, `unavailable` for one at another site.
     */
    async forBox(tenant: string, user: string | undefined, asked: readonly MountVolume[]): Promise<NewBox['volumes']> {
      if (asked.length === 0) return [];
      offered('/volumes');
      const volumes: NewBox['volumes'] = [];
      for (const [index, { volume: text, path, readOnly = false }] of asked.entries()) {
        const row = await find(tenant, keyOf(text)).catch((error: unknown) => {
          const errors = [{ pointer: `/volumes/${index}/volume`, detail: 'is not a volume' }];
          throw hasCode(error, 'not_found') ? new CodeBoxError('not_found', error.message, { errors }) : error;
        });
        if (row.userId !== null && row.userId !== user)
          throw refusal(`/volumes/${index}/volume`, 'is a volume of another user than the box');
        const folder = path?.slice(volumesFolder.length + 1) ?? row.name;
        if (volumes.some((other) => other.folder === folder))
          throw refusal(
            `/volumes/${index}/path`,
            `is ${volumesFolder}/${folder}, as that of another volume of the box`,
          );
        checkHere(row);
        volumes.push({ id: row.id, name: row.name, sizeMb: row.sizeMb, folder, readOnly });
      }
      return volumes;
    },

    /** Throws `unavailable` when a volume of a box that is to be restored is gone or at another site, or where the driver has none. */
    async checkThere({ tenantId, volumes }: Pick<BoxRow, 'tenantId' | 'volumes'>): Promise<void> {
      if (volumes.length === 0) return;
      const ids = volumes.map(({ id }) => id);
      const rows = new Map((await store.ready(tenantId, ids)).map((row) => [row.id, row]));
      for (const { id, name } of volumes) {
        const row = rows.get(id);
        if (!row)
          throw new CodeBoxError('unavailable', `The volume ${name} of the box is gone.`, { reason: 'volume_missing' });
        checkHere(row);
        if (!driver.volumes)
          throw new CodeBoxError('unavailable', `The box has volumes, and this gateway none, because ${obstacle}.`, {
            retryAfterSeconds: otherSiteSeconds,
          });
      }
    },

    /** Whether it is not settled what became of volumes that could not be made, which may have no row. */
    isBusy: (): boolean => unsettled.size > 0,

    /** Removes what was deleted, and what gateways left that have died. */
    async sweep(): Promise<void> {
      if (!driver.volumes) return;
      for (const id of unsettled) await background.attempt('remove a volume', () => settle(id));
      for (const id of await store.abandoned(driver.site, batch))
        await background.attempt('remove a volume', () => remove(id));
    },

    /**
     * Returns the ids of volumes that have no row. A row outlives its volume, so these are of another database, or of a backup of this one that
     * is older than they are: nobody but the operator may remove them.
     */
    async strangers(): Promise<string[]> {
      const all = (await driver.volumes?.list(AbortSignal.timeout(removeMs))) ?? [];
      const unknown: string[] = [];
      for (let at = 0; at < all.length; at += pageSize)
        unknown.push(...(await store.unknown(driver.site, all.slice(at, at + pageSize))));
      return unknown;
    },
  };
};

export type TenantVolumes = ReturnType<typeof createVolumes>;

/**
 * `user:name` stands for a volume of a user, and another text for the name of a volume without one or for an id: no name looks like an id, and
 * what is neither is the id of none.
 */
const keyOf = (text: string): VolumeKey => {
  const named = parseBoxName(text);
  if (named) return named;
  return volumeNameSchema.safeParse(text).success ? { user: null, name: text } : { id: text };
};

const refusal = (pointer: string, detail: string) =>
  new CodeBoxError('invalid_request', 'The box cannot have these volumes.', { errors: [{ pointer, detail }] });
