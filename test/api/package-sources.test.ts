import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:https';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Box, Command, Execution, Problem } from '#contract';
import { drivers, eventually, type RunningGateway, startGateway } from './harness.ts';
import { downloadWheels } from './wheels.ts';

const run = promisify(execFile);
const pipIndexUrl = 'https://pypi.org/simple';
const npmRegistry = 'https://registry.npmjs.org';
/** An address of this host, which boxes must not reach otherwise. */
const [host = ''] = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .flatMap(({ family, internal, address }) => (family === 'IPv4' && !internal ? [address] : []));

let folder: string;
let wheels: Awaited<ReturnType<typeof downloadWheels>>;
let registry: AsyncDisposable & { url: string };
let other: AsyncDisposable & { url: string };

/** Serves the wheels as a registry of Python packages. */
const startRegistry = async (): Promise<AsyncDisposable & { url: string }> => {
  const [key, cert] = await Promise.all(['key.pem', 'ca.pem'].map((name) => readFile(join(folder, name))));
  const server = createServer({ key, cert }, async (request, response) => {
    const [, , project, name] = (request.url ?? '').split('/');
    const names = await readdir(wheels.folder);
    if (name && names.includes(name)) return response.end(await readFile(join(wheels.folder, name)));
    response.statusCode = project === 'cowsay' ? 200 : 404;
    response.setHeader('content-type', 'text/html').end(names.map((name) => `<a href="${name}">${name}</a>`).join(''));
  });
  await new Promise<void>((done) => server.listen(0, host, done));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `https://${host}:${port}/simple/`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((done) => server.close(() => done()));
    },
  };
};
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-ca-'));
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', join(folder, 'key.pem')];
  const about = ['-days', '2', '-subj', '/CN=own authority', '-addext', `subjectAltName=DNS:localhost,IP:${host}`];
  await run('openssl', ['req', '-x509', ...key, ...about, '-out', join(folder, 'ca.pem')]);
  wheels = await downloadWheels('cowsay');
  [registry, other] = [await startRegistry(), await startRegistry()];
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
  await other?.[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
  await wheels?.[Symbol.asyncDispose]();
});

describe.each(drivers)('where packages come from on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let box: Box;
  beforeAll(async () => {
    gateway = await startGateway(driver, {
      CODEBOX_CA_BUNDLE: join(folder, 'ca.pem'),
      CODEBOX_PIP_INDEX_URL: pipIndexUrl,
      CODEBOX_PIP_EXTRA_INDEX_URLS: registry.url,
      CODEBOX_NPM_REGISTRY: npmRegistry,
    });
    box = await gateway.createBox();
  });
  afterAll(() => gateway?.dispose());

  const command = async (line: string, id = box.id) =>
    (await gateway.post<Command>(`/v1/boxes/${id}/commands`, { command: line })).body;
  const install = (body: Record<string, unknown>, id = box.id) =>
    gateway.post<Command & Pick<Problem, 'code' | 'detail'>>(`/v1/boxes/${id}/packages`, body);

  test('a box without network or wheels refuses an installation with the reason and the remedy', async () => {
    for (const manager of ['pip', 'npm']) {
      const refused = await install({ manager, packages: ['anything'] });
      expect([refused.status, refused.body.code]).toEqual([409, 'conflict']);
      expect(refused.body.detail).toMatch(/no network.*`internet`/);
    }
    const noBox = await gateway.post<Problem>('/v1/boxes', { packages: ['anything'] });
    expect([noBox.status, noBox.body.errors?.[0]?.pointer]).toEqual([400, '/packages']);
    expect(noBox.body.errors?.[0]?.detail).toContain('CODEBOX_WHEELS_DIR');
    const execution = await gateway.run(box.id, 'import cowsay', { autoInstall: true });
    expect(execution.outputs?.map(({ type }) => type)).toEqual(['error']);
    expect(execution.error?.hint).toMatchObject({
      package: 'cowsay',
      detail: expect.stringMatching(/nowhere to get it/),
    });
    const plain = await gateway.run(box.id, 'import cowsay');
    expect(plain.error?.hint?.detail).toMatch(/run with autoInstall/);
  });

  test('an uploaded wheel can be installed by its path', async () => {
    const [name = ''] = await readdir(wheels.folder);
    const body = await readFile(join(wheels.folder, name));
    await gateway.call(`/v1/boxes/${box.id}/files/wheels/${name}`, { method: 'PUT', body });
    const done = await install({ packages: [`wheels/${name}`] });
    expect(done.body).toMatchObject({ status: 'ok', installed: [{ name: 'cowsay' }] });
  });

  test('the installers are configured with the package sources of the gateway', async () => {
    const { stdout } = await command('echo "$PIP_INDEX_URL $UV_DEFAULT_INDEX $npm_config_registry $PIP_NO_INDEX"');
    expect(stdout).toBe(`${pipIndexUrl} ${pipIndexUrl} ${npmRegistry} 1\n`);
    const { stdout: extra } = await command('echo "$PIP_EXTRA_INDEX_URL $UV_INDEX"');
    expect(extra).toBe(`${registry.url} ${registry.url}\n`);
  });

  test('every program of a box trusts the CA bundle in addition to the system certificates', async () => {
    for (const name of ['key.pem', 'ca.pem']) {
      const body = await readFile(join(folder, name));
      await gateway.call(`/v1/boxes/${box.id}/files/${name}`, { method: 'PUT', body });
    }
    const server = `import http.server, ssl
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain('ca.pem', 'key.pem')
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()`;
    await gateway.post(`/v1/boxes/${box.id}/commands`, { argv: ['python', '-c', server], detach: true });
    const url = 'https://localhost:8443/ca.pem';
    await eventually(async () => (await command(`curl -sS ${url}`)).exitCode === 0);
    const python = `python -c "import requests; print(requests.get('${url}').status_code)"`;
    const node = `node -e "fetch('${url}').then((response) => console.log(response.status))"`;
    expect(await command(python)).toMatchObject({ stdout: '200\n', stderr: '' });
    expect(await command(node)).toMatchObject({ stdout: '200\n', stderr: '' });
    const count = await command('grep -c BEGIN /etc/ssl/certs/ca-certificates.crt');
    expect(Number(count.stdout)).toBeGreaterThan(50);
  });

  test('a box with a network reaches a registry at a private address, and nothing else there', async () => {
    const made = await gateway.post<Box & Problem>('/v1/boxes', { network: 'internet' });
    if (made.status === 400) return;
    const { id } = made.body;
    const alone = 'pip install -q --index-url $PIP_EXTRA_INDEX_URL cowsay && python -c "import cowsay"';
    expect(await command(alone, id)).toMatchObject({ exitCode: 0, stdout: '' });
    const exitCodes = [registry, other].map(async ({ url }) => (await command(`curl -sS ${url}`, id)).exitCode);
    // 7: curl could not connect.
    expect(await Promise.all(exitCodes)).toEqual([0, 7]);
  });

  test('a box with a network installs packages from the registries, also by autoInstall', async () => {
    const made = await gateway.post<Box & Problem>('/v1/boxes', { network: 'internet' });
    if (made.status === 400) {
      expect(made.body.errors).toEqual([
        {
          pointer: '/network',
          detail: expect.stringMatching(/not offered .* because .*(iptables|root|rules|local driver)/),
        },
      ]);
      return;
    }
    const { id } = made.body;
    expect((await install({ packages: ['cowsay>=6', 'python-dotenv'] }, id)).body.installed).toMatchObject([
      { name: 'cowsay' },
      { name: 'python-dotenv' },
    ]);
    const done = await install({ manager: 'npm', packages: ['is-odd@3'] }, id);
    expect(done.body.installed).toContainEqual({ name: 'is-odd', version: '3.0.1' });
    const javascript = async (code: string): Promise<Execution> =>
      await gateway.run(id, code, { language: 'javascript', autoInstall: true });
    expect((await javascript("require('is-odd')(3)")).text).toBe('true');
    const installed = await javascript("import isEven from 'is-even'\nisEven(4)");
    expect(installed).toMatchObject({ status: 'ok', text: 'true', error: null });
    expect(installed.outputs?.[0]).toMatchObject({ type: 'install', manager: 'npm', exitCode: 0 });
    const python = await gateway.run(id, 'import serial\nserial.__name__', { autoInstall: true });
    expect(python).toMatchObject({ status: 'ok', text: "'serial'" });
  });
});
