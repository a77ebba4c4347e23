import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Execution } from '#contract';
import { boxUser } from '../../services/gateway/drivers/box-user.ts';
import { createDaemon } from '../../services/gateway/drivers/docker/daemon/daemon.ts';
import { anyDriver, databaseUrl, eventually, type GatewayProcess, startGateways } from '../api/harness.ts';
import { processesOf, takeHostCensus } from '../contract/host-census.ts';
import { randomOf, seedOf } from './random.ts';
import { drive, type Node, type World } from './world.ts';

const steps = 120;
const crashes = 2;
const lanes = 3;

// The coordination of gateways does not depend on the driver.
describe.each(anyDriver)('two gateways that are killed again and again on the %s driver', (driver) => {
  let gateways: GatewayProcess[];
  let database: pg.Pool;
  beforeAll(async () => {
    gateways = await startGateways(driver, 2, {
      CODEBOX_SWEEP_SECONDS: '1',
      CODEBOX_MAX_BOXES: '6',
      CODEBOX_WARM_BOXES: '1',
      CODEBOX_QUEUE_SECONDS: '2',
    });
    database = new pg.Pool({ connectionString: await databaseUrl(gateways[0]?.dataDir ?? ''), max: 4 });
    // The database stops with the gateways.
    database.on('error', () => {});
  });
  afterAll(async () => {
    await database?.end();
    await gateways?.[0]?.dispose();
  });

  const query = async <T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> =>
    (await database.query<T>(text, values)).rows;

  const census = async (): Promise<string[]> => {
    const [{ id: deployment = '' } = {}] = await query<{ id: string }>('select id from deployments');
    const containers = driver === 'docker' ? () => containersOf(deployment) : undefined;
    const [rows] = await query(`select
      (select count(*) from instances where state = 'warm')::int as warm,
      (select count(*) from instances where state <> 'warm')::int as instances,
      (select count(*) from waiting)::int as waiting,
      (select count(*) from boxes where ended_at is null)::int as boxes,
      (select count(*) from boxes where task is not null)::int as tasks,
      (select count(*) from blobs)::int as blobs,
      (select count(*) from executions where status = 'running')::int as running`);
    return [
      ...(await takeHostCensus(gateways[0]?.dataDir ?? '', deployment, containers)),
      `rows ${JSON.stringify(rows)}`,
    ]
      .map((line) => line.replace(/i-[a-z2-7]{26}/g, 'i-*'))
      .sort();
  };
  const atRest = async (expected?: string[]): Promise<string[]> => {
    const isFull = async () => (await query("select from instances where state = 'warm'")).length === 1;
    const same = async () => {
      if (!(await isFull())) return false;
      const now = await census();
      return (expected === undefined || JSON.stringify(now) === JSON.stringify(expected)) && now;
    };
    return await eventually(same).catch(census);
  };

  /** Polls which boxes each instance has belonged to. */
  const watchOwners = (signal: AbortSignal) => {
    const owners = new Map<string, Set<string>>();
    const watching = (async () => {
      while (!signal.aborted) {
        const rows = await query<{ id: string; box: string | null }>('select id, box_id as box from instances');
        for (const { id, box } of rows) {
          const known = owners.get(id) ?? new Set<string>();
          owners.set(id, box === null ? known : known.add(box));
        }
        await sleep(100);
      }
    })();
    return { owners, watching };
  };

  /** Checks and then deletes each box, awake ones first: a hibernated box needs the place of another one to be restored. */
  const checkRuns = async (world: World, at: GatewayProcess) => {
    const found = await Promise.all([...world.boxes].map((box) => at.get<Box>(`/v1/boxes/${box}`)));
    const isAtRest = ({ body }: { body: Box }) => Number(body.state === 'hibernated');
    for (const { body } of found.sort((a, b) => isAtRest(a) - isAtRest(b))) {
      const { id: box, state } = body;
      const runs = world.runs.filter((run) => run.box === box);
      // The tokens are read as a file, because the model would have to account for code.
      const file = await eventually(async () => {
        const response = await at.call(`/v1/boxes/${box}/files/tokens`);
        return response.status !== 503 && response;
      });
      const tokens = file.ok ? (await file.text()).split('\n').filter((line) => line !== '') : [];
      expect({ box, twice: tokens.filter((token, index) => tokens.indexOf(token) !== index) }).toEqual({
        box,
        twice: [],
      });
      for (const { token, outcome, execution } of runs) {
        const context = { box, state, token, outcome, execution };
        if (outcome === 'done') expect({ ...context, ran: tokens.includes(token) }).toEqual({ ...context, ran: true });
        if (outcome === 'refused')
          expect({ ...context, ran: tokens.includes(token) }).toEqual({ ...context, ran: false });
      }
      const known = new Set(runs.map(({ token }) => token));
      expect(tokens.filter((token) => !known.has(token))).toEqual([]);
      await at.client.boxes.delete(box);
    }
  };

  test(`${steps} random operations at each: instances have one owner, runs one end, no code runs twice, and nothing is left behind`, async () => {
    const before = await atRest();
    const random = randomOf(seedOf(`the model on ${driver}`));
    const nodes: Node[] = gateways.map((gateway, index) => ({ name: `${index}`, gateway, up: Promise.resolve() }));
    const over = new AbortController();
    const world: World = {
      signal: over.signal,
      random,
      nodes,
      boxes: new Set(),
      everSeen: new Set(),
      runs: [],
      ends: new Map(),
      counts: new Map(),
    };
    const { owners, watching } = watchOwners(over.signal);
    try {
      await Promise.all(nodes.map((node) => drive(world, node, steps, crashes, lanes)));
    } catch (error) {
      throw new Error(gateways.map((gateway) => gateway.output().slice(-4000)).join('\n'), { cause: error });
    } finally {
      over.abort();
      await watching;
      await Promise.all(nodes.map(({ up }) => up));
    }
    process.stdout.write(`${driver}: ${JSON.stringify(Object.fromEntries([...world.counts].sort()))}\n`);

    await eventually(async () => (await query("select from executions where status = 'running'")).length === 0);
    const [one, other] = gateways as [GatewayProcess, GatewayProcess];
    for (const { id, box_id: box, status } of await query('select id, box_id, status from executions')) {
      const read = await Promise.all([one, other].map((at) => at.get<Execution>(`/v1/boxes/${box}/executions/${id}`)));
      expect({ id, ends: read.map(({ body }) => body.status) }).toEqual({ id, ends: [status, status] });
      expect({ id, reported: world.ends.get(id) ?? status }).toEqual({ id, reported: status });
    }
    await checkRuns(world, one);
    const shared = [...owners].filter(([, boxes]) => boxes.size > 1);
    expect(shared).toEqual([]);

    for await (const box of other.client.boxes.list()) await one.client.boxes.delete(box.id);
    expect(await atRest(before)).toEqual(before);
    const left = new Set((await query<{ id: string }>('select id from instances')).map(({ id }) => id));
    const ended = driver === 'local' ? [...owners.keys()].filter((id) => !left.has(id)) : [];
    for (const id of ended) expect(await processesOf(boxUser(id))).toEqual([]);
  }, 400_000);
});

const containersOf = async (deployment: string): Promise<string[]> => {
  const filters = JSON.stringify({ label: [`codebox.deployment=${deployment}`] });
  const signal = AbortSignal.timeout(30_000);
  const containers = await createDaemon().call(signal, (docker) => docker.listContainers({ all: true, filters }));
  return containers.map(({ Names }) => `container ${Names[0]}`);
};
