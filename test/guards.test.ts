import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { openApiFiles, writtenFiles } from '../scripts/openapi.ts';

const project = resolve(import.meta.dirname, '..');
const run = promisify(execFile);

describe.each([
  ['openapi.yaml', 'post /v1/boxes/{box}/executions'],
  ['openapi.agent.yaml', 'post /v1/chats/{chat}/cells'],
] as const)('%s', (name, call) => {
  test('has only patterns that are regular expressions for JSON Schema too', () => {
    const patterns: string[] = [];
    JSON.stringify(parse(openApiFiles[name]()), (key, value: unknown) => {
      if (key === 'pattern' && typeof value === 'string') patterns.push(value);
      return value;
    });
    expect(patterns.length).toBeGreaterThan(0);
    for (const pattern of patterns) {
      expect(pattern).not.toMatch(/\/[a-z]*$/);
      expect(() => new RegExp(pattern, 'u')).not.toThrow();
    }
  });

  test('documents every call of the API with its errors', () => {
    const document = parse(openApiFiles[name]()) as {
      paths: Record<string, Record<string, { responses: Record<string, unknown> }>>;
    };
    const calls = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    expect(calls).toContain(call);
    expect(calls.length).toBeGreaterThan(15);
    for (const methods of Object.values(document.paths)) {
      for (const operation of Object.values(methods)) expect(operation.responses).toHaveProperty('default');
    }
  });
});

test.each(Object.entries(writtenFiles))('%s matches the output of its generator', async (name, write) => {
  expect(await readFile(join(project, name), 'utf8')).toBe(write());
});

test('the OpenAPI document of the agent has the error format of each route', () => {
  const { paths, components } = parse(openApiFiles['openapi.agent.yaml']()) as {
    paths: Record<string, Record<string, { responses: { default: { content: object } | { $ref: string } } }>>;
    components: { responses: Record<string, { content: object }> };
  };
  for (const [path, methods] of Object.entries(paths)) {
    const isOpenAi = /^\/v1\/(chat\/|responses|containers|files$|files\/\{file\})/.test(path);
    for (const { responses } of Object.values(methods)) {
      const refusal =
        '$ref' in responses.default
          ? components.responses[responses.default.$ref.replace('#/components/responses/', '')]
          : responses.default;
      expect([path, Object.keys(refusal?.content ?? {})]).toEqual([
        path,
        [isOpenAi ? 'application/json' : 'application/problem+json'],
      ]);
    }
  }
});

describe('the import rules of Biome', () => {
  const against = [
    ['services/contract', 'undici'],
    ['services/gateway/store', '../boxes/creation/creation.ts'],
    ['services/gateway/drivers', '../http/app.ts'],
    ['services/gateway/boxes', 'hono'],
    ['services/gateway/boxes', '../drivers/docker/driver.ts'],
    ['services/gateway/boxes', '../drivers/kubernetes/driver.ts'],
    ['services/gateway/boxes', '@kubernetes/client-node'],
    ['services/gateway/boxes', 'drizzle-orm'],
    ['services/gateway/http', '../drivers/driver.ts'],
    ['services/gateway/http', '../dialects/dialects.ts'],
    ['services/gateway/dialects', '../store/store.ts'],
    ['services/gateway/dialects', '../../box-server/client.ts'],
    ['services/http', '../gateway/gateway.ts'],
    ['services/agent/chats', '../../gateway/store/store.ts'],
    ['services/agent/chats', 'hono'],
    ['services/agent/http', '../store/store.ts'],
    ['services/agent/loop', '../chats/chats.ts'],
    ['services/agent/loop', '../models/openai.ts'],
    ['services/agent/loop', '../store/store.ts'],
    ['services/agent/loop', 'openai'],
    ['services/agent/models', '../loop/converse.ts'],
    ['services/agent/models', '../../http/endpoint.ts'],
    ['services/agent/box', '../store/store.ts'],
    ['services/agent/box', 'pg'],
    ['services/agent/store', '../chats/chats.ts'],
    ['services/postgres', '../gateway/store/store.ts'],
    ['services/outbound', '../gateway/store/store.ts'],
  ] as const;
  const along = [['services/gateway/boxes', '../drivers/driver.ts']] as const;
  const fileOf = (folder: string, imported: string) =>
    `${folder}/planted-${(imported.match(/[a-z]+/g) ?? []).join('-')}.ts`;

  // Planted beside a copy of the rules, where neither git nor another test finds them.
  const planted = async (): Promise<string> => {
    const folder = await mkdtemp(join(tmpdir(), 'codebox-guards-'));
    try {
      await copyFile(join(project, 'biome.json'), join(folder, 'biome.json'));
      for (const [place, imported] of [...against, ...along]) {
        await mkdir(join(folder, place), { recursive: true });
        await writeFile(join(folder, fileOf(place, imported)), `import '${imported}';\n`);
      }
      const lint = ['lint', '--vcs-enabled=false', '--reporter=github', '--max-diagnostics=none', '.'];
      return await run(join(project, 'node_modules/.bin/biome'), lint, { cwd: folder }).then(
        ({ stdout }) => stdout,
        (error: { stdout: string }) => error.stdout,
      );
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  };
  let complaints: string[];
  beforeAll(async () => {
    complaints = (await planted()).split('\n');
  });
  const complaintsOf = (folder: string, imported: string) =>
    complaints.filter((line) => line.includes(fileOf(folder, imported)));

  test.each(against)('refuse an import against the direction: in %s of %s', (folder, imported) => {
    expect(complaintsOf(folder, imported)).toEqual([expect.stringContaining('noRestrictedImports')]);
  });

  test.each(along)('permit an import in the right direction: in %s of %s', (folder, imported) => {
    expect(complaintsOf(folder, imported)).toEqual([]);
  });
});

test('an unused file, export, type or dependency is refused', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'codebox-guards-'));
  try {
    await copyFile(join(project, 'knip.json'), join(folder, 'knip.json'));
    await mkdir(join(folder, 'services/gateway'), { recursive: true });
    const files = {
      'package.json': JSON.stringify({ name: 'planted', type: 'module', dependencies: { 'planted-package': '1.0.0' } }),
      'services/gateway/main.ts': "import { used } from './planted.ts';\nused();\n",
      'services/gateway/planted.ts':
        'export const used = () => {};\nexport const plantedExport = 1;\nexport type PlantedType = 1;\n',
      'services/gateway/planted-file.ts': '',
    };
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const knip = [join(project, 'node_modules/knip/bin/knip.js'), '--reporter', 'compact'];
    const refused = await run(process.execPath, knip, { cwd: folder }).then(
      () => undefined,
      (error: { stdout: string }) => error.stdout,
    );
    for (const planted of ['planted-package', 'plantedExport', 'PlantedType', 'planted-file.ts'])
      expect(refused).toContain(planted);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

/** The sub-folders of a folder, each with those that it may import from. */
const importsOf = {
  'services/contract': {
    values: [],
    problems: [],
    files: ['values'],
    runs: ['files', 'values'],
    boxes: ['runs', 'files', 'problems', 'values'],
    tenants: ['values'],
    client: ['boxes', 'tenants', 'runs', 'files', 'problems', 'values'],
  },
  'services/http': {
    faults: [],
    problems: [],
    bodies: ['faults', 'problems'],
    endpoints: ['bodies', 'faults'],
    server: ['endpoints', 'problems'],
  },
  'services/gateway/dialects': {
    codeboxapi: [],
    e2b: [],
    librechat: [],
    mcp: [],
    openai: [],
    openterminal: [],
    piston: [],
  },
  'services/gateway/dialects/e2b': { control: [], envd: [], interpreter: [] },
  'services/gateway/http/routes': { admin: [], boxes: [], files: ['boxes'], runs: ['boxes'] },
  'services/gateway/boxes': {
    usage: [],
    supply: ['usage'],
    life: ['supply', 'usage'],
    creation: ['life', 'supply', 'usage'],
    reach: ['life', 'usage'],
    rest: ['life', 'supply', 'usage'],
    runs: ['creation', 'reach', 'life', 'supply', 'usage'],
    webhooks: [],
    upkeep: ['creation', 'runs', 'rest', 'webhooks', 'life', 'supply', 'usage'],
  },
  'services/gateway/store': {
    tenants: [],
    box: ['tenants'],
    usage: ['box'],
    supply: ['box', 'tenants'],
    webhooks: [],
  },
  'services/gateway/box-server': { transport: [], protocol: [], journals: [] },
  'services/gateway/drivers': { host: [], docker: ['host'], local: ['host'], kubernetes: [] },
  'services/gateway/drivers/docker': { daemon: [], network: ['daemon'], containers: ['daemon', 'network'] },
  'services/gateway/drivers/kubernetes': { api: [], pods: ['api'] },
  'services/gateway/drivers/local': { environment: [], instances: [], groups: ['instances'] },
  'services/agent/chats': { files: [], messages: ['files'], answers: ['messages', 'files'], console: ['files'] },
  'services/web/components': { controls: [], chat: ['controls'], notebook: ['controls'], terminal: ['controls'] },
} as const;

test.each(Object.entries(importsOf))(
  'the sub-folders of %s import in one direction only',
  async (folder, subfolders) => {
    const refused: string[] = [];
    for (const [from, allowed] of Object.entries<readonly string[]>(subfolders)) {
      for (const name of await readdir(join(project, folder, from))) {
        if (!/(?<!\.test)\.tsx?$/.test(name)) continue;
        const text = await readFile(join(project, folder, from, name), 'utf8');
        for (const [, other = ''] of text.matchAll(/from '\.\.\/([a-z]+)\//g))
          if (other in subfolders && other !== from && !allowed.includes(other))
            refused.push(`${from}/${name} of ${other}`);
      }
    }
    expect(refused).toEqual([]);
  },
);

test('no source file is longer than 400 lines', async () => {
  const long: string[] = [];
  for (const root of ['services', 'scripts', 'test', 'images/box/server', 'clients']) {
    for (const entry of await readdir(join(project, root), { recursive: true })) {
      if (!/\.(ts|tsx|py|mjs)$/.test(entry)) continue;
      const lines = (await readFile(join(project, root, entry), 'utf8')).split('\n').length;
      if (lines > 401) long.push(`${root}/${entry}: ${lines}`);
    }
  }
  expect(long).toEqual([]);
});
