import { setTimeout as sleep } from 'node:timers/promises';
import type { BoxConnections } from '../box-server/connections.ts';
import type { Store } from '../store/store.ts';
import type { Recorder } from './recorder.ts';

export interface LastWordsOptions {
  store: Pick<Store, 'instances' | 'executions'>;
  connections: BoxConnections;
  recorder: Recorder;
}

const patienceMs = 5000;
const maxRuns = 100;

/**
 * Asks a box that is about to be ended how its runs went, and records that: the gateway that follows them may not have come to
 * write it. What the box does not tell within 5 s is not waited for.
 */
export const createLastWords =
  ({ store, connections, recorder }: LastWordsOptions) =>
  async (boxId: string): Promise<void> => {
    await recorder.flush();
    const rows = await store.executions.runningIn(boxId, maxRuns);
    if (rows.length === 0) return;
    const address = (await store.instances.of(boxId)).find((instance) => instance.address)?.address;
    if (!address) return;
    const server = connections.to(address);
    const asked = rows.map(async (row) => {
      const found = await server.readExecution(row.id).catch(() => undefined);
      if (found?.done) recorder.record(row, found.done);
    });
    const patience = new AbortController();
    await Promise.race([Promise.all(asked), sleep(patienceMs, undefined, { signal: patience.signal }).catch(() => {})]);
    patience.abort();
    await recorder.flush();
  };
