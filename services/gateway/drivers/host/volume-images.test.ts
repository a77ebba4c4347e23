import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findPython } from '../local/environment/environment.ts';
import { tryVolumes } from '../local/volumes/volumes.ts';
import { canMountImages } from './disk-image.ts';
import { createVolumeImages } from './volume-images.ts';

const sizeMb = 16;
const deadline = () => AbortSignal.timeout(60_000);
const volume = (id: string) => ({ id, sizeMb, owner: 'owner' });

let folder = '';
let hasLoops = false;
beforeAll(async () => {
  // On the disk: loop devices have no images in memory everywhere.
  folder = await mkdtemp('/var/tmp/codebox-volumes-');
  hasLoops = await canMountImages(folder);
});
afterAll(() => rm(folder, { recursive: true }));

test('volumes are allocated, and have a limit together', async () => {
  const images = await createVolumeImages(join(folder, 'limited'), { limitMb: 2 * sizeMb, free: 0 });
  await images.make(volume('one'), 1000, deadline());
  const { size, blocks } = await stat(join(folder, 'limited/one.ext4'));
  expect(blocks * 512).toBeGreaterThanOrEqual(size);
  await images.make(volume('two'), 1000, deadline());
  await images.make(volume('two'), 1000, deadline());
  const full = { code: 'unavailable', reason: 'volumes_full' };
  await expect(images.make(volume('three'), 1000, deadline())).rejects.toMatchObject(full);
  expect((await images.list()).sort()).toEqual(['one', 'two']);
});

test('a volume that is gone is not attached, and its image not created anew', async () => {
  if (!hasLoops) return;
  const images = await createVolumeImages(join(folder, 'gone'), { limitMb: sizeMb, free: 0 });
  await images.make(volume('one'), 1000, deadline());
  const held = await Promise.all([images.hold('one', deadline()), images.hold('one', deadline())]);
  expect(new Set(held.map(({ path }) => path)).size).toBe(1);
  await images.remove('one', deadline());
  for (const device of held) await device[Symbol.asyncDispose]();
  await expect(images.hold('one', deadline())).rejects.toMatchObject({ why: { code: 'volume' } });
  expect(await readdir(join(folder, 'gone'))).toEqual([]);
});

test('several gateways try volumes on one host', async () => {
  if (!hasLoops) return;
  const python = (await findPython()) ?? 'python3';
  const trial = join(folder, 'trial');
  expect(await Promise.all([1, 2].map(() => tryVolumes(true, trial, python)))).toEqual([{}, {}]);
  expect(await readdir(join(trial, 'images'))).toEqual([]);
  expect(await tryVolumes(true, trial, '/bin/false')).toEqual({ obstacle: expect.stringContaining('/bin/false') });
});
