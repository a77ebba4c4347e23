import OpenAI, { toFile } from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };
import { anyDriver, drivers, eventually, type RunningGateway, startGateway } from '../api/harness.ts';
import { rawRequest } from '../api/servers.ts';
import { readPage } from '../pages.ts';
import { pasteDialectPage, printVersions, pythonClients, runPython } from './clients.ts';

const pythonVersion = 'openai==3.54.0';
let python = '';
beforeAll(async () => {
  python = await pythonClients(pythonVersion);
  printVersions('OpenAI', [`openai@${manifest.dependencies.openai}`, pythonVersion]);
}, 600_000);

const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
};

describe.each(drivers)('the OpenAI dialect on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let client: OpenAI;
  beforeAll(async () => {
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'openai', CODEBOX_SWEEP_SECONDS: '1' });
    client = connect(gateway.key);
  });
  afterAll(() => gateway?.dispose());

  const connect = (apiKey: string) => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });
  const boxOf = (container: string) => container.replace('cntr_', 'box-');

  test('the JavaScript client creates a container, exchanges files with the code in it, and deletes it', async () => {
    const made = await client.containers.create({ name: 'mine' });
    expect(made).toMatchObject({
      id: expect.stringMatching(/^cntr_[a-z2-7]{26}$/),
      object: 'container',
      status: 'running',
      name: 'mine',
      expires_after: { anchor: 'last_active_at', minutes: 20 },
      memory_limit: '1g',
      network_policy: { type: 'disabled' },
    });
    expect(await client.containers.retrieve(made.id)).toMatchObject({ id: made.id, created_at: made.created_at });
    const given = await client.containers.files.create(made.id, {
      file: await toFile(Buffer.from('a,b\n1,2\n'), 'in.csv'),
    });
    expect(given).toMatchObject({
      object: 'container.file',
      container_id: made.id,
      path: '/mnt/data/in.csv',
      bytes: 8,
      source: 'user',
    });
    const long = `${'画'.repeat(20)} at 10.22.33 - annotated.png`;
    const named = await client.containers.files.create(made.id, { file: await toFile(Buffer.from('long'), long) });
    expect((await client.containers.files.retrieve(named.id, { container_id: made.id })).path).toBe(
      `/mnt/data/${long}`,
    );
    const said = await client.containers.files.content.retrieve(named.id, { container_id: made.id });
    expect(await said.text()).toBe('long');
    await client.containers.files.delete(named.id, { container_id: made.id });
    const code = "import os; os.makedirs('sub'); open('sub/é.txt', 'w').write(open('/mnt/data/in.csv').read() * 2)";
    await gateway.run(boxOf(made.id), code);
    const page = await client.containers.files.list(made.id, { limit: 1, order: 'asc' });
    expect([page.data.map(({ path }) => path), page.has_more]).toEqual([['/mnt/data/in.csv'], true]);
    const files = await all(client.containers.files.list(made.id, { limit: 1 }));
    expect(files.map(({ path, bytes }) => [path, bytes])).toEqual([
      ['/mnt/data/sub/é.txt', 16],
      ['/mnt/data/in.csv', 8],
    ]);
    const [output] = files;
    if (!output) throw new Error('there is no file');
    const content = await client.containers.files.content.retrieve(output.id, { container_id: made.id });
    expect(await content.text()).toBe('a,b\n1,2\n'.repeat(2));
    expect(await client.containers.files.retrieve(output.id, { container_id: made.id })).toEqual(output);
    await client.containers.files.delete(output.id, { container_id: made.id });
    await expect(client.containers.files.retrieve(output.id, { container_id: made.id })).rejects.toThrow(
      OpenAI.NotFoundError,
    );
    await client.containers.delete(made.id);
    await expect(client.containers.retrieve(made.id)).rejects.toThrow(OpenAI.NotFoundError);
    await expect(client.containers.files.list(made.id)).rejects.toThrow(OpenAI.NotFoundError);
  });

  if (!anyDriver.includes(driver)) return;

  test('the Python client lists containers in pages, and those of one tenant only', async () => {
    const statements = `
import io, os
from openai import OpenAI, NotFoundError
client = OpenAI(max_retries=0)
made = [client.containers.create(name=name, memory_limit="1g", expires_after={"anchor": "last_active_at", "minutes": 5}) for name in ("one", "two")]
listed = [each.name for each in client.containers.list(limit=1, order="asc")]
named = [each.id == made[1].id for each in client.containers.list(name="two")]
file = client.containers.files.create(made[0].id, file=("a.txt", io.BytesIO(b"text")))
content = client.containers.files.content.retrieve(file.id, container_id=made[0].id).read().decode()
other = OpenAI(max_retries=0, api_key=os.environ["OTHER"])
def missing(call):
    try: call()
    except NotFoundError: return True
foreign = [missing(lambda: other.containers.retrieve(made[0].id)), missing(lambda: other.containers.files.list(made[0].id)), len(other.containers.list().data)]
for each in made: client.containers.delete(each.id)
show([listed, named, made[0].expires_after.minutes, content, foreign, missing(lambda: client.containers.delete(made[0].id))])
`;
    const env = { OPENAI_BASE_URL: `${gateway.url}/v1`, OPENAI_API_KEY: gateway.key, OTHER: await gateway.addTenant() };
    const shown = await runPython(python, statements, env);
    expect(shown).toEqual([['one', 'two'], [true], 5, 'text', [true, true, 0], true]);
  });

  test('a container that was not used for long enough has expired', async () => {
    const { id } = await gateway.createBox({ idleSeconds: 1 });
    const container = id.replace('box-', 'cntr_');
    await eventually(async () => (await client.containers.retrieve(container)).status === 'expired');
    await expect(client.containers.files.list(container)).rejects.toThrow(/has expired/);
    await expect(client.containers.delete(container)).rejects.toThrow(OpenAI.NotFoundError);
  });

  test('the shell blocks of the page of the dialect print what the page says', async () => {
    await pasteDialectPage('openai', gateway, { python });
  });

  test("bad input gets an error in OpenAI's format, and the native surface keeps its own", async () => {
    const call = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
      const sent = typeof body === 'string' ? body : JSON.stringify(body);
      const { response, text } = await rawRequest(gateway, `/v1/containers${path}`, { method, headers }, sent);
      return [response.statusCode, JSON.parse(text).error];
    };
    const json = { 'content-type': 'application/json' };
    const some = (await client.containers.create({ name: 'some' })).id;
    const none = `/cntr_${'a'.repeat(26)}`;
    const cases: [unknown, number, string | null][] = [
      [await call('POST', '', '{'), 400, ''],
      [await call('POST', '', {}), 400, 'name'],
      [await call('POST', '', { name: 'a', file_ids: ['file-1'] }), 400, 'file_ids'],
      [await call('POST', '', { name: 'a', skills: [{}] }), 400, 'skills'],
      [await call('POST', '', { name: 'a', memory_limit: '2g' }), 400, 'memory_limit'],
      [await call('POST', '', { name: 'a', network_policy: { type: 'allowlist' } }), 400, 'network_policy.type'],
      [
        await call('POST', '', { name: 'a', expires_after: { anchor: 'last_active_at', minutes: 0 } }),
        400,
        'expires_after.minutes',
      ],
      [await call('GET', '?limit=0'), 400, 'query.limit'],
      [await call('GET', '?after=none'), 404, null],
      [await call('GET', `?after=cntr_${'a'.repeat(26)}`), 404, null],
      [await call('GET', '/none'), 404, null],
      [await call('GET', none), 404, null],
      [await call('DELETE', none), 404, null],
      [await call('POST', `/${some}/files`, { file_id: 'file-1' }, json), 400, 'file_id'],
      [await call('POST', `/${some}/files`, 'x', { 'content-type': 'multipart/form-data; boundary=b' }), 400, ''],
      [await call('GET', `/${some}/files/cfile_Li4vYQ`), 404, null],
      [await call('GET', `/${some}/files/none/content`), 404, null],
      [await call('PATCH', `/${some}`), 405, null],
      [await call('GET', '', undefined, { authorization: 'Bearer cbx_wrong' }), 401, null],
      [await call('GET', '', undefined, { authorization: 'none', 'x-api-key': gateway.key }), 401, null],
    ];
    for (const [index, [actual, status, param]] of cases.entries()) {
      const error = expect.objectContaining({ message: expect.any(String), type: expect.any(String) });
      expect([index, actual]).toEqual([index, [status, error]]);
      if (param !== '') expect([index, actual]).toMatchObject([index, [status, { param }]]);
    }
    expect((await gateway.call('/v1/containersome')).headers.get('content-type')).toBe('application/problem+json');
  });
});

test('the page of the dialect lists the tested versions', async () => {
  const page = await readPage('docs/dialects/openai.md');
  for (const version of [`\`openai\` ${manifest.dependencies.openai}`, `\`openai\` ${pythonVersion.split('==')[1]}`])
    expect(page).toContain(version);
});
