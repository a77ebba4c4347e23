import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Box, type Command, createClient, type Execution, type Problem, type Run } from '#contract';
import { collect, eventually, type GatewayProcess, mainDriver, startGateways, streamOf } from './harness.ts';
import { openBalancer } from './link.ts';

/** The work of a dead gateway is taken over once its last heartbeat is 15 s old. */
const takeOverMs = 90_000;

describe.each(mainDriver)('a gateway that dies beside another on the %s driver', (driver) => {
  let doomed: GatewayProcess;
  let other: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    const env = { CODEBOX_SWEEP_SECONDS: '1', CODEBOX_STOP_SECONDS: '1' };
    [other, doomed] = (await startGateways(driver, 2, env)) as [GatewayProcess, GatewayProcess];
    box = await other.createBox();
    await other.run(box.id, '1');
  });
  afterAll(() => other?.dispose());

  const path = (rest: string) => `/v1/boxes/${box.id}/${rest}`;
  const keyed = (key: string) => ({ 'idempotency-key': key });
  const contextOf = async (): Promise<string> =>
    (await other.post<{ id: string }>(path('contexts'), { language: 'python' })).body.id;
  const readBack = async (name: string) => (await other.run(box.id, `open(${JSON.stringify(name)}).read()`)).text;
  /** Retries while the response has Retry-After, as clients do. */
  const retried = <T>(send: () => Promise<{ status: number; body: T; headers: Headers }>) =>
    eventually(async () => {
      const response = await send();
      return response.headers.get('retry-after') === null && response;
    }, takeOverMs);
  const lastOf = async (command: string) =>
    (await other.get<{ items: { command: string | null; status: string }[] }>(path('commands'))).body.items.find(
      (item) => item.command === command,
    );

  test('a request that waits at a stopping gateway gets 503 with the location of its run and Retry-After', async () => {
    const untilGo = 'import os, time\nwhile not os.path.exists("go-on"): time.sleep(0.1)\n';
    const code = `${untilGo}open("stopped", "a").write("s"); open("stopped").read()`;
    const waiting = doomed.post<Problem>(path('executions'), { code }, keyed('stopped'));
    await eventually(async () => {
      const { body } = await other.get<{ items: Execution[] }>(path('executions?limit=1'));
      return body.items[0]?.status === 'running';
    });
    const [, refused] = await Promise.all([doomed.stop(), waiting]);
    const location = refused.headers.get('content-location') ?? '';
    expect([refused.status, refused.body.code]).toEqual([503, 'unavailable']);
    expect(refused.headers.get('retry-after')).toBe('1');
    expect(refused.body.detail).toContain(location);
    await other.call(path('files/go-on'), { method: 'PUT', body: '' });
    const ended = await eventually(async () => {
      const { status, body } = await other.get<Execution>(location);
      return status === 200 && body.status !== 'running' && body;
    });
    expect([ended.status, ended.text]).toEqual(['ok', "'s'"]);
    const again = await other.post<Execution>(path('executions'), { code }, keyed('stopped'));
    expect([again.status, again.body.id, again.body.text]).toEqual([200, ended.id, "'s'"]);
    await doomed.restart();
  });

  test('the work of a killed gateway is completed by the other one, with nothing lost or done twice', async () => {
    const untilGo = 'import os, time\nwhile not os.path.exists("go"): time.sleep(0.1)\n';
    const detached = { code: `${untilGo}print("alone")`, detach: true };
    const { body: followed } = await doomed.post<Execution>(path('executions'), {
      ...detached,
      context: await contextOf(),
    });
    const bodies = {
      execution: {
        code: `${untilGo}open("once", "a").write("x"); open("once").read()`,
        context: await contextOf(),
      },
      command: { command: 'until [ -e go ]; do sleep 0.1; done; echo c >> twice; cat twice' },
      run: { language: 'bash', files: [{ path: 'a.sh', text: 'sleep 60' }] },
    };
    const send = (gateway: GatewayProcess) => ({
      execution: () => gateway.post<Execution>(path('executions'), bodies.execution, keyed('execution')),
      command: () => gateway.post<Command>(path('commands'), bodies.command, keyed('command')),
      run: () => gateway.post<Run | Problem>('/v1/run', bodies.run, keyed('run')),
      create: () => gateway.post<Box>('/v1/boxes', { user: 'killed', metadata: { of: 'death' } }, keyed('create')),
    });
    const first = send(doomed);
    const broken: Promise<unknown>[] = [first.execution(), first.command(), first.run()];
    await eventually(async () => (await lastOf(bodies.command.command))?.status === 'running');
    await eventually(async () => {
      const { items } = (await other.get<{ items: Box[] }>('/v1/boxes?state=ready')).body;
      return items.length === 2;
    });
    broken.push(first.create());
    const cut = Promise.allSettled(broken);
    await eventually(async () => (await other.get<{ items: Box[] }>('/v1/boxes?user=killed')).body.items.length === 1);
    await doomed.kill('SIGKILL');
    expect((await cut).map(({ status }) => status)).toEqual(broken.map(() => 'rejected'));

    await other.call(path('files/go'), { method: 'PUT', body: '' });
    const again = send(other);
    const [execution, command, run, created] = await Promise.all([
      retried(again.execution),
      retried(again.command),
      retried(again.run),
      retried(again.create),
    ]);
    expect([execution.status, execution.body.status, execution.body.text]).toEqual([200, 'ok', "'x'"]);
    expect([command.status, command.body.status, command.body.stdout]).toEqual([200, 'ok', 'c\n']);
    expect([run.status, JSON.stringify(run.body)]).toEqual([409, expect.stringContaining('unknown')]);
    expect([created.status, created.body.state]).toEqual([201, 'ready']);
    expect((await other.run(created.body.id, '1 + 1')).text).toBe('2');
    const mine = (await other.get<{ items: Box[] }>('/v1/boxes?user=killed')).body.items;
    expect(mine.map(({ id }) => id)).toEqual([created.body.id]);
    // No client requests this run: the other gateway follows it on its own.
    const listed = await eventually(async () => {
      const { items } = (await other.get<{ items: Execution[] }>(path('executions'))).body;
      return items.find(({ id, status }) => id === followed.id && status !== 'running');
    }, takeOverMs);
    expect(listed.status).toBe('ok');
    expect(streamOf((await other.get<Execution>(path(`executions/${followed.id}`))).body.outputs, 'stdout')).toBe(
      'alone\n',
    );
    expect([await readBack('once'), await readBack('twice')]).toEqual(["'x'", "'c\\n'"]);
  });

  test('clients that retry lose nothing during a rolling restart of the gateways', async () => {
    await using balancer = await openBalancer([other.url, doomed.url]);
    await doomed.restart();
    let isOver = false;
    const work = async (name: string, isStreamed: boolean): Promise<number> => {
      const client = createClient({ url: balancer.url, key: other.key, retries: 20 });
      const context = await contextOf();
      let runs = 0;
      while (!isOver) {
        runs += 1;
        const code = `open("${name}", "a").write("${runs} "); import time; time.sleep(0.1); print(${runs})`;
        const outputs = isStreamed
          ? await collect(await client.executions.stream(box.id, { code, context }))
          : (await client.executions.run(box.id, { code, context })).outputs;
        expect(streamOf(outputs, 'stdout')).toBe(`${runs}\n`);
      }
      return runs;
    };
    const workers = ['w0', 'w1', 'w2', 'w3'].map((name, index) => work(name, index % 2 === 0));
    for (const gateway of [doomed, other]) {
      await gateway.stop();
      await gateway.restart();
    }
    isOver = true;
    const runs = await Promise.all(workers);
    for (const [index, count] of runs.entries()) {
      const each = Array.from({ length: count }, (_, run) => `${run + 1} `).join('');
      expect(await readBack(`w${index}`)).toBe(`'${each}'`);
    }
    const { items } = (await other.get<{ items: Execution[] }>(path('executions?limit=100'))).body;
    expect(
      items
        .filter(({ status }) => status !== 'ok' && status !== 'running')
        .map(({ status, cause }) => ({ status, cause })),
    ).toEqual([]);
  });
});
