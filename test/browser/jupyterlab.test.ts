import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, collect, type RunningGateway, startGateway } from '../api/harness.ts';
import { pythonClients } from '../dialects/clients.ts';
import { type JupyterPlace, openLab } from '../dialects/jupyter-clients.ts';
import { startStock } from '../dialects/jupyter-stock.ts';
import { launchChromium } from './chromium.ts';

const packages = ['jupyterlab==4.6.6', 'jupyter_server==2.21.1'] as const;
const startMs = 60_000;

/** Serves the page of one server with the API of another, as a reverse proxy in front of both does. */
const join = async (page: JupyterPlace, api: JupyterPlace): Promise<{ url: string } & Disposable> => {
  const send = (incoming: IncomingMessage) => {
    const asked = new URL(incoming.url ?? '', page.url);
    const isApi = asked.pathname.startsWith('/api/');
    const headers = { ...incoming.headers };
    delete headers.host;
    // It prevails over the token in the URL of a WebSocket.
    if (isApi) headers.authorization = `token ${api.token}`;
    const target = `${isApi ? api.url : page.url}${asked.pathname}${asked.search}`;
    return incoming.pipe(request(target, { method: incoming.method, headers }));
  };
  const server = createServer((incoming, response) => {
    send(incoming)
      .on('response', (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      })
      .on('error', () => response.destroy());
  });
  server.on('upgrade', (incoming, socket) => {
    send(incoming)
      .on('upgrade', ({ headers }, upstream, head) => {
        const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
        socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines.join('')}\r\n`);
        upstream.unshift(head);
        upstream.on('error', () => socket.destroy()).pipe(socket);
        socket.on('error', () => upstream.destroy()).pipe(upstream);
      })
      .on('response', () => socket.destroy())
      .on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const dispose = () => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}`, [Symbol.dispose]: dispose };
};

describe.each(anyDriver)('the page of JupyterLab on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let stock: Awaited<ReturnType<typeof startStock>>;
  beforeAll(async () => {
    stock = await startStock(await pythonClients(...packages), { module: 'jupyterlab' });
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'jupyter' });
  }, 600_000);
  afterAll(async () => {
    await stock?.dispose();
    await gateway?.dispose();
  });

  test('runs a notebook in a box and saves it there', async () => {
    const place = { url: `${gateway.url}/jupyter/ada`, token: gateway.key };
    const lab = openLab(place);
    const cells = ['x = 41', 'x + 1', 'import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()'];
    const content = {
      cells: cells.map((source, at) => ({
        cell_type: 'code',
        id: `cell-${at}`,
        source,
        metadata: {},
        outputs: [],
        execution_count: null,
      })),
      metadata: { kernelspec: { name: 'python3', display_name: 'Python 3' } },
      ...{ nbformat: 4, nbformat_minor: 5 },
    };
    await lab.contents.save('n.ipynb', { type: 'notebook', format: 'json', content });
    using joined = await join(stock, place);
    await using browser = await launchChromium();
    const page = await browser.newPage();
    page.setDefaultTimeout(startMs);
    const refused: string[] = [];
    page.on('response', (response) => {
      const { pathname } = new URL(response.url());
      const isServed = pathname.startsWith('/api/') && !/^\/api\/(?:config|nbconvert)/.test(pathname);
      if (isServed && response.status() >= 400)
        refused.push(`${response.request().method()} ${pathname} ${response.status()}`);
    });
    // The page drops cells that it runs before it has asked a kernel for its history.
    const hasKernel = page
      .waitForEvent('websocket', (socket) => socket.url().includes('/channels'))
      .then((socket) =>
        socket.waitForEvent('framereceived', ({ payload }) => String(payload).includes('history_reply')),
      );
    await page.goto(`${joined.url}/lab/tree/n.ipynb?token=${stock.token}`);
    await hasKernel;
    await page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').waitFor();
    for (const [at] of cells.entries()) {
      const cell = page.locator('.jp-Notebook .jp-CodeCell').nth(at);
      await cell.locator('.cm-content').click();
      // Keys that come before the editor has the focus are lost.
      await cell.locator('.cm-focused').waitFor();
      await page.keyboard.press('Shift+Enter');
      await cell.locator('.jp-InputPrompt', { hasText: `[${at + 1}]` }).waitFor();
    }
    await page.locator('.jp-OutputArea-output img').waitFor();
    expect(await page.locator('.jp-OutputArea-executeResult').first().textContent()).toContain('42');
    await page.keyboard.press('Control+s');
    await expect
      .poll(async () => JSON.stringify((await lab.contents.get('n.ipynb')).content), { timeout: startMs })
      .toContain('"image/png"');
    const [box] = await collect(gateway.client.boxes.list({ user: 'jupyter/ada' }));
    const ran = await collect(gateway.client.executions.list(box?.id ?? ''));
    expect(ran.map(({ status }) => status)).toEqual(cells.map(() => 'ok'));
    expect(refused).toEqual([]);
    lab.dispose();
  }, 240_000);
});
