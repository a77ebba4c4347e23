import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box } from '#contract';
import { anyDriver, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { startServer, uploadServers } from '../api/servers.ts';
import { launchChromium } from './chromium.ts';

describe.each(anyDriver)('ports in Chromium on the %s driver', (driver) => {
  const stack = new AsyncDisposableStack();
  let gateway: RunningGateway;
  let browser: Browser;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    stack.defer(gateway.dispose);
    box = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, box.id, 'page.py');
    await startServer(gateway, box.id, 'python3 page.py 5000', 5000);
    browser = await launchChromium();
    stack.defer(() => browser.close());
  });
  afterAll(() => stack.disposeAsync());

  const ticket = async () => (await gateway.post<{ ticket: string }>(`/v1/boxes/${box.id}/tickets`, {})).body.ticket;

  test('on its own host an app can use modules, fetch, cookies, a service worker, WebSockets and forms', async () => {
    const page = await browser.newPage();
    const origin = `http://5000-${box.id}.localhost:${new URL(gateway.url).port}`;
    await page.goto(`${origin}/?ticket=${await ticket()}`);
    expect(page.url()).toBe(`${origin}/`);
    await eventually(async () => (await page.textContent('body'))?.includes('hello from the socket'));
    expect(await page.evaluate('getComputedStyle(document.body).color')).toBe('rgb(1, 2, 3)');
    expect(await page.evaluate('seen')).toMatchObject({ origin, cookie: 'visited=yes' });
    await page.click('button');
    expect(await page.textContent('body')).toBe('posted Ada, visited yes');
    await page.close();
  });

  test('below the URL of the gateway a page has an opaque origin and cannot call the API', async () => {
    const page = await browser.newPage();
    const address = `${gateway.url}/v1/boxes/${box.id}/ports/5000/`;
    await page.goto(`${address}?ticket=${await ticket()}`);
    await eventually(() => page.evaluate('"api" in seen'));
    expect(await page.evaluate('seen')).toEqual({
      origin: 'null',
      url: address,
      cookie: 'SecurityError',
      api: 'TypeError',
    });
    await page.reload();
    expect(await page.title()).toBe('app');
    await page.close();
  });

  test('the page of one port cannot use the session of another', async () => {
    const context = await browser.newContext();
    const page = await context.newPage();
    const { port } = new URL(gateway.url);
    const other = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, other.id, 'page.py');
    await startServer(gateway, other.id, 'python3 page.py 5000', 5000);
    const { body } = await gateway.post<{ ticket: string }>(`/v1/boxes/${other.id}/tickets`, {});
    const victim = `http://5000-${other.id}.localhost:${port}`;
    await page.goto(`${victim}/?ticket=${body.ticket}`);
    await page.goto(`http://5000-${box.id}.localhost:${port}/?ticket=${await ticket()}`);
    const refused = page.waitForResponse((response) => response.url() === `${victim}/data`);
    await page.evaluate(`void fetch('${victim}/data', { mode: 'no-cors', credentials: 'include' })`);
    expect([401, 403]).toContain((await refused).status());
    const socket = `new Promise((end) => {
      const socket = new WebSocket('${victim.replace('http', 'ws')}/socket');
      socket.onmessage = () => end('open');
      socket.onerror = () => end('refused');
    })`;
    expect(await page.evaluate(socket)).toBe('refused');
    await context.close();
  });
});
