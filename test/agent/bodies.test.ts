import { type ClientRequest, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { anyDriver, type GatewayProcess, startGatewayProcess } from '../api/harness.ts';
import { connect } from '../api/websocket.ts';
import { type RunningAgent, serveAgentProcess } from './agent-harness.ts';

/** Without its end. */
const fiveMegabytes = `{"text":"${'x'.repeat(5 * 1024 * 1024)}`;
// A quarter of it, and half of that for one caller, is three such bodies.
const smallHeap = { NODE_OPTIONS: '--max-old-space-size=128' };

describe('large bodies at once', () => {
  let gateway: GatewayProcess;
  let agent: RunningAgent;
  let others: string;
  beforeAll(async () => {
    gateway = await startGatewayProcess(anyDriver[0] ?? 'local', smallHeap);
    agent = await serveAgentProcess(gateway, smallHeap);
    others = await gateway.addTenant();
  });
  afterAll(async () => {
    await agent?.dispose();
    await gateway?.dispose();
  });

  test.each([
    ['gateway', () => `${gateway.url}/v1/run`],
    ['agent', () => `${agent.url}/v1/chats/any/messages`],
  ])('the %s refuses those that would take up its memory, and serves other callers', async (_, url) => {
    const begun: ClientRequest[] = [];
    // Of a refusal whose client still sends, only the cut of the connection may arrive.
    const refused = new Map<ClientRequest, number | undefined | 'cut'>();
    const begin = () => {
      const headers = { authorization: `Bearer ${gateway.key}`, 'content-length': 9_000_000 };
      const sent = request(url(), { method: 'POST', agent: false, headers }, (response) => {
        refused.set(sent, response.statusCode);
        response.resume();
      });
      sent.on('error', () => refused.has(sent) || refused.set(sent, 'cut'));
      sent.write(fiveMegabytes);
      begun.push(sent);
    };
    const send = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      const { status } = await fetch(url(), { method: 'POST', headers, body: `${fiveMegabytes}"}` });
      return status;
    };
    for (let n = 0; n < 8; n++) begin();
    await vi.waitUntil(() => refused.size >= 5, { timeout: 60_000 });
    const statuses = [...refused.values()];
    expect(statuses).toContain(429);
    expect(statuses.filter((status) => status === 429 || status === 'cut')).toHaveLength(5);
    // Read, and refused for what is in it or where it goes.
    expect([400, 404]).toContain(await send(others));
    for (const sent of begun) sent.destroy();
    await vi.waitFor(async () => expect([400, 404]).toContain(await send(gateway.key)), { timeout: 10_000 });
  });

  test('runs of a WebSocket and messages that are still arriving take part of it', async () => {
    const box = await gateway.createBox();
    const open = () => connect(gateway, `/v1/boxes/${box.id}/ws`);
    const files = [{ path: 'large', base64: 'x'.repeat(8_000_000) }];
    const running = await open();
    running.sendJson({ id: 'run', op: 'execute', code: 'import time; time.sleep(600)', files });
    const { execution } = await running.json(({ type }) => type === 'accepted');
    const begun = await open();
    begun.ws.send('x'.repeat(4_000_000), { fin: false });
    /** The end of a connection that sends so much more, or the reply. */
    const send = async () => {
      const socket = await open();
      socket.sendJson({ id: 'x', op: 'execute', code: '1', files });
      const result = await Promise.race([
        socket.json(() => true).then(({ type }) => type),
        socket.closed.then(({ code }) => code),
      ]);
      socket.ws.close();
      return result;
    };
    await vi.waitFor(async () => expect(await send()).toBe(1013), { timeout: 20_000 });
    begun.ws.terminate();
    await gateway.post(`/v1/boxes/${box.id}/executions/${execution}/interrupt`, {});
    await vi.waitFor(async () => expect(await send()).toBe('accepted'), { timeout: 20_000 });
    running.ws.close();
  });
});
