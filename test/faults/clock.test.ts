import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, BoxStats, Execution } from '#contract';
import { drivers, eventually, type GatewayProcess, startGatewayProcess } from '../api/harness.ts';
import { startRunning, ticking } from './running.ts';

const clock = new URL('jumping-clock.ts', import.meta.url).href;
const minuteMs = 60_000;

// The clock of a gateway does not depend on the driver.
describe('a gateway whose clock jumps', () => {
  let gateway: GatewayProcess;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGatewayProcess(drivers.at(-1) ?? 'local', {
      CODEBOX_SWEEP_SECONDS: '1',
      NODE_OPTIONS: `--import=${clock}`,
    });
    box = await gateway.createBox({ idleSeconds: 600 });
  });
  afterAll(() => gateway?.dispose());

  /** How far the clock of the gateway is ahead of ours. */
  const aheadMs = async () =>
    Date.parse((await gateway.get<BoxStats>(`/v1/boxes/${box.id}/stats`)).body.at) - Date.now();

  test.each([
    ['ahead', 1],
    ['back', -1],
  ])(
    'six hours %s expires nothing early, keeps tickets and keys valid, and records times of the database',
    async (_to, sign) => {
      const running = await startRunning(gateway, box.id, ticking(15));
      const key = crypto.randomUUID();
      const once = () =>
        gateway.post<Execution>(`/v1/boxes/${box.id}/executions`, { code: '1 + 1' }, { 'idempotency-key': key });
      const ticket = await gateway.post<{ ticket: string }>(`/v1/boxes/${box.id}/tickets`, {});
      const first = await once();
      // The end of this box shows that a sweep has run after the jump.
      const brief = await gateway.createBox({ idleSeconds: 1, limits: { memoryMb: 320, diskMb: 64 } });
      process.kill(gateway.pid(), 'SIGUSR2');
      await eventually(async () => (await aheadMs()) * sign > minuteMs);
      await eventually(async () => (await gateway.get<Box>(`/v1/boxes/${brief.id}`)).body.state === 'deleted');
      expect((await gateway.get<Box>(`/v1/boxes/${box.id}`)).body.state).toBe('ready');
      expect((await running.ended).at(-1)).toMatchObject({ type: 'done', status: 'ok' });
      const opened = new WebSocket(
        `${gateway.url.replace('http', 'ws')}/v1/boxes/${box.id}/ws?ticket=${ticket.body.ticket}`,
      );
      await new Promise((done, failed) => {
        opened.onopen = done;
        opened.onerror = failed;
      });
      opened.close();
      expect((await once()).body.id).toBe(first.body.id);
      const made = await gateway.run(box.id, '1 + 1');
      expect(Math.abs(Date.parse(made.createdAt) - Date.now())).toBeLessThan(minuteMs);
      expect(Math.abs(Date.parse(made.finishedAt ?? '') - Date.now())).toBeLessThan(minuteMs);
    },
  );
});
