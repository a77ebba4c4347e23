import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Terminal } from '#contract';
import { anyDriver, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { launchChromium } from './chromium.ts';

const example = resolve(import.meta.dirname, '../../examples/browser/terminal.ts');

describe.each(anyDriver)('the terminal example in Chromium on the %s driver', (driver) => {
  const stack = new AsyncDisposableStack();
  let gateway: RunningGateway;
  let browser: Browser;
  let page: Page;
  const faults: string[] = [];
  beforeAll(async () => {
    gateway = await startGateway(driver);
    stack.defer(gateway.dispose);
    const app = spawn(process.execPath, [example], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, CODEBOX_URL: gateway.url, CODEBOX_KEY: gateway.key, PORT: '0' },
    });
    stack.defer(() => void app.kill());
    const [line] = (await once(app.stdout, 'data')) as [Buffer];
    browser = await launchChromium();
    stack.defer(() => browser.close());
    page = await browser.newPage({ viewport: { width: 800, height: 480 } });
    page.on('pageerror', (error) => faults.push(String(error)));
    await page.goto(line.toString().trim());
  });
  afterAll(() => stack.disposeAsync());

  const rows = () => page.locator('.xterm-rows').textContent();
  const shows = (part: RegExp) => eventually(async () => part.test((await rows()) ?? ''));
  const type = async (line: string) => {
    await page.keyboard.type(line);
    await page.keyboard.press('Enter');
  };

  test('a page can open a shell by ticket, run Python, resize, and show its screen again after a reload', async () => {
    await shows(/\/mnt\/data \$/);
    await type('python3');
    await shows(/>>>/);
    await type('print(6*7)');
    await shows(/42/);
    await type('exit()');

    await type('echo size $(stty size)');
    await shows(/size \d+ \d+/);
    await page.setViewportSize({ width: 1000, height: 700 });
    const [box] = (await gateway.get<{ items: Box[] }>('/v1/boxes')).body.items;
    const terminals = async () =>
      (await gateway.get<{ items: Terminal[] }>(`/v1/boxes/${box?.id}/terminals`)).body.items;
    const [before] = await terminals();
    await type('clear; echo now $(stty size)');
    await shows(/now \d+ \d+/);
    const [after] = await terminals();
    expect(after?.id).toBe(before?.id);
    await shows(new RegExp(`now ${after?.rows} ${after?.cols}`));
    expect(after?.cols).toBeGreaterThan(90);

    await type('kept=yes; python3 -q');
    await shows(/>>>/);
    await type('"screen " + "stays"');
    await shows(/screen stays/);
    await page.reload();
    await shows(/screen stays/);
    await type('exit()');
    await type('echo "kept: $kept"');
    await shows(/kept: yes/);
    expect(await terminals()).toMatchObject([{ id: before?.id, clients: 1 }]);

    await type('exit 0');
    await shows(/\[The shell has ended\.\]/);
    expect(await terminals()).toEqual([]);
    expect(faults).toEqual([]);
  });

  test('the page contains no key, and neither tickets nor keys are logged', async () => {
    const held = await page.evaluate('JSON.stringify([{ ...sessionStorage }, document.cookie])');
    expect(held).not.toContain('cbx_');
    expect(gateway.output()).not.toMatch(/tkt_|cbx_/);
  });
});
