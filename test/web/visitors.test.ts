import { randomBytes } from 'node:crypto';
import { mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../api/harness.ts';
import { type RunningPage, startPage, violations } from './page-harness.ts';

const megabyte = 1024 * 1024;

describe('an agent that is not open', () => {
  let running: RunningPage;
  beforeAll(async () => {
    running = await startPage({ CODEBOX_AGENT_OPEN: '0' });
  });
  afterAll(() => running?.[Symbol.asyncDispose]());

  test('requires a key, which the tab stores until the visitor removes it', async () => {
    const page = await running.visit();
    await page.getByLabel('CodeBox key').fill('cbx_wrong');
    await page.keyboard.press('Enter');
    await page.getByText('This key is not valid.').waitFor();
    expect(await violations(page, 'login')).toEqual([]);
    await page.getByLabel('CodeBox key').fill(running.agent.gateway.key);
    await page.keyboard.press('Enter');
    await page.getByLabel('Code of cell 1').waitFor();
    await page.reload();
    await page.getByLabel('Code of cell 1').waitFor();
    await page.evaluate(`for (const name of ['model-key openai', 'cells-chat', 'terminal-chat'])
      sessionStorage.setItem('codebox-' + name, 'of this visitor')`);
    await page.getByRole('button', { name: 'Forget my key' }).click();
    await page.getByLabel('CodeBox key').waitFor();
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  test('uploads 200 MB with progress, and a cancelled upload leaves no file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'codebox-upload-'));
    const path = join(folder, 'large.bin');
    const file = await open(path, 'w');
    const block = randomBytes(megabyte);
    for (let written = 0; written < 200; written++) await file.write(block);
    await file.close();
    const page = await running.visit();
    await page.getByLabel('CodeBox key').fill(running.agent.gateway.key);
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Files', exact: true }).click();
    const input = page.getByLabel('Files to upload');

    await page.evaluate(
      `globalThis.shares = []; new MutationObserver(() => { const bar = document.querySelector('progress'); if (bar) shares.push(bar.value) }).observe(document.body, { subtree: true, childList: true, attributes: true })`,
    );
    await input.setInputFiles(path);
    await page.getByRole('link', { name: 'large.bin' }).waitFor({ timeout: 100_000 });
    await page.getByText('210 MB').waitFor();
    const shares = (await page.evaluate('shares')) as number[];
    expect(new Set(shares).size).toBeGreaterThan(3);
    expect(shares).toEqual(shares.toSorted((a, b) => a - b));

    await page.getByLabel('Delete large.bin').click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await eventually(async () => (await page.getByRole('link', { name: 'large.bin' }).count()) === 0);
    // The upload is throttled, so that it can be cancelled in progress.
    const devtools = await page.context().newCDPSession(page);
    const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 4 * megabyte };
    await devtools.send('Network.emulateNetworkConditions', slow);
    await input.setInputFiles(path);
    await page.getByLabel('Cancel large.bin').click();
    await eventually(async () => (await page.getByText('large.bin').count()) === 0);
    await devtools.send('Network.emulateNetworkConditions', { ...slow, uploadThroughput: -1 });
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('There are no files yet.').waitFor();
    expect(await page.getByRole('link', { name: 'large.bin' }).count()).toBe(0);
    await rm(folder, { recursive: true, force: true });
    expect(running.faults).toEqual([]);
  });
});
