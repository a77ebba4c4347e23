import { setTimeout as sleep } from 'node:timers/promises';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { ExecutionRow } from '../../store/box/executions.ts';
import type { InstanceRow } from '../../store/box/instances.ts';
import type { Store } from '../../store/store.ts';
import type { Recorder } from './recorder.ts';

export interface FinalResultsOptions {
  store: Pick<Store, 'executions'>;
  connections: BoxConnections;
  recorder: Recorder;
}

const collectMs = 5000;
const pollMs = 25;
const maxRuns = 100;

/** Records how the runs of an ending box went, before those with unknown results are recorded as lost. */
export const createFinalResults = ({ store, connections, recorder }: FinalResultsOptions) => ({
  /**
   * Reads the results of runs from the instances of a box that are about to be destroyed, because the gateway that follows them may have
   * died. No gateway learns of a later end, which it could report to its caller and not record. Stops waiting after 5 s.
   */
  async collect(boxId: string, instances: readonly InstanceRow[]): Promise<void> {
    await recorder.flush();
    const rows = await store.executions.runningIn(boxId, maxRuns);
    if (rows.length === 0) return;
    const instance = instances.find(({ address }) => address);
    if (!instance?.address) return;
    const server = connections.to(instance.id, instance.address);
    const read = async (row: ExecutionRow) => {
      const found = await server.readExecution(row.id).catch(() => undefined);
      if (found?.done) recorder.record(row, found.done);
    };
    const readAll = async () => {
      // The box may be from an older image.
      await server.seal().catch(() => undefined);
      await Promise.all(rows.map(read));
    };
    const patience = new AbortController();
    await Promise.race([readAll(), sleep(collectMs, undefined, { signal: patience.signal }).catch(() => {})]);
    patience.abort();
    await recorder.flush();
  },

  /** Waits up to `withinMs` until the followers of a destroyed box's runs have recorded the results that they have streamed. */
  async waitForFollowers(boxId: string, withinMs: number): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (await store.executions.isFollowedIn(boxId)) {
      if (performance.now() > deadline) return;
      await sleep(pollMs);
      await recorder.flush();
    }
  },
});

export type FinalResults = ReturnType<typeof createFinalResults>;
