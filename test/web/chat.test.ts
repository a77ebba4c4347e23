import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runs, startModelServer } from '../agent/model-server.ts';
import { eventually } from '../api/harness.ts';
import { openLink } from '../api/link.ts';
import { type RunningPage, startPage, violations } from './page-harness.ts';

const plot = `import matplotlib.pyplot as plt
plt.plot([1, 4, 9])
plt.show()
open('squares.csv', 'w').write('n,square\\n1,1\\n2,4\\n')
print('drawn')`;

describe('a chat in the page', () => {
  const stack = new AsyncDisposableStack();
  let model: Awaited<ReturnType<typeof startModelServer>>;
  let running: RunningPage;
  let page: Page;
  let folder: string;
  beforeAll(async () => {
    model = stack.use(await startModelServer());
    folder = await mkdtemp(join(tmpdir(), 'codebox-upload-'));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    running = stack.use(
      await startPage({
        OPENAI_API_KEY: 'key-of-a-test',
        OPENAI_BASE_URL: `${model.url}/v1`,
        CODEBOX_MODELS: 'openai/first,openai/second',
      }),
    );
    page = await running.visit();
  });
  afterAll(() => stack.disposeAsync());

  const composer = () => page.getByLabel('Your message');
  const answer = () => page.getByRole('article', { name: 'CodeBox' }).last();
  const isDone = () => page.getByRole('button', { name: 'Send' }).waitFor();
  const ask = async (text: string) => {
    await composer().fill(text);
    await page.keyboard.press('Enter');
  };

  test('opens with the focus on the composer', async () => {
    await page.getByText('What shall we work out?').waitFor();
    await eventually(() => page.evaluate(`document.activeElement.getAttribute('aria-label') === 'Your message'`));
    expect(await violations(page, 'first-visit')).toEqual([]);
  });

  test('shows the code, output, plot and file of an answer, also after a reload', async () => {
    model.script(runs(plot, 'python', 'I draw the squares.'), {
      text: 'Here are **three squares**:\n\n| n | square |\n|---|---|\n| 1 | 1 |\n\n```python\nprint(1)\n```',
    });
    await ask('Draw the first squares');
    const check = async () => {
      await answer().getByText('three squares').waitFor();
      await answer().getByText('drawn', { exact: true }).waitFor();
      const picture = answer().getByRole('img', { name: 'Picture 1' });
      await eventually(() => picture.evaluate((image) => 'naturalWidth' in image && Number(image.naturalWidth) > 100));
      await answer()
        .getByRole('link', { name: /squares\.csv/ })
        .waitFor();
      expect(await answer().locator('strong').textContent()).toBe('three squares');
    };
    await check();
    await isDone();
    expect(await violations(page, 'answer')).toEqual([]);
    const download = page.waitForEvent('download');
    await answer()
      .getByRole('link', { name: /squares\.csv/ })
      .click();
    expect((await download).suggestedFilename()).toBe('squares.csv');
    await page.reload();
    await check();
    await page.getByRole('navigation', { name: 'Your chats' }).getByText('Draw the first squares').waitFor();
  });

  test('renews links before they expire while it stays open', async () => {
    const chat = page.url();
    const other = await page.context().newPage();
    await other.clock.install();
    await other.goto(chat);
    const picture = other.getByRole('img', { name: 'Picture 1' });
    await other.getByRole('button', { name: 'Files', exact: true }).click();
    const file = other.getByRole('complementary', { name: 'Files' }).getByRole('link', { name: 'squares.csv' });
    const links = async () => [await picture.getAttribute('src'), await file.getAttribute('href')];
    const before = await links();
    await other.clock.fastForward('59:00');
    await eventually(async () => (await links()).every((link) => !before.includes(link)));
    await eventually(() => picture.evaluate((image) => 'naturalWidth' in image && Number(image.naturalWidth) > 100));
    await other.close();
  });

  test('folds a traceback below its short error, and shows long tables in a frame and long output on request', async () => {
    model.script(
      runs("raise ValueError('the cause')"),
      runs('import pandas as pd\npd.DataFrame({"n": range(60), "square": [i * i for i in range(60)]})'),
      runs('for i in range(400): print("line", i)'),
      { text: 'All shown.' },
    );
    await ask('Fail, then show a table');
    await answer().getByText('All shown.').waitFor();
    await answer().getByText('the cause').first().waitFor();
    expect(await answer().getByText('Traceback').isVisible()).toBe(false);
    await answer().locator('summary', { hasText: 'ValueError' }).click();
    await answer().getByText('Traceback').first().waitFor();
    await answer().locator('iframe').contentFrame().getByText('3481').waitFor();
    await answer().getByRole('button', { name: 'Show all' }).first().click();
    await answer().getByText('line 399').waitFor();
    await isDone();
    expect(await violations(page, 'answer-long')).toEqual([]);
  });

  test('sends files with a question, by button and by paste', async () => {
    const file = join(folder, 'data.csv');
    await writeFile(file, 'a,b\n1,2\n');
    model.script({ text: 'It has two columns.' });
    await page.getByLabel('Files', { exact: true }).setInputFiles(file);
    await page.getByText('8 bytes').waitFor();
    await page.evaluate(`{
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File(['x'], 'pasted.txt', { type: 'text/plain' }));
      document.querySelector('textarea').dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }));
    }`);
    await page.getByText('1 bytes').waitFor();
    await page.getByLabel('Remove pasted.txt').click();
    await ask('What is in it?');
    await answer().getByText('It has two columns.').waitFor();
    await page
      .getByRole('article', { name: 'You' })
      .last()
      .getByRole('link', { name: /data\.csv/ })
      .waitFor();
    expect(JSON.stringify(model.requests)).toContain('data.csv');
    expect(JSON.stringify(model.requests)).not.toContain('pasted.txt');
    await isDone();
  });

  test('stops an answer with Escape, and keeps its content', async () => {
    model.script(runs('import time\nprint("begun", flush=True)\ntime.sleep(600)'), { text: 'never' });
    await ask('Take long');
    await answer().getByText('begun', { exact: true }).waitFor();
    expect(await violations(page, 'answer-running')).toEqual([]);
    await composer().focus();
    const stops: string[] = [];
    page.on('request', (request) => {
      if (request.url().endsWith('/stop')) stops.push(request.url());
    });
    await composer().dispatchEvent('keydown', { key: 'Escape', isComposing: true });
    await page.keyboard.press('Escape');
    await answer().getByText('You stopped this answer.').waitFor();
    await answer().getByText('begun', { exact: true }).waitFor();
    expect(stops).toHaveLength(1);
  });

  test('leaves the Enter that chooses a word to an input method', async () => {
    await isDone();
    await composer().fill('漢字');
    for (const sign of [{ isComposing: true }, { keyCode: 229 }])
      await composer().dispatchEvent('keydown', { key: 'Enter', ...sign });
    expect(await composer().inputValue()).toBe('漢字');
    await composer().fill('');
  });

  test('runs code only when it is approved, if approval is on', async () => {
    await page.getByText('Ask before running').click();
    model.script(runs('print("ran", 6 * 7)'), { text: 'Good.' });
    await ask('Compute');
    await answer().getByText('Run this code?').last().waitFor();
    expect(await violations(page, 'approval')).toEqual([]);
    expect(await answer().getByText('ran 42').count()).toBe(0);
    await answer().getByRole('button', { name: 'Approve' }).click();
    await answer().getByText('ran 42').waitFor();
    await answer().getByText('Good.').waitFor();
    await isDone();
    model.script(runs('print("never", 6 * 7)'), { text: 'As you like.' });
    await ask('Compute again');
    await answer().getByRole('button', { name: 'Decline' }).click();
    await answer().getByText('As you like.').waitFor();
    expect(await answer().getByText('never 42').count()).toBe(0);
    await isDone();
    // The chat stores the setting.
    await page.reload();
    await eventually(() => page.getByRole('checkbox', { name: 'Ask before running' }).isChecked());
    await page.getByText('Ask before running').click();
  });

  test('continues an answer over a reload of the page', async () => {
    model.script(runs('import time\nprint("one", flush=True)\ntime.sleep(4)\nprint("two")'), { text: 'Both came.' });
    await ask('Slowly');
    await answer().getByText('one', { exact: true }).waitFor();
    await page.reload();
    await answer().getByText('Both came.').waitFor();
    expect(await answer().getByText('Both came.').count()).toBe(1);
    expect(await answer().locator('.outputs').textContent()).toContain('two');
    await isDone();
  });

  test('resumes an answer whose stream is cut, without repetition', async () => {
    await using link = await openLink(running.agent.url);
    const other = await running.browser.newPage();
    await other.goto(link.url);
    model.script(runs('import time\nprint("one", flush=True)\ntime.sleep(3)\nprint("two")', 'python', 'First.'), {
      text: 'Both came.',
    });
    await other.getByLabel('Your message').fill('Slowly');
    await other.keyboard.press('Enter');
    const outputs = other.locator('.outputs');
    await outputs.getByText('one').waitFor();
    link.cut();
    await other.getByText('Both came.').waitFor();
    expect((await outputs.textContent())?.split(/\s+/).filter(Boolean)).toEqual(['one', 'two']);
    expect(await other.getByText('First.').count()).toBe(1);
    expect(await other.getByRole('alert').count()).toBe(0);
    await other.context().close();
  });

  test('shows the reason if there is no answer', async () => {
    model.script({ status: 400, message: 'broken for a test' });
    await ask('Fail');
    await answer().getByRole('alert').waitFor();
    expect((await answer().getByRole('alert').textContent())?.length).toBeGreaterThan(10);
    await isDone();
    expect(await violations(page, 'answer-failed')).toEqual([]);
  });

  test('uses the selected model', async () => {
    await page.getByLabel('Model', { exact: true }).selectOption('openai/second');
    model.script({ text: 'From the second.' });
    await ask('Who are you?');
    await answer().getByText('From the second.').waitFor();
    expect(model.requests.map(({ model }) => model)).toEqual(['second']);
    await isDone();
  });

  test("sends a reader's own key to its provider, and to no other", async () => {
    const sent: (string | undefined)[] = [];
    page.on('request', (request) => {
      if (/\/messages$/.test(request.url()) && request.method() === 'POST') sent.push(request.headers()['x-model-key']);
    });
    for (const provider of ['anthropic', 'openai']) {
      await page.evaluate(`sessionStorage.setItem('codebox-model-key ${provider}', 'own-key-for-${provider}')`);
      model.script({ text: `Asked ${provider}.` });
      await ask('Who pays?');
      await answer().getByText(`Asked ${provider}.`).waitFor();
      await isDone();
    }
    expect(sent).toEqual([undefined, 'own-key-for-openai']);
    await page.evaluate('sessionStorage.clear()');
  });

  test('shows hostile Markdown as text and loads nothing from other hosts', async () => {
    const requests: string[] = [];
    page.on('request', (request) => requests.push(request.url()));
    model.script({
      text: '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>\n\n[click](javascript:window.pwned=1) ![track](https://example.com/track.png) [data](data:text/html,x)\n\nthe end',
    });
    await ask('Attack');
    await answer().getByText('the end').waitFor();
    await isDone();
    await answer().getByText('click').click();
    expect(await page.evaluate('window.pwned')).toBeUndefined();
    expect(await answer().locator('img, script').count()).toBe(0);
    expect(await answer().locator('a[href^="javascript"], a[href^="data"]').count()).toBe(0);
    expect(requests.filter((url) => url.includes('example.com'))).toEqual([]);
    for (const extra of page.context().pages().slice(1)) await extra.close();
  });

  test('is usable on a phone', async () => {
    await page.setViewportSize({ width: 375, height: 740 });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(375);
    expect(await violations(page, 'phone')).toEqual([]);
    await page.getByRole('button', { name: 'Chats', exact: true }).click();
    await page.getByRole('link', { name: 'New chat' }).waitFor();
    expect(await violations(page, 'phone-menu')).toEqual([]);
    await page.getByRole('link', { name: 'New chat' }).click();
    await page.getByText('What shall we work out?').waitFor();
    expect(await violations(page, 'phone-first')).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  test('can be renamed, and deleted after a confirmation', async () => {
    const chats = page.getByRole('navigation', { name: 'Your chats' });
    await chats.getByText('Draw the first squares').click();
    await answer().waitFor();
    await page.getByLabel('Rename Draw the first squares').click();
    expect(await violations(page, 'rename')).toEqual([]);
    await page.getByRole('textbox', { name: 'Name' }).fill('Squares');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Squares' }).waitFor();
    await page.getByLabel('Delete Squares').click();
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('What shall we work out?').waitFor();
    await eventually(async () => (await chats.getByText('Squares').count()) === 0);
  });

  test('throws no errors in any of these tests, and stores no key', async () => {
    expect(running.faults).toEqual([]);
    expect(
      await page.evaluate('JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie])'),
    ).not.toMatch(/cbx_|key-of-a-test|codebox-visitor/);
  });
});
