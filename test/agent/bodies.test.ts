import { type ClientRequest, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type RunningAgent, startAgent } from './agent-harness.ts';

/** Without its end. */
const fiveMegabytes = `{"text":"${'x'.repeat(5 * 1024 * 1024)}`;
// A quarter of it, and half of that for one caller, is three such bodies.
const smallHeap = { NODE_OPTIONS: '--max-old-space-size=128' };

describe('large bodies at once', () => {
  let agent: RunningAgent;
  let others: string;
  beforeAll(async () => {
    agent = await startAgent(smallHeap, smallHeap);
    others = await agent.gateway.addTenant();
  });
  afterAll(() => agent?.dispose());

  test.each([
    ['gateway', () => `${agent.gateway.url}/v1/run`],
    ['agent', () => `${agent.url}/v1/chats/any/messages`],
  ])('the %s refuses those that would take up its memory, and serves other callers', async (_, url) => {
    const begun: ClientRequest[] = [];
    const statuses: (number | undefined)[] = [];
    const begin = () => {
      const headers = { authorization: `Bearer ${agent.gateway.key}`, 'content-length': 9_000_000 };
      const sent = request(url(), { method: 'POST', agent: false, headers }, (response) => {
        statuses.push(response.statusCode);
        response.resume();
      });
      sent.on('error', () => {});
      sent.write(fiveMegabytes);
      begun.push(sent);
    };
    const send = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      const { status } = await fetch(url(), { method: 'POST', headers, body: `${fiveMegabytes}"}` });
      return status;
    };
    for (let n = 0; n < 8; n++) begin();
    await vi.waitUntil(() => statuses.length === 5, { timeout: 10_000 });
    expect(statuses).toEqual(Array(5).fill(429));
    // Read, and refused for what is in it or where it goes.
    expect([400, 404]).toContain(await send(others));
    for (const sent of begun) sent.destroy();
    await vi.waitFor(async () => expect([400, 404]).toContain(await send(agent.gateway.key)), { timeout: 10_000 });
    expect(statuses).toHaveLength(5);
  });
});
