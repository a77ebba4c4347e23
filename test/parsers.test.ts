import { expect, test } from 'vitest';
import { z } from 'zod';
import { decodePath, executionEventSchema } from '#contract';
import { titleOf } from '../services/agent/chats/answers/question.ts';
import { createLinks } from '../services/agent/chats/files/links.ts';
import { createPresenter } from '../services/agent/chats/messages/presenter.ts';
import { createWholeLinks, withAddresses } from '../services/agent/chats/messages/sandbox-links.ts';
import { linksTo, withOrigin } from '../services/agent/dialects/links.ts';
import { toInlineFile } from '../services/agent/dialects/openai/content.ts';
import { responseRequestSchema } from '../services/agent/dialects/openai/response-request.ts';
import { readChart } from '../services/agent/dialects/plot.ts';
import { tableSchema, toCsv } from '../services/agent/dialects/table.ts';
import { readArguments } from '../services/agent/loop/arguments.ts';
import { fitHistory, pairCalls } from '../services/agent/loop/history.ts';
import { createMistakes } from '../services/agent/loop/mistakes.ts';
import { withoutAnsi } from '../services/agent/loop/outputs.ts';
import { createFences } from '../services/agent/models/fences.ts';
import { type ModelMessage, maxArgumentCharacters } from '../services/agent/models/model.ts';
import { readLines } from '../services/gateway/box-server/protocol/lines.ts';
import { createFrameFollower } from '../services/gateway/http/ports/frames.ts';
import { toFaults } from '../services/http/faults/fault.ts';
import { findJsonFault } from '../services/http/faults/json-fault.ts';
import { wording } from '../services/http/faults/wording.ts';
import { boxJson, jsonExcess, largeJson, longJson } from '../services/json/json-bounds.ts';
import { createVault } from '../services/vault/vault.ts';
import { longestTurn } from './longest-turn.ts';

/** How long a parser may block the event loop, in milliseconds of CPU time. */
const mostMs = 200;

interface Reading {
  most: number;
  make: (n: number) => unknown;
  read: (input: never) => unknown;
}

const readings: Record<string, Reading> = {};

/** Registers inputs of a parser, of a size up to `most`, which is its limit. */
const parser = <I>(
  name: string,
  most: number,
  read: (input: I) => unknown,
  makes: Record<string, (n: number) => I>,
) => {
  for (const [what, make] of Object.entries(makes)) readings[`${name}: ${what}`] = { most, make, read };
};

const run = (text: string) => (n: number) => text.repeat(Math.ceil(n / text.length));
const behind = (head: string, text: string, tail: string) => (n: number) => head + run(text)(n) + tail;
const inPieces = (text: string, size: number, take: (piece: string) => unknown) => {
  for (let at = 0; at < text.length; at += size) take(text.slice(at, at + size));
};
const keys = (n: number) => `{${Array.from({ length: n / 10 }, (_, key) => `"${key}":1`).join()}}`;

// The output of a model in one round.
const roundCharacters = 1_000_000;
const links = createLinks(createVault('secret'), 3600);
const message = {
  id: 'msg',
  role: 'user' as const,
  status: 'ok' as const,
  parts: [],
  files: [],
  model: null,
  inputTokens: null,
  outputTokens: null,
  rounds: 0,
  error: null,
  createdAt: new Date(),
};
const marks = {
  'dots behind a name': behind('sandbox:/mnt/data/', '.', 'x'),
  'spaces in a link': behind('](sandbox:/mnt/data/', ' ', 'x'),
  'spaces before a link': behind('](', ' ', 'sandbox:'),
  'links that are not begun': run('](  '),
  'brackets in a name': behind('](sandbox:/mnt/data/', '(', ''),
  'percent signs': behind('sandbox:/mnt/data/', '%41', ''),
  'a file again and again': run('sandbox:/mnt/data/a '),
  'many files': (n: number) => Array.from({ length: n / 25 }, (_, file) => `sandbox:/mnt/data/${file} `).join(''),
};
parser('names of files in an answer', roundCharacters, (text: string) => withAddresses(text, (path) => path), marks);
parser(
  'addresses of files in a message',
  roundCharacters,
  (content: string) => createPresenter(links)({ key: 'key' }, 'chat').message({ ...message, content } as never),
  marks,
);
parser(
  'names of files in pieces of an answer',
  roundCharacters,
  (text: string) => inPieces(text, 4, createWholeLinks().next),
  marks,
);
const fences = {
  tildes: behind('', '~', '`\n'),
  'tildes without an end': behind('', '~', '\r'),
  'spaces behind tildes': behind('~~~', ' ', '`\n'),
  backticks: run('`'),
  'a long line of code': behind('```python\n', 'a', ''),
  'lines of code': behind('```python\n', 'a\n', ''),
  'a long line of a block that is shown': behind('```text\n', 'a', ''),
  'a long last fence': behind('```python\n', '`', 'a\n'),
  'empty lines': run('\n'),
  spaces: run(' '),
};
const findFences = (size: number) => (text: string) =>
  inPieces(text, size, createFences((name) => (name === 'python' ? name : undefined)).add);
parser('fences in an answer', roundCharacters, findFences(roundCharacters), fences);
parser('fences in pieces of an answer', roundCharacters, findFences(4), fences);
const signed = {
  links: run(' /v1/files/a/b'),
  'links that are not ended': run(' /v1/files/a'),
  'a long token': behind(' /v1/files/', 'a', ''),
  protocols: run('http://'),
};
parser('signed links in an answer', roundCharacters, (text: string) => withOrigin(text, 'http://localhost'), signed);
parser('signed links to a file', roundCharacters, (text: string) => linksTo(text, 'plot.png'), signed);
parser('the title of a chat', roundCharacters, (text: string) => titleOf(text, []), {
  spaces: run(' '),
  words: run(' a'),
});

// Tool calls of a model.
const codeSchema = z.strictObject({ code: z.string(), language: z.string().optional() });
parser('arguments of a call', maxArgumentCharacters, (text: string) => readArguments(codeSchema, text, 'code'), {
  'deep lists': run('['),
  'deep objects': run('{"a":'),
  'a long list': behind('[', '1,', '1]'),
  'many keys': keys,
  'a JSON in a JSON': (n) => JSON.stringify(`{"code":"${run('\\n')(n)}"}`),
  'quotes in a text': behind('{"code":"', '" ', ''),
  'three quotes': behind('{"code":"""', '"', ''),
  escapes: behind('{"code":"', '\\u0041', ''),
  spaces: behind('', ' ', 'x'),
  fences: behind('```\n', '\n``` ', 'x'),
});
parser('mistakes of a model', roundCharacters, (text: string) => createMistakes().noteFault(text), {
  spaces: run(' '),
  colours: run('\u001b['),
  'a long colour': behind('\u001b[', '0', ''),
  lines: run('line '),
  addresses: run('0x'),
});
const callsAndResults = (count: number): ModelMessage[] => [
  {
    role: 'assistant',
    content: '',
    calls: Array.from({ length: count }, (_, call) => ({ id: `${call}`, name: 'run_code', arguments: '{}' })),
  },
  ...Array.from({ length: count }, (_, call) => ({ role: 'tool' as const, call: `${call}`, content: '' })),
];
parser('calls with their results', 20_000, (messages: ModelMessage[]) => pairCalls(messages), {
  'of one round': callsAndResults,
  'of many rounds': (n) => Array.from({ length: n / 10 }, () => callsAndResults(5)).flat(),
});
parser('a history', 20_000, (messages: ModelMessage[]) => fitHistory(messages, 1000), {
  'of many calls': callsAndResults,
  'of many rounds': (n) => Array.from({ length: n / 10 }, () => callsAndResults(5)).flat(),
});

// Output of code, as far as it is passed to a model.
parser('what is drawn in a terminal', 3_000_000, withoutAnsi, {
  colours: run('\u001b['),
  titles: run('\u001b]'),
  'a long title': behind('\u001b]', 'a', ''),
  'a long colour': behind('\u001b[', '0', ''),
  'lines over lines': run('a\r'),
  'line ends': run('\r\n'),
});

// Files in messages, which may be as large as JSON bodies.
parser(
  'data URLs',
  10 * 1024 * 1024,
  (url: string) => toInlineFile(url, undefined, { fallback: 'file', pointer: '' }),
  {
    parameters: behind('data:', ';a', ''),
    'a long parameter': behind('data:a/b;', '=', '!'),
    'a long type': behind('data:', 'a', ''),
    base64: behind('data:a/b;base64,', 'a', ''),
    'no base64': behind('data:a/b;base64,', 'a', '!'),
    'percent signs': behind('data:,', '%41', ''),
    'plain base64': run('a'),
  },
);

// JSON bodies, whose values are counted before they are parsed.
const readLong = (schema: z.ZodType) => (text: string) => {
  if (jsonExcess(Buffer.from(text), longJson) !== undefined) throw new Error('It is refused.');
  const read = schema.safeParse(JSON.parse(text), { error: wording });
  if (!read.success) toFaults(schema, read.error.issues, '');
  return read.data;
};
parser('the request of a response', longJson.values - 100, readLong(responseRequestSchema), {
  'empty items': (n) => `{"input":[${run('{},')(n * 1.5)}{}]}`,
  'what is no item': (n) => `{"input":[${run('1,')(n * 2)}1]}`,
  outputs: (n) => `{"input":[{"type":"code_interpreter_call","outputs":[${run('1,')(n * 2)}1]}]}`,
  'unknown keys': (n) => `{"input":"a","x":${keys(n * 5)}}`,
});
const readTable = readLong(tableSchema);
parser('a table', longJson.values - 100, (text: string) => toCsv(readTable(text) as never), {
  rows: (n) => `[${run('{"a":1},')((n / 4) * 8)}{"a":1}]`,
  'rows with keys of their own': () => `[${Array.from({ length: 500 }, (_, key) => `{"${key}":1}`).join()}]`,
  'a long column': (n) => `{"a":[${run('1,')(n * 2)}1],"b":[]}`,
});
parser('the data of a figure', longJson.bytes, (text: string) => readChart(Buffer.from(text)), {
  'a long list': behind('{"version":1,"axes":[', '1,', '1]}'),
  'deep lists': run('['),
});
parser('what is too much', largeJson.bytes, (text: string) => jsonExcess(Buffer.from(text), largeJson), {
  'a long text': behind('"', 'a', '"'),
  escapes: behind('"', '\\"', '"'),
  'long texts': (n) => `["${run(`${'a'.repeat(100)}","`)(n)}"]`,
  spaces: run(' '),
});

// Data of a box, in one line or one frame.
async function* pieces(text: string) {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536);
}
const readEvents = async (text: string) => {
  for await (const value of readLines(pieces(`${text}\n`))) executionEventSchema.safeParse(value);
};
const shown = (mime: string) => `{"seq":1,"type":"result","main":true,"mime":${mime}}`;
parser('a long line of a box', 8 * 1024 * 1024, readEvents, {
  'a long list': (n) => shown(`{"a":[${run('1,')(n)}1]}`),
  'empty objects': (n) => shown(`{"a":[${run('{},')(n)}1]}`),
  'deep lists': (n) => shown(`{"a":${run('[')(n)}`),
  'a long text': (n) => shown(`{"a":"${run('a')(n)}"}`),
});
parser('a line of a box at its bound', boxJson.values - 100, readEvents, {
  'a long list': (n) => shown(`{"a":[${run('1,')(n * 2)}1]}`),
  'empty objects': (n) => shown(`{"a":[${run('{},')(n * 1.5)}1]}`),
  'many types': (n) => shown(keys(n * 2)),
});
parser('frames of a WebSocket', 1024 * 1024, (bytes: Buffer) => createFrameFollower().pass(bytes), {
  'empty ones': (n) => Buffer.alloc(n),
});
parser('a path with bytes that are no text', 16_384, decodePath, { 'lone bytes': run('%C3') });

parser('faults of JSON', 1024 * 1024, findJsonFault, {
  'a text without end': behind('"', 'a', ''),
  escapes: behind('"', '\\n', ''),
  digits: run('1'),
  fraction: behind('1.', '1', 'e'),
  spaces: behind('', ' ', 'x'),
  lines: behind('', '\n', 'x'),
  'deep lists': run('['),
  'a long list': behind('[', '1,', ''),
});

test.each(Object.entries(readings))('%s: parsing does not block the event loop', async (_, { most, make, read }) => {
  // A part comes first, so that superlinear growth is detected in a short time.
  for (const size of [most / 16, most]) {
    const input = make(size) as never;
    expect(await longestTurn(() => read(input), { enoughMs: mostMs })).toBeLessThan(mostMs);
  }
});
