import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runs, startModelServer } from '../agent/model-server.ts';
import { eventually } from '../api/harness.ts';
import { type RunningPage, startPage, violations } from './page-harness.ts';

describe('an answer in the page', () => {
  const stack = new AsyncDisposableStack();
  let model: Awaited<ReturnType<typeof startModelServer>>;
  let running: RunningPage;
  let page: Page;
  beforeAll(async () => {
    model = stack.use(await startModelServer());
    const env = { OPENAI_API_KEY: 'key-of-a-test', OPENAI_BASE_URL: `${model.url}/v1`, CODEBOX_MODELS: 'openai/first' };
    running = stack.use(await startPage(env));
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

  test('can be requested from a suggestion by a click and Enter', async () => {
    model.script({ text: 'They share a period.' });
    await page.getByRole('button', { name: /^Plot a sine/ }).click();
    await page.keyboard.press('Enter');
    await answer().getByText('They share a period.').waitFor();
    await isDone();
  });

  test('shows the last state of progress bars, and formulas and JSON as values', async () => {
    model.script(
      runs(`import time
for i in range(4):
  print(f"\\rEpoch {i}", end="", flush=True)
  time.sleep(0.2)`),
      runs(`from IPython.display import JSON, Math, display
display(Math(r"\\frac{1}{2}"), JSON({"total": 3}))`),
      { text: 'All shown.' },
    );
    await ask('Show them');
    await answer().getByText('All shown.').waitFor();
    const outputs = await answer().locator('.outputs').allTextContents();
    expect(outputs[0]).toBe('Epoch 3');
    await answer().locator('.outputs .katex .mfrac').waitFor();
    expect(outputs[1]).toContain('"total": 3');
    expect(outputs[1]).not.toContain('object>');
    await isDone();
  });

  test('renders formulas in every notation, and leaves prices as text', async () => {
    model.script({
      text: 'It is \\(E = mc^2\\) for $5 and $10, so:\n\n\\[ \\int_0^\\infty e^{-x^2}\\,dx \\]\n\n$$\\frac{a}{b}$$\n\nWith $x_1$ in `\\(code\\)`.',
    });
    await ask('Show formulas');
    await isDone();
    await eventually(async () => (await answer().locator('.katex').count()) === 4);
    expect(await answer().locator('.katex-display').count()).toBe(2);
    await answer().getByText('for $5 and $10, so:').waitFor();
    await answer().getByText('\\(code\\)').waitFor();
    expect(await violations(page, 'formulas')).toEqual([]);
  });

  test('draws Plotly figures and Altair charts from their data', async () => {
    model.script(
      runs(`import plotly.express as px
px.bar(x=["north", "south"], y=[3, 5], title="Sales by region").show()`),
      runs(`import altair as alt, pandas as pd
alt.Chart(pd.DataFrame({"day": ["mo", "tu"], "visits": [4, 7]}), title="Visits by day").mark_bar().encode(x="day", y="visits:Q")`),
      { text: 'Both drawn.' },
    );
    await ask('Draw them');
    await answer().getByText('Both drawn.').waitFor();
    await isDone();
    const charts = answer().locator('iframe[title="Chart made by the code"]');
    expect(await charts.count()).toBe(2);
    await charts.nth(0).contentFrame().getByText('Sales by region').waitFor();
    await charts.nth(0).contentFrame().getByText('north').waitFor();
    await charts.nth(1).contentFrame().getByText('Visits by day').waitFor();
    await charts.nth(1).contentFrame().getByText('tu', { exact: true }).waitFor();
    await eventually(async () => ((await charts.nth(0).boundingBox())?.height ?? 0) > 400);
    expect(await violations(page, 'charts')).toEqual([]);
  });

  test('shows pictures in order among printed text, live and after a reload', async () => {
    model.script(
      runs(`import matplotlib.pyplot as plt
for name in ("one", "two"):
  print("before", name)
  plt.plot([1, 2])
  plt.show()
print("after")`),
      { text: 'In order.' },
    );
    await ask('Plot two');
    const check = async () => {
      await answer().getByText('In order.').waitFor();
      await answer().getByRole('img', { name: 'Picture 2' }).waitFor();
      const order = await answer().locator('.outputs > *').allTextContents();
      expect(order.map((text) => text.trim().split(' ').slice(0, 2).join(' '))).toEqual([
        'before one',
        'Download figure-1.png',
        'before two',
        'Download figure-2.png',
        'after',
      ]);
    };
    await check();
    await isDone();
    await page.reload();
    await check();
    expect(await violations(page, 'order')).toEqual([]);
  });

  test('strikes out a file that later code deletes, live and after a reload', async () => {
    const made = { text: 'See [the report](sandbox:/mnt/data/report.csv).' };
    model.script(runs('open("report.csv", "w").write("1"); open("other.csv", "w").write("2")'), made);
    await ask('Make a report');
    await answer().getByRole('link', { name: 'the report' }).waitFor();
    await isDone();
    const first = page.getByRole('article', { name: 'CodeBox' }).filter({ hasText: 'See the report' });
    const check = async () => {
      await first.getByRole('deletion').getByText('report.csv').waitFor();
      await eventually(async () => (await first.getByRole('link').count()) === 1);
      await first.getByRole('link', { name: 'other.csv' }).waitFor();
    };
    model.script(runs('import os; os.remove("report.csv")'), { text: 'It is gone.' });
    await ask('Delete it');
    await answer().getByText('It is gone.').waitFor();
    await isDone();
    await check();
    model.script(runs('open("report.csv", "w").write("3")'), { text: 'Here it is.' });
    await ask('Make it anew');
    await answer().getByText('Here it is.').waitFor();
    await isDone();
    await page.reload();
    await answer().getByRole('link', { name: 'report.csv' }).waitFor();
    await check();
    expect(await violations(page, 'gone files')).toEqual([]);
  });

  test('links to its footnotes and back within itself, and ignores invalid URLs', async () => {
    const lines = Array.from({ length: 60 }, (_, line) => `Line ${line}`).join('\n\n');
    model.script({ text: `It is so[^1]. [nothing]() [script](javascript:alert)\n\n${lines}\n\n[^1]: The source.` });
    await ask('Prove it');
    await answer().getByText('The source.').waitFor();
    await isDone();
    const address = page.url();
    const isSeen = async (text: string) => {
      const box = await answer().getByText(text).boundingBox();
      return box !== null && box.y >= 0 && box.y + box.height <= 800;
    };
    await answer().getByRole('link', { name: '1', exact: true }).click();
    await eventually(() => isSeen('The source.'));
    await page.keyboard.press('Enter');
    await eventually(() => isSeen('It is so'));
    expect(page.url()).toBe(address);
    expect(page.context().pages()).toHaveLength(1);
    expect(await answer().getByRole('link').count()).toBe(2);
    expect(await violations(page, 'footnotes')).toEqual([]);
  });

  test('is scrolled to its end until the reader scrolls up', async () => {
    const list = `document.querySelector('[role=log]')`;
    const top = () => page.evaluate(`${list}.scrollTop`);
    const away = async () =>
      Number(await page.evaluate(`${list}.scrollHeight - ${list}.scrollTop - ${list}.clientHeight`));
    await page.getByRole('button', { name: 'To the newest message' }).click();
    await eventually(async () => (await away()) < 2);
    // The list grows, and again between the scroll to the end and its scroll event.
    await page.evaluate(`{
      globalThis.grow = () => {
        const block = document.createElement('div');
        block.style.height = '500px';
        ${list}.firstElementChild.append(block);
      };
      const watcher = new ResizeObserver(() => {
        if (!grown) return;
        watcher.disconnect();
        setTimeout(() => { grow(); globalThis.grown = 2; });
      });
      globalThis.grown = 0;
      watcher.observe(${list}.firstElementChild);
      setTimeout(() => { grow(); grown = 1; });
    }`);
    await eventually(async () => (await page.evaluate('grown')) === 2);
    await eventually(async () => (await away()) < 2);
    await page.getByRole('log').hover();
    await page.mouse.wheel(0, -40);
    await eventually(async () => (await away()) > 20);
    const before = await top();
    await page.evaluate('grow()');
    await eventually(async () => (await away()) > 500);
    expect(await top()).toBe(before);
  });

  test('has accessible task lists, tracebacks and tables', async () => {
    model.script(
      runs('def inner(value):\n  return 1 / value\ninner(0)'),
      runs(`print(''.join(f"\\x1b[38;5;{i}m{i} \\x1b[48;5;{i}m{i}\\x1b[0m" for i in range(16, 256, 5)))
print(''.join(f"\\x1b[{i}m{i} \\x1b[0m\\x1b[2mdim \\x1b[{i + 10}m{i}\\x1b[0m" for i in [*range(30, 38), *range(90, 98)]))`),
      { text: '- [x] load\n- [ ] plot\n\n| a |\n|---|\n| 1 |\n\n| b |\n|---|\n| 2 |' },
    );
    await ask('Fail in colours');
    await answer().getByRole('checkbox', { name: 'To do' }).waitFor();
    await isDone();
    await answer().locator('summary', { hasText: 'ZeroDivisionError' }).click();
    expect(await violations(page, 'colours')).toEqual([]);
    expect(await page.getByRole('log').getByRole('region').count()).toBe(0);
  });

  test('keeps two pictures that are pasted with the same name', async () => {
    await page.evaluate(`for (const text of ['first', 'second!']) {
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File([text], 'image.png', { type: 'image/png' }));
      document.querySelector('textarea').dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true }));
    }`);
    const uploads = page.getByRole('list', { name: 'Files of this message' });
    await uploads.getByText('image-2.png').waitFor();
    await uploads.getByText('image.png').waitFor();
    model.script(runs("import os\nprint(sorted(os.path.getsize(f) for f in ('image.png', 'image-2.png')))"), {
      text: 'Two pictures.',
    });
    await ask('How large?');
    await answer().getByText('[5, 7]').waitFor();
    await answer().getByText('Two pictures.').waitFor();
    await isDone();
  });

  test('is requested once by a double Enter, and not before the messages so far are there', async () => {
    const other = await running.visit();
    const field = other.getByLabel('Your message');
    const created = Promise.withResolvers<void>();
    await other.route('**/v1/chats', (route) => created.promise.then(() => route.continue()));
    model.script({ text: 'Only once.' }, { text: 'And then.' });
    await field.fill('First');
    await field.press('Enter');
    await field.press('Enter');
    await field.pressSequentially('Second');
    created.resolve();
    await other.getByText('Only once.').waitFor();
    expect(await field.inputValue()).toBe('Second');
    expect(model.requestCount()).toBe(1);

    const loaded = Promise.withResolvers<void>();
    await other.route(/\/messages\?/, (route) => loaded.promise.then(() => route.continue()));
    await other.reload();
    await field.fill('Third');
    await field.press('Enter');
    expect(await other.getByLabel('Ask before running').isDisabled()).toBe(true);
    loaded.resolve();
    await other.getByText('Only once.').waitFor();
    await field.press('Enter');
    await other.getByText('And then.').waitFor();
    expect(await other.getByRole('article', { name: 'You' }).allTextContents()).toEqual(['First', 'Third']);
    await other.context().close();
  });

  test('keeps the question and its files for another attempt if sending fails', async () => {
    await page.getByLabel('Files', { exact: true }).setInputFiles({
      name: 'kept.csv',
      mimeType: 'text/csv',
      buffer: Buffer.from('a\n1\n'),
    });
    await page.getByText('4 bytes').waitFor();
    const questions = await page.getByRole('article', { name: 'You' }).count();
    await page.context().setOffline(true);
    await ask('Is it sent?');
    await page.getByRole('alert').getByText('This was not sent').waitFor();
    expect(await composer().inputValue()).toBe('Is it sent?');
    expect(await page.getByRole('article', { name: 'You' }).count()).toBe(questions);
    await page.getByText('4 bytes').waitFor();
    await page.getByText('Connection lost').waitFor();
    expect(await violations(page, 'offline')).toEqual([]);
    await page.context().setOffline(false);
    await page.getByText('Connection lost').waitFor({ state: 'detached' });
    model.script({ text: 'Now it is.' });
    await composer().press('Enter');
    await answer().getByText('Now it is.').waitFor();
    await isDone();
    expect(await page.getByRole('alert').count()).toBe(0);
    expect(JSON.stringify(model.requests)).toContain('kept.csv');
  });

  test('is shown by another tab that is looked at again, or asks at the same time', async () => {
    model.script({ text: 'For both tabs.' });
    await ask('Begin');
    await answer().getByText('For both tabs.').waitFor();
    await isDone();
    const other = await page.context().newPage();
    await other.goto(page.url());
    await other.getByText('For both tabs.').waitFor();
    model.script({ text: 'Caught up.' });
    await ask('Go on');
    await answer().getByText('Caught up.').waitFor();
    await isDone();
    await other.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
    await other.getByText('Caught up.').waitFor();

    const free = Promise.withResolvers<void>();
    model.script({ text: 'Finally.', after: free.promise });
    await ask('Slowly');
    await eventually(async () => model.requestCount() === 1);
    await other.getByLabel('Your message').fill('At the same time');
    await other.keyboard.press('Enter');
    await other.getByText('This was not sent').waitFor();
    await other.getByText('Slowly').waitFor();
    expect(await other.getByLabel('Your message').inputValue()).toBe('At the same time');
    free.resolve();
    await other.getByText('Finally.').waitFor();
    await other.close();
    await isDone();
  });

  test('reports a lost connection to the agent, and recovers', async () => {
    model.script(runs('import time\nprint("begun", flush=True)\ntime.sleep(600)'), { text: 'never' });
    await ask('Take long');
    await answer().getByText('begun', { exact: true }).waitFor();
    await running.agent.die();
    await page.getByText('Connection lost').waitFor();
    await running.agent.restart();
    await page.getByText('Connection lost').waitFor({ state: 'detached' });
    await answer().getByRole('alert').waitFor();
    await isDone();
  });

  test('keeps older chats in the list', async () => {
    const chats = page.getByRole('navigation', { name: 'Your chats' });
    await page.evaluate(`{
      const headers = { 'content-type': 'application/json' };
      const create = () => fetch('/v1/chats', { method: 'POST', headers, body: '{}' });
      Promise.all(Array.from({ length: 52 }, create));
    }`);
    await page.reload();
    await chats.getByRole('button', { name: 'Older chats' }).click();
    await eventually(async () => (await chats.getByRole('listitem').count()) === 53);
    await page.getByRole('link', { name: 'New chat' }).click();
    model.script({ text: 'A new one.' });
    await ask('Begin anew');
    await answer().getByText('A new one.').waitFor();
    await isDone();
    await chats.getByText('Begin anew').waitFor();
    expect(await chats.getByRole('listitem').count()).toBe(54);
  });

  test('shows where to drop files while they are over the chat, and leaves dragged text alone', async () => {
    const drag = (type: string, data: string, relatedTarget = 'null') =>
      page.evaluate(`{
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(${data});
        const init = { dataTransfer, relatedTarget: ${relatedTarget}, bubbles: true, cancelable: true };
        const event = new DragEvent('${type}', init);
        document.querySelector('textarea').dispatchEvent(event);
        event.defaultPrevented;
      }`);
    const note = page.getByText('Drop files to put them into this chat');
    const file = "new File(['x'], 'x.csv')";
    expect(await drag('dragover', "'text', 'text/plain'")).toBe(false);
    expect(await drag('dragover', file)).toBe(true);
    await note.waitFor();
    await drag('dragleave', file, "document.querySelector('form')");
    await note.waitFor();
    await drag('dragleave', file);
    await note.waitFor({ state: 'detached' });
  });

  test('ignores a file that is dropped outside a drop target', async () => {
    await page.getByRole('button', { name: 'Notebook' }).click();
    await page.getByLabel('Code of cell 1').waitFor();
    const refused = await page.evaluate(`['dragover', 'drop'].map((type) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['x'], 'x.csv'));
      const event = new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true });
      document.querySelector('textarea').dispatchEvent(event);
      return event.defaultPrevented;
    })`);
    expect(refused).toEqual([true, true]);
  });

  test('throws no errors in any of these tests', () => expect(running.faults).toEqual([]));
});
