import { execFile } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { openApiFiles, writtenFiles } from '../scripts/openapi.ts';

const project = resolve(import.meta.dirname, '..');
const run = promisify(execFile);

/** What biome says of a file with this text at this place; undefined when it has nothing to say. */
const complaint = async (path: string, text: string): Promise<string | undefined> => {
  const file = join(project, path);
  await writeFile(file, text);
  try {
    await run(join(project, 'node_modules/.bin/biome'), ['lint', '--vcs-enabled=false', file], { cwd: project });
    return undefined;
  } catch (error) {
    return String((error as { stdout?: string }).stdout) + String((error as { stderr?: string }).stderr);
  } finally {
    await rm(file, { force: true });
  }
};

describe.each([
  ['openapi.yaml', 'post /v1/boxes/{box}/executions'],
  ['openapi.agent.yaml', 'post /v1/chats/{chat}/cells'],
] as const)('%s', (name, call) => {
  test('has no pattern that JSON Schema would read as something else', () => {
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

  test('has every call of the API with its errors', () => {
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

test.each(Object.entries(writtenFiles))('%s is what the code writes', async (name, write) => {
  expect(await readFile(join(project, name), 'utf8')).toBe(write());
});

test('the OpenAPI document of the agent has the errors that its routes answer with', () => {
  const { paths } = parse(openApiFiles['openapi.agent.yaml']()) as {
    paths: Record<string, Record<string, { responses: { default: { content: object } } }>>;
  };
  for (const [path, methods] of Object.entries(paths)) {
    const isOpenAi = /^\/v1\/(chat\/|responses|containers)/.test(path);
    for (const { responses } of Object.values(methods))
      expect([path, Object.keys(responses.default.content)]).toEqual([
        path,
        [isOpenAi ? 'application/json' : 'application/problem+json'],
      ]);
  }
});

describe('the layers', () => {
  test.each([
    ['services/contract/planted.ts', "import 'undici';\n"],
    ['services/gateway/store/planted.ts', "import '../boxes/lifecycle.ts';\n"],
    ['services/gateway/drivers/planted.ts', "import '../http/app.ts';\n"],
    ['services/gateway/boxes/planted.ts', "import 'hono';\n"],
    ['services/gateway/boxes/planted.ts', "import '../drivers/docker/driver.ts';\n"],
    ['services/gateway/boxes/planted.ts', "import 'drizzle-orm';\n"],
    ['services/gateway/http/planted.ts', "import '../drivers/driver.ts';\n"],
    ['services/http/planted.ts', "import '../gateway/gateway.ts';\n"],
    ['services/agent/chats/planted.ts', "import '../../gateway/store/store.ts';\n"],
    ['services/agent/chats/planted.ts', "import 'hono';\n"],
    ['services/agent/http/planted.ts', "import '../store/store.ts';\n"],
    ['services/agent/loop/planted.ts', "import '../chats/chats.ts';\n"],
    ['services/agent/loop/planted.ts', "import '../models/openai.ts';\n"],
    ['services/agent/loop/planted.ts', "import '../store/store.ts';\n"],
    ['services/agent/loop/planted.ts', "import 'openai';\n"],
    ['services/agent/models/planted.ts', "import '../loop/converse.ts';\n"],
    ['services/agent/models/planted.ts', "import '../../http/endpoint.ts';\n"],
    ['services/agent/box/planted.ts', "import '../store/store.ts';\n"],
    ['services/agent/box/planted.ts', "import 'pg';\n"],
    ['services/agent/store/planted.ts', "import '../chats/chats.ts';\n"],
    ['services/postgres/planted.ts', "import '../gateway/store/store.ts';\n"],
  ])('an import against the direction is refused: %s %s', async (path, text) => {
    expect(await complaint(path, text)).toContain('noRestrictedImports');
  });

  test('an import in the right direction passes', async () => {
    expect(await complaint('services/gateway/boxes/planted.ts', "import '../drivers/driver.ts';\n")).toBeUndefined();
  });
});

test('no source file is longer than 400 lines', async () => {
  const long: string[] = [];
  for (const root of ['services', 'scripts', 'test', 'images/box/server']) {
    for (const entry of await readdir(join(project, root), { recursive: true })) {
      if (!/\.(ts|tsx|py|mjs)$/.test(entry)) continue;
      const lines = (await readFile(join(project, root, entry), 'utf8')).split('\n').length;
      if (lines > 401) long.push(`${root}/${entry}: ${lines}`);
    }
  }
  expect(long).toEqual([]);
});
