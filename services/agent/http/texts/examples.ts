export const at = '2026-01-31T12:00:00.000Z';
const chatId = 'chat-a2b3c4d5e6f7g2h3i4j5k6l7m2';
const messageId = 'msg-a2b3c4d5e6f7g2h3i4j5k6l7m2';
const executionId = 'exe-a2b3c4d5e6f7g2h3i4j5k6l7m2';
const boxId = 'box-a2b3c4d5e6f7g2h3i4j5k6l7m2';

/** Examples of path parameters, by name. */
export const pathParameters: Record<string, unknown> = {
  chat: chatId,
  message: messageId,
  execution: executionId,
  path: 'reports/table.csv',
  response: 'resp_a2b3c4d5e6f7g2h3i4j5k6l7m2',
  container: 'cntr_a2b3c4d5e6f7g2h3i4j5k6l7m2',
  file: 'cfile_dGFibGUuY3N2',
};

export const model = 'openai/gpt-5';
const tokens = { input: 812, output: 64 };

export const chat = {
  id: chatId,
  title: 'Sales',
  user: 'ada',
  model: null,
  approval: 'never',
  box: boxId,
  running: null,
  tokens,
  createdAt: at,
  updatedAt: at,
};

export const attachment = {
  path: 'table.csv',
  name: 'table.csv',
  sizeBytes: 18,
  mime: 'text/csv',
  url: '/v1/files/eyJhIjoxfQ/table.csv',
  expiresAt: at,
};

export const answer = {
  id: messageId,
  role: 'assistant',
  status: 'ok',
  content: 'The mean is 4.67.',
  parts: [{ type: 'text', text: 'The mean is 4.67.' }],
  files: [],
  model,
  tokens,
  rounds: 2,
  error: null,
  createdAt: at,
};

export const execution = {
  id: executionId,
  box: boxId,
  context: '0c6a7f9e-52c1-4d0e-8e54-2f4d8a1b7c3d',
  language: 'python',
  status: 'ok',
  createdAt: at,
  startedAt: at,
  finishedAt: at,
  executionCount: 1,
  durationMs: 12.5,
  queuedMs: 0.4,
  cpuMs: 11,
  peakMemoryBytes: 104_857_600,
  stateLost: false,
  processes: [],
  files: { created: [], modified: [], deleted: [] },
  lastSeq: 3,
  text: '42',
  error: null,
  outputs: [{ seq: 2, type: 'result', mime: { 'text/plain': '42' }, main: true }],
};

/** The only page of a list. */
export const pageOf = (...items: unknown[]) => ({ items, nextCursor: null });
