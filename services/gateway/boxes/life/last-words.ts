import { setTimeout as sleep } from 'node:timers/promises';
import type { BoxConnections } from '../../box-server/connections.ts';
import type { Store } from '../../store/store.ts';
import type { Recorder } from './recorder.ts';

export interface LastWordsOptions {
  store: Pick<Store, 'instances' | 'executions'>;
  connections: BoxConnections;
  recorder: Recorder;
}

const askMs = 5000;
const lookEveryMs = 25;
const maxRuns = 100;

/** What is known of the runs of a box that ends comes before the presumption that they are lost. */
export const createLastWords = ({ store, connections, recorder }: LastWordsOptions) => ({
  /**
   * Asks a box that is about to be ended how its runs went, and records that: the gateway that follows them may have died. What the
   * box does not tell within 5 s is not waited for.
   */
  async ask(boxId: string): Promise<void> {
    await recorder.flush();
    const rows = await store.executions.runningIn(boxId, maxRuns);
    if (rows.length === 0) return;
    const found = (await store.instances.of(boxId)).find(({ address }) => address);
    if (!found?.address) return;
    const server = connections.to(found.id, found.address);
    const asked = rows.map(async (row) => {
      const found = await server.readExecution(row.id).catch(() => undefined);
      if (found?.done) recorder.record(row, found.done);
    });
    const patience = new AbortController();
    await Promise.race([Promise.all(asked), sleep(askMs, undefined, { signal: patience.signal }).catch(() => {})]);
    patience.abort();
    await recorder.flush();
  },

  /**
   * Waits until those who follow runs of a box whose processes are gone have recorded what they have told their readers, for at most
   * `withinMs`.
   */
  async wait(boxId: string, withinMs: number): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (await store.executions.isFollowedIn(boxId)) {
      if (performance.now() > deadline) return;
      await sleep(lookEveryMs);
      await recorder.flush();
    }
  },
});

export type LastWords = ReturnType<typeof createLastWords>;
