import type { OperationTexts } from '../../../http/operation-texts.ts';
import { at, box, ids, limits, pageOf } from './examples.ts';

const template = {
  name: 'python',
  languages: ['python', 'javascript', 'typescript', 'bash'],
  limits,
  maxLimits: { cpus: 4, memoryMb: 8192, diskMb: 16_384, pids: 4096 },
  network: 'none',
  idleSeconds: 900,
  maxLifetimeSeconds: 86_400,
  warm: 2,
};
const used = { usedBytes: 209_715_200, limitBytes: 1_073_741_824 };

/** Of boxes, what they are made from, and the service itself. */
export const boxTexts: OperationTexts = {
  'GET /healthz': {
    description: 'For a liveness probe: answered as long as the process serves, whatever else fails.',
    response: { status: 'ok' },
  },
  'GET /readyz': {
    description:
      'For a readiness probe and what balances load: 503 when no box could be had now, or the gateway is stopping. ' +
      '`degraded` names what does not work while all else is served.',
    response: { status: 'ok', degraded: { blobs: 'The blob store does not answer.' } },
  },
  'GET /v1/templates': {
    description: 'Names, languages, limits and times of all templates. A box that names none is made from `python`.',
    response: pageOf(template),
  },
  'GET /v1/templates/{template}': {
    description: '`limits` are what a box gets that asks for none, `maxLimits` the most that one may ask for.',
    response: template,
  },
  'POST /v1/boxes': {
    description:
      'Answers when the box is ready: some milliseconds for one that was kept warm, some seconds otherwise. With `reuse` the living ' +
      'box of `user` is answered instead, and `continuity` says so. Files and packages are there before the answer.',
    request: {
      user: 'ada',
      reuse: true,
      limits: { memoryMb: 2048 },
      files: [{ path: 'table.csv', text: 'x,y\n1,1\n' }],
    },
    response: box,
  },
  'GET /v1/boxes': {
    description:
      'Filter by `user`, `state` or `metadata`. Boxes that have ended are listed when `state` asks for them.',
    response: pageOf(box),
  },
  'GET /v1/boxes/{box}': {
    description: 'Is no use of the box, so it does not put off its idle end. Of one that has ended, `cause` tells why.',
    response: { ...box, state: 'deleted', cause: { code: 'idle', detail: 'It was not used for 900 s.' } },
  },
  'PATCH /v1/boxes/{box}': {
    description: 'Changes what is named and leaves the rest. Limits and network of a box stay as they were made.',
    request: { idleSeconds: 3600, onIdle: 'hibernate' },
    response: { ...box, idleSeconds: 3600, onIdle: 'hibernate' },
  },
  'DELETE /v1/boxes/{box}': {
    description: 'What runs in it ends as `killed`. Its record can be read for 7 days.',
  },
  'POST /v1/boxes/{box}/keepalive': {
    description: 'Counts as a use: the idle time begins anew.',
    response: box,
  },
  'POST /v1/boxes/{box}/pause': {
    description:
      'Takes CPU time from nobody while it rests, and keeps its memory. What runs stands still until the next use.',
    response: { ...box, state: 'paused' },
  },
  'POST /v1/boxes/{box}/resume': {
    description: 'Answers when it is ready. Any other use does the same by itself.',
    response: { ...box, continuity: 'restored', restoredAt: at },
  },
  'POST /v1/boxes/{box}/hibernate': {
    description: 'Keeps its working and its home folder in the blob store; variables and processes are lost.',
    response: { ...box, state: 'hibernated', checkpoint: { at, sizeBytes: 52_428 } },
  },
  'POST /v1/boxes/{box}/checkpoint': {
    description: 'The box goes on. Should its instance be lost, it comes back with the files of this moment.',
    response: { ...box, checkpoint: { at, sizeBytes: 52_428 } },
  },
  'GET /v1/boxes/{box}/stats': {
    description:
      'CPU, memory, disk and processes with their limits. As a stream it is told again and again until the reader leaves.',
    response: {
      at,
      cpu: { usedMs: 1200, limitCpus: 1, limitMs: null },
      memory: { ...used, peakBytes: 314_572_800 },
      disk: used,
      pids: { count: 12, limit: 256 },
      oomKills: 0,
    },
  },
  'POST /v1/boxes/{box}/tickets': {
    description:
      'For a browser, which cannot set headers on a WebSocket: `?ticket=` in the address of a terminal, a socket or a port. ' +
      'It is worth as much as the key that made it, once.',
    response: { ticket: 'tkt_6mX0nPq2R8sV4wYz', expiresAt: at },
  },
  '/v1/boxes/{box}/ports/{port}/{path}': {
    description:
      'The request is passed to the port on the loopback of the box, and the answer back, both as streams. The key of CodeBox is not ' +
      'passed on. Each port also has a host of its own, `{port}-{box}` under the domain of ports.',
  },
  'GET /v1/boxes/{box}/terminal': {
    description:
      'Binary frames are what is typed and shown; text frames are JSON: `resize` from the client; `ready` and `exit` to it. With ' +
      '`?terminal=` one that runs already is joined, beginning with its screen.',
  },
  'GET /v1/boxes/{box}/terminals': {
    description: 'A terminal lives until its shell ends, whether anybody is connected or not.',
    response: pageOf({
      id: ids.terminal,
      box: ids.box,
      cwd: '/mnt/data',
      cols: 100,
      rows: 30,
      clients: 1,
      createdAt: at,
    }),
  },
  'DELETE /v1/boxes/{box}/terminals/{terminal}': {
    description: 'SIGHUP to all in it, then SIGKILL. Whoever is connected is told by `exit`.',
  },
};
