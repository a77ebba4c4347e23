import type { BoxCause, Cause } from '#contract';
import type { Driver } from '../../drivers/driver.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Store } from '../../store/store.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Instances } from '../supply/instances.ts';
import { causeOf } from './causes.ts';
import type { Directory } from './directory.ts';
import type { FinalResults } from './final-results.ts';

export interface EndingsOptions {
  driver: Pick<Driver, 'site' | 'inspect'>;
  store: Pick<Store, 'boxes' | 'instances' | 'executions' | 'tasks'>;
  directory: Pick<Directory, 'locate' | 'find' | 'invalidate'>;
  instances: Pick<Instances, 'destroy'>;
  finalResults: FinalResults;
}

/** Grace period for followers to record final results: after a box is ended on purpose, and after it is found to be lost. */
const endedFollowersMs = 3000;
const lostFollowersMs = 300;
const inspectMs = 10_000;

/** Ends boxes, and finds out why they ended. */
export const createEndings = ({ driver, store, directory, instances, finalResults }: EndingsOptions) => {
  /** Ends a box. Resolves with false when it had ended before. */
  const end = async (boxId: string, state: 'deleting' | 'failed', cause: BoxCause): Promise<boolean> => {
    directory.invalidate(boxId);
    const ended = await store.boxes.end(boxId, state, cause);
    const rows = await store.instances.of(boxId);
    // Another site destroys its own instances in its sweeps, and the followers there record how the runs ended.
    if (rows.some(({ site }) => site !== driver.site)) return ended !== undefined;
    await finalResults.collect(boxId, rows);
    await dissolve(boxId, rows, cause, endedFollowersMs);
    return ended !== undefined;
  };

  /** Destroys the instances of a box, and records its runs as lost unless their ends are known. */
  const dissolve = async (boxId: string, rows: readonly InstanceRow[], cause: BoxCause, followersMs: number) => {
    try {
      for (const { id } of rows) await instances.destroy(id);
    } finally {
      await finalResults.waitForFollowers(boxId, followersMs);
      await store.executions.loseAll(boxId, causeOfRuns(cause));
    }
  };

  /**
   * Records that an instance of a box is gone or useless: the box hibernates with the files of its last checkpoint, or ends if it has
   * none. Several gateways may report the same loss, and late: only the first report has an effect.
   */
  const lose = async (boxId: string, instance: string, cause: BoxCause): Promise<void> => {
    directory.invalidate(boxId);
    const lost = (await store.instances.of(boxId)).filter(({ id }) => id === instance);
    const isFirst =
      (await store.tasks.fallBack(boxId, instance)) ?? (await store.boxes.end(boxId, 'lost', cause, instance));
    if (!isFirst) return;
    if (cause.code !== 'unresponsive') await finalResults.collect(boxId, lost);
    await dissolve(boxId, lost, cause, lostFollowersMs);
  };

  /** Returns why an instance ended; undefined while it runs. Throws `unavailable` when the driver does not respond. */
  const causeOfExit = async (instanceId: string): Promise<BoxCause | undefined> => {
    const instance = await driver.inspect(instanceId, AbortSignal.timeout(inspectMs));
    return instance === undefined || instance.state === 'ended' ? causeOf(instance?.why) : undefined;
  };

  return {
    end,
    lose,
    causeOfExit,

    /** Destroys an instance that another gateway has marked for destruction, which has died since or is at another site. */
    async destroy(row: InstanceRow): Promise<void> {
      if (row.boxId !== null) await finalResults.collect(row.boxId, [row]);
      await instances.destroy(row.id);
    },

    /**
     * Ends a box of a tenant and waits until nothing is left of it. A box at another site is only marked, for the sweeps there; a box
     * that has ended already stays as it is.
     */
    async delete(ref: BoxRef): Promise<void> {
      await directory.find(ref);
      await end(ref.box, 'deleting', { code: 'deleted', detail: 'The box was deleted.' });
    },

    /**
     * Finds out why a box does not respond. Returns the cause of its loss, and records that loss if nobody has yet. Returns undefined
     * while its instance runs, so that a retry makes sense.
     */
    async causeOfLoss(ref: BoxRef): Promise<Cause | undefined> {
      const { box, instance } = await directory.locate(ref);
      if (box.state === 'hibernated') return { code: 'box_hibernated', detail: 'The box hibernates.' };
      const shouldRun = box.state === 'ready' || box.state === 'paused';
      // Only the site of an instance can inspect it.
      if (instance && instance.site !== driver.site) return undefined;
      if (!shouldRun || !instance) return causeOfRuns(box.cause);
      const cause = await causeOfExit(instance.id);
      if (!cause) return undefined;
      await lose(ref.box, instance.id, cause);
      // Another gateway may have recorded the end first, with another cause.
      const now = await directory.find(ref);
      return causeOfRuns(now.state === 'hibernated' ? cause : now.cause);
    },
  };
};

export type Endings = ReturnType<typeof createEndings>;

/** Returns the cause that the runs of a box get when the box ends. */
const causeOfRuns = (cause: BoxCause | null): Cause => ({
  code: !cause || cause.code === 'instance_lost' ? 'box_lost' : `box_${cause.code}`,
  detail: cause?.detail ?? 'The box is gone.',
});
