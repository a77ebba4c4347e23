import { hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { Background } from '../../../waiting/background.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Store } from '../../store/store.ts';
import { trustMs } from '../life/access.ts';
import type { Checkpoints } from '../rest/checkpoints.ts';
import type { Hibernation, Manner } from '../rest/hibernation.ts';
import type { Idleness } from './idleness.ts';

export interface RestSweeperOptions {
  site: string;
  store: Pick<Store, 'tasks'>;
  hibernation: Hibernation;
  checkpoints: Checkpoints;
  background: Background;
  idleness: Idleness;
  /** How late the use of a box by another gateway may be written. */
  lagMs: number;
  /** A box that hibernates has its files kept when it was not used for this long. */
  checkpointMs: number;
}

/** Boxes that one gateway sends to rest at once, and of which it keeps files, by itself. */
const restsAtOnce = 16;
const filesAtOnce = 2;

/** Whoever uses a box that is past its idle time says so at once; only those who took it for ready just before do not. */
const unasked: Manner = { settleMs: trustMs, unused: true };

/** Rest that nobody asks for: idle boxes, files kept for the case of a loss, and what is left of both. */
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
      if (box.task === 'pause') run('pause', 'rests', box, () => hibernation.pause(box, id, unasked));
      else run('hibernate', 'rests', box, () => hibernation.hibernate(box, id, unasked));
    }
  };

  const keepFiles = async () => {
    for (const box of await store.tasks.claimCheckpoints(site, checkpointMs + lagMs, taskId, filesAtOnce - busy.files))
      run('keep the files of', 'files', box, () => hibernation.checkpoint(box, box.taskId ?? '', unasked));
  };

  /** What gateways that are gone have left. */
  const takeUp = async () => {
    const taken = await store.tasks.takeOver(site, taskId, restsAtOnce);
    await Promise.all(taken.map((box) => background.attempt(`recover ${box.id}`, () => hibernation.recover(box))));
  };

  const work = async () => {
    await background.attempt('take up tasks of other gateways', takeUp);
    await background.attempt('let idle boxes rest', restIdle);
    await background.attempt('keep files of boxes', keepFiles);
    await background.attempt('delete blobs', checkpoints.sweep);
  };

  return {
    /** Begins what is due, beside the other sweeps: a slow blob store or a stuck box must not keep them waiting. */
    sweep: background.oneAtATime('let boxes rest', work),
    /** Compares the blob store with the records, beside the other sweeps. */
    reconcile(): void {
      background.run('compare the blob store', checkpoints.sweepUnknown);
    },
  };
};

export type RestSweeper = ReturnType<typeof createRestSweeper>;

/** A box that is used stays awake: nothing is wrong. */
const ignoreUse = (error: unknown): void => {
  if (!(hasCode(error, 'conflict') || hasCode(error, 'gone'))) throw error;
};
