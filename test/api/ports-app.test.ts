import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Box } from '#contract';
import { anyDriver, type RunningGateway, startGateway } from './harness.ts';
import { startServer, uploadServers } from './servers.ts';

describe.each(anyDriver)('an app on a port on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver);
    box = await gateway.createBox({ network: 'none' });
    await uploadServers(gateway, box.id, 'app.py');
  });
  afterAll(() => gateway?.dispose());

  const at = (path: string, port: number) => `/v1/boxes/${box.id}/ports/${port}${path}`;
  const socketTo = (path: string, port: number) =>
    new WebSocket(gateway.url.replace('http', 'ws') + at(path, port), {
      headers: { authorization: `Bearer ${gateway.key}` },
    });

  test('a Flask app works with its redirects, sessions and WebSockets', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'codebox-wheels-'));
    try {
      const { text } = await gateway.run(box.id, 'import sys; "%d.%d" % sys.version_info[:2]');
      const of = ['--only-binary=:all:', '--python-version', text?.replaceAll("'", '') ?? ''];
      const run = promisify(execFile);
      await run('python3', ['-m', 'venv', join(folder, 'venv')]);
      const pip = join(folder, 'venv/bin/pip');
      await run(pip, ['download', '-q', ...of, '-d', join(folder, 'wheels'), 'flask', 'flask-sock']);
      for (const name of await readdir(join(folder, 'wheels')))
        await gateway.call(`/v1/boxes/${box.id}/files/wheels/${name}`, {
          method: 'PUT',
          body: await readFile(join(folder, 'wheels', name)),
        });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
    const install = 'python3 -m pip install -q --no-index --find-links wheels --target site flask flask-sock';
    const installed = await gateway.post(`/v1/boxes/${box.id}/commands`, { command: install, timeoutSeconds: 120 });
    expect(installed.body).toMatchObject({ exitCode: 0 });
    await startServer(gateway, box.id, 'PYTHONPATH=site python3 app.py 8000', 8000);
    expect(await (await gateway.call(at('/', 8000))).text()).toBe('hello stranger');
    const form = new URLSearchParams({ name: 'Ada' });
    const login = await gateway.call(at('/login', 8000), { method: 'POST', body: form, redirect: 'manual' });
    const [cookie = ''] = login.headers.getSetCookie();
    expect([login.status, cookie]).toEqual([302, expect.stringContaining(`; Path=${at('/', 8000)}`)]);
    const home = await gateway.call(at('/', 8000), { headers: { cookie: cookie.split(';')[0] ?? '' } });
    expect(await home.text()).toBe('hello Ada');
    const socket = socketTo('/shout', 8000);
    await once(socket, 'open', { signal: AbortSignal.timeout(60_000) });
    socket.send('hello');
    expect(String((await once(socket, 'message'))[0])).toBe('HELLO');
    // Not `close`: after the last frame Flask's own server sends an HTTP response, which is not a frame.
    socket.terminate();
  });
});
