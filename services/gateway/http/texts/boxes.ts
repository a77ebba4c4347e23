import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { at, box, ids, limits, pageOf } from './examples.ts';

const template = {
  name: 'python',
  language: 'python',
  languages: ['python', 'javascript', 'typescript', 'bash'],
  limits,
  maxLimits: { cpus: 4, memoryMb: 8192, diskMb: 16_384, pids: 4096 },
  network: 'none',
  idleSeconds: 900,
  maxLifetimeSeconds: 86_400,
  warm: 2,
  gpus: null,
  version: null,
};
const used = { usedBytes: 209_715_200, limitBytes: 1_073_741_824 };

/** Descriptions and examples of the operations on boxes, on templates, and of the service itself. */
export const boxTexts: OperationTexts = {
  'GET /healthz': {
    description: 'For a liveness probe: succeeds as long as the process serves, whatever else fails.',
    response: { status: 'ok' },
  },
  'GET /readyz': {
    description:
      'For readiness probes and load balancers: 503 while no box can be created, or while the gateway is stopping. ' +
      '`degraded` names the parts that do not work while everything else is served.',
    response: { status: 'ok', degraded: { blobs: 'The blob store does not respond.' } },
  },
  'GET /v1/templates': {
    description:
      'Lists the name, languages, limits and times of each template. A box that names no template is made from `python`. The languages ' +
      'come from the image: they are null until a box of the template has been started.',
    response: pageOf(template),
  },
  'GET /v1/templates/{template}': {
    description:
      '`limits` apply to a box that is created without limits of its own; `maxLimits` are the highest that a request may set.',
    response: {
      ...template,
      packages: [{ name: 'numpy', version: '2.4.6' }],
      programs: [{ name: 'ffmpeg', version: '7.1' }],
    },
  },
  'POST /v1/boxes': {
    description:
      'Responds when the box is ready: within milliseconds when an instance was kept warm, within seconds otherwise. With `reuse`, the ' +
      'existing box of `user` is returned, as `continuity` reports, and with `name` the one of that name. Files and packages are in place before the response.',
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
      'Filter by `user`, `state` or `metadata`. Boxes that have ended are listed only when `state` names them.',
    response: pageOf(box),
  },
  'GET /v1/boxes/{box}': {
    description:
      'Reading a box does not count as use, so it does not extend its idle time. When the box has ended, `cause` is the reason.',
    response: { ...box, state: 'deleted', cause: { code: 'idle', detail: 'It was not used for 900 s.' } },
  },
  'PATCH /v1/boxes/{box}': {
    description: 'Changes only the fields that are given. The limits and the network of a box cannot be changed.',
    request: { idleSeconds: 3600, onIdle: 'hibernate' },
    response: { ...box, idleSeconds: 3600, onIdle: 'hibernate' },
  },
  'DELETE /v1/boxes/{box}': {
    description: 'Everything that runs in the box ends as `killed`. The record of the box can be read for 7 days.',
  },
  'POST /v1/boxes/{box}/keepalive': {
    description: 'Counts as use: the idle time starts again.',
    response: box,
  },
  'POST /v1/boxes/{box}/pause': {
    description:
      'A paused box uses no CPU time and keeps its memory. Its processes stand still until the next use of the box.',
    response: { ...box, state: 'paused' },
  },
  'POST /v1/boxes/{box}/resume': {
    description: 'Responds when the box is ready. Any other use of the box resumes it too.',
    response: { ...box, continuity: 'restored', restoredAt: at },
  },
  'POST /v1/boxes/{box}/hibernate': {
    description:
      'Saves the working folder and the home folder of the box in the blob store; variables and processes are lost.',
    response: { ...box, state: 'hibernated', checkpoint: { at, sizeBytes: 52_428 } },
  },
  'POST /v1/boxes/{box}/checkpoint': {
    description:
      'The box keeps running. If its instance is lost, the box is restored with its files as they were at this moment.',
    response: { ...box, checkpoint: { at, sizeBytes: 52_428 } },
  },
  'GET /v1/boxes/{box}/stats': {
    description:
      'CPU, memory, disk and processes with their limits. As a stream, new values are sent until the client disconnects.',
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
      'For browsers, which cannot set headers on a WebSocket: pass it as `?ticket=` in the URL of a terminal, a socket or a port. ' +
      'A ticket grants the rights of the key that created it, for one connection.',
    response: { ticket: 'tkt_6mX0nPq2R8sV4wYz', expiresAt: at },
  },
  '/v1/boxes/{box}/ports/{port}/{path}': {
    description:
      'The request is forwarded to this port on the loopback interface of the box, and the response is returned; both are streamed. The ' +
      'CodeBox key is not forwarded. Each port also has a host name of its own: `{port}-{box}` under the domain of ports.',
  },
  'GET /v1/boxes/{box}/terminal': {
    description:
      'Binary frames carry input and output. Text frames are JSON: `resize` from the client, `ready` and `exit` to the client. With ' +
      '`?terminal=` the connection joins a running terminal and first receives its screen.',
  },
  'GET /v1/boxes/{box}/terminals': {
    description: 'A terminal runs until its shell exits, whether or not a client is connected.',
    response: pageOf({
      id: ids.terminal,
      box: ids.box,
      cwd: '/mnt/data',
      cols: 100,
      rows: 30,
      pid: 214,
      clients: 1,
      createdAt: at,
    }),
  },
  'DELETE /v1/boxes/{box}/terminals/{terminal}': {
    description: 'All processes of the terminal receive SIGHUP, then SIGKILL. Connected clients receive `exit`.',
  },
};
