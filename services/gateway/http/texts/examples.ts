/** Ids and response bodies that the examples of several operations share. */
export const ids = {
  box: 'box-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  execution: 'exe-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  command: 'cmd-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  context: '0c6a7f9e-52c1-4d0e-8e54-2f4d8a1b7c3d',
  terminal: 'ter-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  tenant: 'ten-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  key: 'Zk3JxT9aQ7Lm',
  webhook: 'whk-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  delivery: 'evt-5f0c1d2e3b4a59687f8e9dacbb0c1d2e',
  volume: 'vol-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  link: 'link-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  export: 'exp-a2b3c4d5e6f7g2h3i4j5k6l7m2',
  token: 'lnk_0sUGXyEKxrRzkGr3W9mFNcJrj0GqfA4oUVyAcHLCTxE',
};

/** Examples of path parameters, by name. */
export const pathParameters: Record<string, unknown> = {
  ...ids,
  template: 'python',
  version: 3,
  path: 'reports/table.csv',
  port: 5000,
};

export const at = '2026-01-31T12:00:00.000Z';
const later = '2026-02-01T12:00:00.000Z';
export const limits = { cpus: 1, memoryMb: 1024, diskMb: 1024, pids: 256 };

export const box = {
  id: ids.box,
  state: 'ready',
  template: 'python',
  user: 'ada',
  name: null,
  metadata: { project: 'sales' },
  limits,
  network: 'none',
  volumes: [],
  createdAt: at,
  lastActiveAt: at,
  idleSeconds: 900,
  expiresAt: later,
  onIdle: 'delete',
  continuity: 'new',
  checkpoint: null,
  restoredAt: null,
  startup: { kind: 'warm', ms: 35 },
};

export const executionSummary = {
  id: ids.execution,
  box: ids.box,
  context: ids.context,
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
  lastSeq: 4,
};

export const outputs = [
  { seq: 2, type: 'stdout', text: 'hello\n' },
  { seq: 3, type: 'result', mime: { 'text/plain': '42' }, main: true },
];

export const execution = { ...executionSummary, text: '42', error: null, outputs };

export const done = { seq: 4, type: 'done', status: 'ok', durationMs: 12.5, stateLost: false };

export const commandSummary = {
  id: ids.command,
  box: ids.box,
  command: 'wc -l < table.csv',
  argv: ['bash', '-c', 'wc -l < table.csv'],
  cwd: '/mnt/data',
  pid: 71,
  status: 'ok',
  exitCode: 0,
  signal: null,
  durationMs: 8.1,
  cpuMs: 3,
  processes: [],
  files: { created: [], modified: [], deleted: [] },
  lastSeq: 3,
};

export const command = {
  ...commandSummary,
  stdout: '4\n',
  stderr: '',
  outputs: [{ seq: 2, type: 'stdout', text: '4\n' }],
};

export const fileEntry = {
  name: 'table.csv',
  path: 'reports/table.csv',
  type: 'file',
  sizeBytes: 18,
  modifiedAt: at,
  etag: '"1a2b3c"',
};

/** A list that fits on one page. */
export const pageOf = (...items: unknown[]) => ({ items, nextCursor: null });
