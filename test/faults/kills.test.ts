import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Execution, ExecutionSummary, Page } from '#contract';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { drivers, eventually, type GatewayProcess, mainDriver, startGateways } from '../api/harness.ts';
import { randomOf, seedOf } from '../model/random.ts';
import { takeBoxCensus } from './census.ts';
import { postmasterOf, signalAll } from './processes.ts';

const seconds = Number(process.env.CODEBOX_KILL_SECONDS ?? 20);
const [gatewayCount, boxCount, clientCount, churnerCount] = [3, 5, 20, 2];
/** The pause between two kills. */
const [leastPauseMs, mostPauseMs] = [1000, 4000];
/** How long a gateway may take to become ready; beside other tests the machine is slow. */
const readyMs = process.env.CODEBOX_KILL_SECONDS ? 30_000 : 90_000;
/** The work of a dead gateway is taken over once its last heartbeat is 15 s old. */
const retryMs = 180_000;
const okShare = 0.95;

const chance = randomOf(seedOf('kills'));
const random = (least: number, most: number) => least + chance() * (most - least);
const anyOf = <T>(items: readonly T[]): T => items[Math.floor(chance() * items.length)] as T;

interface FinalResponse {
  status: number;
  body: Execution;
}

// Within the suite one driver is enough.
const killed = process.env.CODEBOX_KILL_SECONDS ? drivers : mainDriver;

describe.each(killed)(`${seconds} s of random kill -9 on the %s driver`, (driver) => {
  const docker = driver === 'docker' ? createDaemon() : undefined;
  let gateways: GatewayProcess[];
  let [first, empty]: [GatewayProcess | undefined, string[]] = [undefined, []];
  const census = async () => (first ? await takeBoxCensus(first, docker ? { docker } : {}) : []);

  beforeAll(async () => {
    gateways = await startGateways(driver, gatewayCount, { CODEBOX_SWEEP_SECONDS: '1', CODEBOX_MAX_BOXES: '12' });
    first = gateways[0];
    empty = await census();
  });
  afterAll(() => first?.dispose());

  /** Sends a request to a random gateway until the outcome is final; resolves with undefined if the outcome cannot be known. */
  const sendFinally = (path: string, body: unknown, key: string): Promise<FinalResponse | undefined> =>
    eventually(async () => {
      const response = await anyOf(gateways)
        .post<Execution>(path, body, { 'idempotency-key': key })
        .catch(() => undefined);
      if (response === undefined || response.headers.get('retry-after') !== null || response.status >= 500) {
        await sleep(100);
        return false;
      }
      return { final: response.status < 300 ? response : undefined };
    }, retryMs).then(({ final }) => final);

  const executionsOf = async (gateway: GatewayProcess, box: string): Promise<ExecutionSummary[]> => {
    const all: ExecutionSummary[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
      const { body } = await gateway.get<Page<ExecutionSummary>>(`/v1/boxes/${box}/executions?limit=100${query}`);
      all.push(...body.items);
      cursor = body.nextCursor;
    }
    return all;
  };

  const lives = new Map<GatewayProcess, number>();
  /** Restarts a gateway as `npm start` would, whenever it exits by itself, until it is killed again. */
  const revive = async (gateway: GatewayProcess): Promise<void> => {
    const life = (lives.get(gateway) ?? 0) + 1;
    lives.set(gateway, life);
    while (lives.get(gateway) === life) {
      const isUp = await gateway.restart().then(
        () => true,
        () => false,
      );
      if (isUp) return;
    }
  };

  /** Kills gateways, also while they start, and the database; resolves with the restarts in progress. */
  const killAtRandom = async (database: string): Promise<Promise<void>[]> => {
    const starts: Promise<void>[] = [];
    for (const until = performance.now() + seconds * 1000; performance.now() < until; ) {
      await sleep(random(leastPauseMs, mostPauseMs));
      const target = anyOf([...gateways, undefined]);
      if (target === undefined) {
        const postmaster = await postmasterOf(database);
        if (postmaster > 0) signalAll([postmaster], 'SIGKILL');
      } else {
        await target.kill('SIGKILL');
        starts.push(revive(target));
      }
    }
    return starts;
  };

  test(
    'all gateways recover, no code runs twice, each run has one end, and nothing is left behind',
    async () => {
      const gateway = gateways[0] as GatewayProcess;
      const boxes = await Promise.all(Array.from({ length: boxCount }, () => gateway.createBox()));
      const over = new AbortController();
      const outcomes: { key: string; box: string; response: FinalResponse | undefined }[] = [];
      const client = async (name: number) => {
        const { id: box } = boxes[name % boxCount] as Box;
        for (let n = 0; !over.signal.aborted; n++) {
          const key = `${name}-${n}`;
          const code = `import time\nopen("ran", "a").write("${key}\\n")\ntime.sleep(${random(0, 0.3)})`;
          outcomes.push({ key, box, response: await sendFinally(`/v1/boxes/${box}/executions`, { code }, key) });
        }
      };
      const churner = async (name: number) => {
        for (let n = 0; !over.signal.aborted; n++) {
          const made = await sendFinally('/v1/boxes', { idleSeconds: 60 }, `box-${name}-${n}`);
          if (made)
            await anyOf(gateways)
              .client.boxes.delete(made.body.id)
              .catch(() => {});
        }
      };
      const working = Promise.all([
        ...Array.from({ length: clientCount }, (_, name) => client(name)),
        ...Array.from({ length: churnerCount }, (_, name) => churner(name)),
      ]);

      const starts = await killAtRandom(join(gateway.dataDir, 'postgres'));
      const isReady = ({ url }: GatewayProcess) =>
        fetch(`${url}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
      await Promise.all(
        gateways.map((one) =>
          eventually(() => isReady(one), readyMs).catch(() => {
            throw new Error(`A gateway is not ready ${readyMs} ms after the last kill:\n${one.output().slice(-4000)}`);
          }),
        ),
      );
      over.abort();
      await working;
      await Promise.all(starts);

      const ok = outcomes.filter(({ response }) => response?.body.status === 'ok').length;
      expect(ok).toBeGreaterThan(0);
      expect(ok / outcomes.length, `${ok} of ${outcomes.length} ended ok`).toBeGreaterThanOrEqual(okShare);
      for (const { id: box } of boxes) {
        const all = await eventually(async () => {
          const found = await executionsOf(gateway, box);
          return found.every(({ status }) => status !== 'running') && found;
        });
        const ran = new TextDecoder()
          .decode(await gateway.client.files.read(box, 'ran'))
          .trim()
          .split('\n');
        expect(ran.length, 'code that ran twice').toBe(new Set(ran).size);
        const statusOf = new Map(all.map(({ id, status }) => [id, status]));
        for (const { key, response } of outcomes.filter((one) => one.box === box)) {
          if (response === undefined) continue;
          expect(statusOf.get(response.body.id), `the end of ${key}`).toBe(response.body.status);
          expect(ran.includes(key), `whether ${key} ran`).toBe(response.body.status === 'ok');
        }
      }
      for await (const { id } of gateway.client.boxes.list()) await gateway.client.boxes.delete(id);
      const isEmpty = async () => (await census()).join() === empty.join();
      await eventually(isEmpty, 90_000).catch(async () => expect(await census()).toEqual(empty));
    },
    (seconds + 600) * 1000,
  );
});
