import { hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import { cacheMs } from '../life/directory.ts';
import type { Checkpoints } from '../rest/checkpoints.ts';
import type { Hibernation, RestConditions } from '../rest/hibernation.ts';
import type { Idleness } from './idleness.ts';

export interface RestSweeperOptions {
  site: string;
  store: Pick<Store, 'tasks'>;
  hibernation: Hibernation;
  checkpoints: Checkpoints;
  background: Background;
  idleness: Idleness;
  /** How late another gateway may write the use of a box. */
  lagMs: number;
  /** How long a box that hibernates when idle has to be unused before its files are saved. */
  checkpointMs: number;
}

/** How many idle boxes one gateway puts to rest at once, and of how many it saves the files. */
const restsAtOnce = 16;
const filesAtOnce = 2;

/** A use of a box past its idle time is written at once, unless the box was cached as ready just before. */
const whenUnused: RestConditions = { settleMs: cacheMs, requireUnused: true };

/** Puts idle boxes to rest, saves files in case of a loss, and cleans up after both. */
export const createRestSweeper = (options: RestSweeperOptions) => {
  const { site, store, hibernation, checkpoints, background, idleness, lagMs, checkpointMs } = options;
  const taskId = () => newId('task');
  const busy = { rests: 0, files: 0 };

  const run = (what: string, kind: keyof typeof busy, { id }: BoxRow, task: () => Promise<unknown>) => {
    busy[kind] += 1;
    background.run(`${what} ${id}`, () =>
      task()
        .catch(ignoreUse)
        .finally(() => {
          busy[kind] -= 1;
        }),
    );
  };

  const restIdle = async () => {
    const quiet = await idleness(['pause', 'hibernate'], restsAtOnce - busy.rests);
    for (const box of await store.tasks.claimIdle(quiet, lagMs, taskId)) {
      const id = box.taskId ?? '';
      if (box.task === 'pause') run('pause', 'rests', box, () => hibernation.pause(box, id, whenUnused));
      else run('hibernate', 'rests', box, () => hibernation.hibernate(box, id, whenUnused));
    }
  };

  const saveFiles = async () => {
    for (const box of await store.tasks.claimCheckpoints(site, checkpointMs + lagMs, taskId, filesAtOnce - busy.files))
      run('save the files of', 'files', box, () => hibernation.checkpoint(box, box.taskId ?? '', whenUnused));
  };

  /** Recovers the tasks of gateways that are gone. */
  const takeOver = async () => {
    const taken = await store.tasks.takeOver(site, taskId, restsAtOnce);
    await Promise.all(taken.map((box) => background.attempt(`recover ${box.id}`, () => hibernation.recover(box))));
  };

  const work = async () => {
    await background.attempt('take over tasks of other gateways', takeOver);
    await background.attempt('put idle boxes to rest', restIdle);
    await background.attempt('save files of boxes', saveFiles);
  };

  return {
    /** Starts the tasks that are due. A slow blob store or a stuck box does not hold up the other sweeps. */
    sweep: background.oneAtATime('put boxes to rest', work),
    /** Deletes blobs that no box needs any more, without holding up the other sweeps. */
    deleteBlobs: background.oneAtATime('delete blobs', checkpoints.sweep),
    /** Compares the blob store with the records, without holding up the other sweeps. */
    reconcile: background.oneAtATime('compare the blob store', checkpoints.sweepUnknown),
  };
};

export type RestSweeper = ReturnType<typeof createRestSweeper>;

/** Ignores the errors of a box that was used or ended meanwhile, which are no failures. */
const ignoreUse = (error: unknown): void => {
  if (!(hasCode(error, 'conflict') || hasCode(error, 'gone'))) throw error;
};
