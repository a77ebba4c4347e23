import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../api/harness.ts';
import { type RunningPage, startPage, violations } from './page-harness.ts';

describe('the page without any model', () => {
  let running: RunningPage;
  let page: Page;
  let folder: string;
  beforeAll(async () => {
    running = await startPage({ CODEBOX_AGENT_HOSTS: 'codebox.test' });
    folder = await mkdtemp(join(tmpdir(), 'codebox-upload-'));
    page = await running.visit();
  });
  afterAll(async () => {
    await running?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const cell = (number: number) =>
    page.getByRole('listitem').filter({ has: page.getByLabel(`Code of cell ${number}`) });
  const write = (number: number, code: string) => page.getByLabel(`Code of cell ${number}`).fill(code);
  const run = (number: number) => page.getByLabel(`Run cell ${number}`).click();
  const output = (number: number) => cell(number).locator('.outputs');
  const shows = (number: number, text: string | RegExp) => output(number).getByText(text).first().waitFor();
  const ends = (number: number, text: RegExp) => cell(number).getByRole('status').getByText(text).waitFor();

  test('opens the notebook at once, and names the settings for a model', async () => {
    await page.getByLabel('Code of cell 1').waitFor();
    const { hint } = (await running.agent.send<{ hint: string }>('GET', '/v1/info')).body;
    await page
      .getByText(hint ?? 'No model is configured.')
      .first()
      .waitFor();
    expect(await violations(page, 'notebook-first')).toEqual([]);
    await page.getByRole('button', { name: 'Chat', exact: true }).click();
    await page.getByText('There is no model to ask yet').first().waitFor();
    expect(await violations(page, 'chat-without-model')).toEqual([]);
    await page.getByRole('button', { name: 'Open the notebook' }).click();
  });

  test('runs cells in three languages, keeps their variables, and shows output as it arrives', async () => {
    await write(1, 'import time\nx = 41\nprint("first", flush=True)\ntime.sleep(3)\nprint("second")\nx + 1');
    await run(1);
    await shows(1, 'first');
    expect(await output(1).getByText('second').count()).toBe(0);
    await shows(1, 'second');
    await shows(1, '42');
    await page.getByRole('button', { name: 'JavaScript' }).click();
    await write(2, '[1, 2, 3].map((x) => x * 2)');
    await page.keyboard.press('Control+Enter');
    await shows(2, /\[ ?2, 4, 6 ?\]/);
    await page.getByRole('button', { name: 'Bash' }).click();
    await write(3, 'echo "\x1b[31mred\x1b[0m and $((6 * 7))"');
    await run(3);
    await shows(3, 'red');
    await page.getByRole('button', { name: 'Python' }).click();
    await write(4, 'print(x * 2)\nraise ValueError("broken on purpose")');
    await run(4);
    await shows(4, '82');
    await shows(4, 'broken on purpose');
    await ends(4, /Failed in/);
    expect(await violations(page, 'notebook-cells')).toEqual([]);
  });

  test('can interrupt a cell, and give input to one', async () => {
    await write(4, 'import time\nprint("begun", flush=True)\ntime.sleep(600)');
    await run(4);
    await shows(4, 'begun');
    await page.getByLabel('Interrupt cell 4').click();
    await ends(4, /Interrupted in/);
    await write(4, 'name = input("Your name? ")\nprint("Hello", name)');
    await run(4);
    await page.getByLabel('Your name?').fill('Ada');
    await page.keyboard.press('Enter');
    await shows(4, 'Hello Ada');
  });

  test('goes on with a cell after a reload and after a crash of the agent, and has the outputs and the code of the others', async () => {
    await page.getByRole('button', { name: 'Bash' }).click();
    await write(5, 'touch go');
    await run(5);
    await ends(5, /Done in/);
    const wait = 'while not open("go").read(): time.sleep(0.1)';
    await write(1, `import time\na = input("Sure? ")\nprint("before", flush=True)\n${wait}\nprint("after")`);
    await run(1);
    await page.getByLabel('Sure?').fill('quite');
    await page.keyboard.press('Enter');
    await shows(1, 'before');
    await write(5, 'echo 1 > go');
    await page.reload();
    await shows(1, 'before');
    await shows(1, 'Sure? quite');
    expect(await page.getByLabel('Sure?').count()).toBe(0);
    await shows(4, 'Your name? Ada');
    await ends(4, /Done in/);
    // A proxy responds for an agent that it cannot reach.
    await page.route('**/v1/**', (route) =>
      route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad Gateway</h1>' }),
    );
    await running.agent.kill('SIGKILL');
    await page.getByText('Connection lost').waitFor();
    await running.agent.restart();
    await page.unrouteAll();
    await page.getByText('Connection lost').waitFor({ state: 'detached' });
    await run(5);
    await shows(1, 'after');
    expect(await output(1).getByText('before').count()).toBe(1);
    await ends(1, /Done in/);
  });

  test('runs the cells of a language one after the other, and none after one that failed', async () => {
    const first = 'import time\nprint("begun", flush=True)\ntime.sleep(600)';
    await write(1, first);
    await write(4, 'print("never")');
    await page.getByRole('button', { name: 'Python' }).click();
    await write(6, 'print("nor this")');
    await run(1);
    await shows(1, 'begun');
    await run(4);
    await run(6);
    await ends(6, /Waiting for the cell before it/);
    await page.getByLabel('Interrupt cell 6').click();
    await page.getByLabel('Run cell 6').waitFor();
    await page.getByLabel('Interrupt cell 1').click();
    await ends(1, /Interrupted in/);
    await cell(4).getByText('This was not run, because a cell before it did not succeed.').waitFor();
    await run(6);
    await shows(6, 'nor this');
  });

  test('shows plots as pictures, and tables in frames of their height', async () => {
    await write(4, 'import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()');
    await run(4);
    const picture = cell(4).getByRole('img', { name: 'Picture made by the code' });
    await picture.waitFor();
    expect(await picture.evaluate((image) => 'naturalWidth' in image && Number(image.naturalWidth))).toBeGreaterThan(
      100,
    );
    await page.getByRole('button', { name: 'Python' }).click();
    await write(7, 'import pandas as pd\npd.DataFrame({"n": range(12), "square": [i * i for i in range(12)]})');
    await run(7);
    const frame = cell(7).locator('iframe');
    await frame.contentFrame().getByText('121').waitFor();
    await eventually(async () => ((await frame.boundingBox())?.height ?? 0) > 300);
    await page.keyboard.press('End');
    expect(await violations(page, 'notebook-rich')).toEqual([]);
  });

  test('draws a chart anew when its code or another cell updates it', async () => {
    const chart = (title: string) =>
      `alt.Chart(pd.DataFrame({"n": [1, 2]}), title="${title}").mark_bar().encode(y="n:Q")`;
    await write(
      7,
      `import altair as alt, pandas as pd
from IPython.display import clear_output, display
figure = lambda title: display({"application/vnd.plotly.v1+json": {"data": [{"y": [1, 2]}], "layout": {"title": {"text": title}}}}, raw=True)
shown = display(${chart('Chart one')}, display_id=True)
figure("Figure one")
input("Go on?")
clear_output(wait=True)
shown = display(${chart('Chart two')}, display_id=True)
figure("Figure two")`,
    );
    await run(7);
    const inChart = (index: number, text: string) =>
      output(7).locator('iframe').nth(index).contentFrame().getByText(text).waitFor();
    await inChart(0, 'Chart one');
    await inChart(1, 'Figure one');
    await page.getByLabel('Go on?').press('Enter');
    await inChart(0, 'Chart two');
    await inChart(1, 'Figure two');
    await write(4, `shown.update(${chart('Chart three')})`);
    await run(4);
    await inChart(0, 'Chart three');
    await write(
      4,
      'shown.update({"application/vnd.vega.v5+json": {"signals": [{"name": "a"}, {"name": "a"}]}}, raw=True)',
    );
    await run(4);
    await output(7).getByText('This chart could not be drawn').waitFor();
    await write(4, `shown.update(${chart('Chart four')})`);
    await run(4);
    await inChart(0, 'Chart four');
  });

  test('shows the first and the last of thousands of outputs, and how their run ended', async () => {
    await write(
      7,
      `from IPython.display import HTML, display
for number in range(2000): display(HTML(f"<p>Output {number}</p>"))
raise ValueError("at the end")`,
    );
    await run(7);
    await ends(7, /Failed in/);
    await shows(7, '… 1,801 outputs are left out here …');
    await shows(7, 'at the end');
    expect(await output(7).locator('iframe').count()).toBe(199);
    await output(7).locator('iframe').nth(198).contentFrame().getByText('Output 1999').waitFor();
    await write(7, 'print("few")');
    await run(7);
    await shows(7, 'few');
  });

  test('can upload, list, download and delete files', async () => {
    const file = join(folder, 'data.csv');
    await writeFile(file, 'a,b\n1,2\n');
    await page.getByRole('button', { name: 'Files', exact: true }).click();
    await page.getByLabel('Files to upload').setInputFiles(file);
    const files = page.getByRole('complementary', { name: 'Files' });
    await files.getByRole('link', { name: 'data.csv' }).waitFor();
    await files.getByText('8 bytes').waitFor();
    expect(await violations(page, 'files')).toEqual([]);
    const download = page.waitForEvent('download');
    await files.getByRole('link', { name: 'data.csv' }).click();
    expect((await download).suggestedFilename()).toBe('data.csv');
    await files.getByLabel('Delete data.csv').click();
    expect(await violations(page, 'confirm')).toEqual([]);
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await eventually(async () => (await files.getByRole('link', { name: 'data.csv' }).count()) === 0);
  });

  test('says why a file could not be deleted, and shows the folder that was opened last', async () => {
    const files = page.getByRole('complementary', { name: 'Files' });
    await write(7, 'import os; os.mkdir("slow"); open("slow/inside", "w"); open(b"caf\\xe9", "w")');
    await run(7);
    await ends(7, /Done in/);
    await files.getByRole('button', { name: 'Refresh' }).click();
    const remove = async () => {
      await files.getByLabel('Delete caf').click();
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
    };
    await page.route('**/files/caf*', (route) =>
      route.fulfill({ status: 403, contentType: 'text/html', body: '<h1>Forbidden</h1>' }),
    );
    await remove();
    await files.getByRole('alert').getByText('403').waitFor();
    await page.unrouteAll();
    await remove();
    await eventually(async () => (await files.getByText('caf').count()) === 0);
    const slow = /files\?path=slow$/;
    await page.route(slow, async (route) => {
      await sleep(1000);
      await route.continue();
    });
    const late = page.waitForResponse(slow);
    await files.getByRole('button', { name: 'slow', exact: true }).click();
    await files.getByRole('button', { name: 'Files', exact: true }).click();
    await late;
    // The page would show it now.
    await sleep(200);
    await page.unrouteAll();
    expect(await files.getByText('inside').count()).toBe(0);
  });

  test('does not upload a file that is removed while its chat is created', async () => {
    const other = await running.visit();
    const sent: string[] = [];
    other.on('request', (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
    const held = Promise.withResolvers<void>();
    await other.route('**/v1/chats', async (route) => {
      if (route.request().method() === 'POST') await held.promise;
      await route.continue();
    });
    await other.getByRole('button', { name: 'Files', exact: true }).click();
    const file = { name: 'data.csv', mimeType: 'text/csv', buffer: Buffer.from('a') };
    await other.getByLabel('Files to upload').setInputFiles(file);
    await other.getByLabel('Cancel data.csv').click();
    held.resolve();
    await other.waitForResponse(/chats\/[^/]+\/files/);
    expect(sent.filter((request) => request.startsWith('PUT'))).toEqual([]);
    await other.context().close();
  });

  test('offers to reload the page if the code of a view cannot be loaded', async () => {
    await page.route(/\/terminal-[^/]+\.js/, (route) => route.abort());
    await page.getByRole('button', { name: 'Terminal' }).click();
    await page.getByText('This view cannot be shown').waitFor();
    expect(await violations(page, 'broken-view')).toEqual([]);
    await page.unrouteAll();
    await page.getByRole('button', { name: 'Reload' }).click();
    await page.locator('.xterm-rows').waitFor();
    await page.getByRole('button', { name: 'Notebook' }).click();
  });

  test('opens a terminal in the same box, and shows its screen again after a reload', async () => {
    await page.getByRole('button', { name: 'Terminal' }).click();
    const rows = () => page.locator('.xterm-rows').textContent();
    await eventually(async () => /\$ ?$/.test(((await rows()) ?? '').trimEnd()));
    await page.keyboard.type('kept=yes; echo $((6*7))-here\n');
    await eventually(async () => (await rows())?.includes('42-here'));
    expect(await violations(page, 'terminal')).toEqual([]);
    await page.reload();
    await eventually(async () => (await rows())?.includes('42-here'));
    await page.keyboard.type('echo "kept: $kept"\n');
    await eventually(async () => (await rows())?.includes('kept: yes'));
  });

  test('runs code if the page comes by plain HTTP from another host', async () => {
    const other = await running.visit();
    await other.goto(running.agent.url.replace('127.0.0.1', 'codebox.test'));
    expect(await other.evaluate('isSecureContext')).toBe(false);
    await other.getByLabel('Code of cell 1').fill('6 * 7');
    await other.getByLabel('Run cell 1').click();
    await other.locator('.outputs').getByText('42').waitFor();
    await other.context().close();
  });

  test('throws no errors in any of these tests', () => expect(running.faults).toEqual([]));
});
