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

  test('begins with an idea by a click and Enter', async () => {
    model.say({ text: 'They share a period.' });
    await page.getByRole('button', { name: /^Plot a sine/ }).click();
    await page.keyboard.press('Enter');
    await answer().getByText('They share a period.').waitFor();
    await isDone();
  });

  test('shows the last state of progress, formulas as they are written and JSON as values', async () => {
    model.say(
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
    expect(outputs[1]).toContain('\\frac{1}{2}');
    expect(outputs[1]).toContain('"total": 3');
    expect(outputs[1]).not.toContain('object>');
    await isDone();
  });

  test('leads to its footnotes and back within itself, and what is no address is no link', async () => {
    const lines = Array.from({ length: 60 }, (_, line) => `Line ${line}`).join('\n\n');
    model.say({ text: `It is so[^1]. [nothing]() [script](javascript:alert)\n\n${lines}\n\n[^1]: The source.` });
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

  test('is followed to its end until its reader scrolls up', async () => {
    const list = `document.querySelector('[role=log]')`;
    const top = () => page.evaluate(`${list}.scrollTop`);
    const away = async () =>
      Number(await page.evaluate(`${list}.scrollHeight - ${list}.scrollTop - ${list}.clientHeight`));
    await page.getByRole('button', { name: 'To the newest message' }).click();
    await eventually(async () => (await away()) < 2);
    // It grows, and once more between the page's scroll to the end and the word of it.
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

  test('stays when a file is dropped where nothing takes it', async () => {
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

  test('throws nothing on its way', () => expect(running.faults).toEqual([]));
});
