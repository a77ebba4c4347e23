import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type * as Contract from '#contract';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { launchChromium } from './chromium.ts';
import { servePage } from './page-server.ts';

describe.each(anyDriver)('the client in Chromium on the %s driver', (driver) => {
  const stack = new AsyncDisposableStack();
  let gateway: RunningGateway;
  let browser: Browser;
  let page: Page;
  const faults: string[] = [];
  beforeAll(async () => {
    gateway = await startGateway(driver);
    stack.defer(gateway.dispose);
    const app = stack.use(await servePage(gateway));
    browser = await launchChromium();
    stack.defer(() => browser.close());
    page = await browser.newPage();
    page.on('pageerror', (error) => faults.push(String(error)));
    await page.goto(app.url);
    await page.waitForFunction('globalThis.contract !== undefined');
  });
  afterAll(() => stack.disposeAsync());

  test('a page without a key can run code, stream output, transfer files and read errors', async () => {
    const seen = await page.evaluate(async (url) => {
      const { createClient, CodeBoxError } = (globalThis as unknown as { contract: typeof Contract }).contract;
      const client = createClient({ url });
      const box = await client.boxes.create();
      const types: string[] = [];
      for await (const event of await client.executions.stream(box.id, { code: 'print("hello")\n6 * 7' }))
        types.push(event.type);
      await client.files.write(box.id, 'a b/ü.txt', new Blob(['from a page']));
      const text = await client.files.readText(box.id, 'a b/ü.txt');
      const listed: string[] = [];
      for await (const { path } of client.files.list(box.id, 'a b')) listed.push(path);
      const refused = await client.executions.run(box.id, { code: 'x', timeoutSeconds: -1 }).catch((error) => error);
      const fault = refused instanceof CodeBoxError ? [refused.code, refused.errors[0]?.pointer] : String(refused);
      const leave = new AbortController();
      const slow = await client.executions.stream(
        box.id,
        { code: 'import time; time.sleep(60)' },
        { signal: leave.signal },
      );
      const left = await (async () => {
        for await (const event of slow) if (event.type === 'started') leave.abort(new Error('left'));
      })().catch(String);
      await client.boxes.delete(box.id);
      return { types, text, listed, fault, left };
    }, new URL(page.url()).origin);
    expect(seen).toEqual({
      types: ['started', 'stdout', 'result', 'done'],
      text: 'from a page',
      listed: ['a b/ü.txt'],
      fault: ['invalid_request', '/timeoutSeconds'],
      left: 'Error: left',
    });
    expect(faults).toEqual([]);
  });
});
