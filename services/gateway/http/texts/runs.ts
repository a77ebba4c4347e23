import type { OperationTexts } from '../../../http/operation-texts.ts';
import { at, command, commandSummary, done, execution, executionSummary, ids, outputs, pageOf } from './examples.ts';

const context = {
  id: ids.context,
  language: 'python',
  default: false,
  cwd: '/mnt/data',
  state: 'idle',
  createdAt: at,
  lastActivityAt: at,
};

/** Of code, commands, kernels and packages. */
export const runTexts: OperationTexts = {
  'POST /v1/run': {
    description:
      'With `code` alone it runs in a kernel, so results and figures come back. With `files`, `stdin` or `args` it runs as a program, ' +
      'whose `exitCode` is answered. Files that it makes come back in base64.',
    request: { language: 'python', code: 'print("hello")\n6 * 7', timeoutSeconds: 10 },
    response: {
      status: 'ok',
      exitCode: null,
      text: '42',
      error: null,
      stdout: 'hello\n',
      stderr: '',
      outputs,
      durationMs: 12.5,
      files: [{ path: 'plot.png', change: 'created', sizeBytes: 3, base64: 'cG5n' }],
    },
  },
  'POST /v1/boxes/{box}/executions': {
    description:
      'Variables live on in the context. Code that fails is a 200 with status `error`; `cause` tells what else ended it. With `detach` ' +
      'the answer is a 202 at once. `Accept: text/event-stream` or `application/x-ndjson` gives the events as they come.',
    request: { code: 'print("hello")\n6 * 7', timeoutSeconds: 10 },
    response: execution,
  },
  'GET /v1/boxes/{box}/executions': {
    description: 'Without their outputs, also those of other clients and of boxes that have ended.',
    response: pageOf(executionSummary),
  },
  'GET /v1/boxes/{box}/executions/{execution}': {
    description: '`outputs` is null when the box no longer has them; how it ended is kept for 7 days.',
    response: execution,
  },
  'GET /v1/boxes/{box}/executions/{execution}/events': {
    description:
      'Events are numbered from 1 by `seq`; `after`, or the `Last-Event-ID` of an EventSource, is the last one that was read. Any number of ' +
      'readers may follow, and none changes the run.',
    response: done,
  },
  'POST /v1/boxes/{box}/executions/{execution}/input': {
    description: 'The line, without its end, for the `input_request` that was last. 409 when the run waits for none.',
    request: { text: 'Ada' },
  },
  'POST /v1/boxes/{box}/executions/{execution}/interrupt': {
    description: 'As Ctrl-C does. What does not stop is stopped with its kernel, and `stateLost` says so.',
  },
  'GET /v1/boxes/{box}/ws': {
    description:
      'Frames are JSON with an `id` of your choice and an `op`: `execute`, `attach`, `input`, `interrupt`. Events come back with the ' +
      'same `id`. Closing the socket stops nothing.',
    response: { id: '1', op: 'execute', code: 'print("hello")\n6 * 7' },
  },
  'GET /v1/boxes/{box}/contexts': {
    description: 'A context is a live kernel. Each language has a default one, made when it is first needed.',
    response: pageOf({ ...context, default: true }),
  },
  'POST /v1/boxes/{box}/contexts': {
    description:
      'With variables, a folder and an environment of its own. Runs in different contexts go on side by side.',
    request: { language: 'python', cwd: 'reports', env: { MODE: 'fast' } },
    response: context,
  },
  'DELETE /v1/boxes/{box}/contexts/{context}': {
    description: 'Its variables go, files stay. A default context is made anew when it is next needed.',
  },
  'POST /v1/boxes/{box}/contexts/{context}/restart': {
    description: 'Variables are gone; files, the folder and the environment stay. What runs in it ends as `killed`.',
    response: context,
  },
  'GET /v1/boxes/{box}/contexts/{context}/variables': {
    description: 'Names, types, shapes and a short preview. 409 while something runs in it.',
    response: pageOf({
      name: 'table',
      type: 'DataFrame',
      shape: [3, 1],
      length: 3,
      sizeBytes: 156,
      preview: '   x\n0  0',
    }),
  },
  'POST /v1/boxes/{box}/commands': {
    description:
      '`command` is a line for Bash, `argv` a program with its arguments, without a shell. Stdin is open and can be written to by ' +
      '`POST …/input`.',
    request: { command: 'wc -l < table.csv', timeoutSeconds: 10 },
    response: command,
  },
  'GET /v1/boxes/{box}/commands': {
    description: 'A box remembers its last commands, without their outputs here.',
    response: pageOf(commandSummary),
  },
  'GET /v1/boxes/{box}/commands/{command}': {
    description: 'With what it has written until now, also while it runs.',
    response: command,
  },
  'DELETE /v1/boxes/{box}/commands/{command}': {
    description: 'With all that it has started. `done` tells the signal that it ended by.',
  },
  'GET /v1/boxes/{box}/commands/{command}/events': {
    description: 'Events are numbered from 1 by `seq`; `after`, or `Last-Event-ID`, is the last one that was read.',
    response: { seq: 3, type: 'done', status: 'ok', durationMs: 8.1, exitCode: 0, signal: null },
  },
  'POST /v1/boxes/{box}/commands/{command}/input': {
    description: '`text` or `base64` is written as it is; `eof` closes stdin behind it.',
    request: { text: 'yes\n', eof: true },
  },
  'POST /v1/boxes/{box}/packages': {
    description:
      'What the installer writes is answered. Needs a box with network `internet`, or a folder of wheels of the operator. Kernels that run ' +
      'find what was installed.',
    request: { packages: ['polars>=1'], manager: 'pip' },
    response: {
      ...command,
      command: null,
      argv: ['pip', 'install', '--user', 'polars>=1'],
      installed: [{ name: 'polars', version: '1.31.0' }],
    },
  },
  'GET /v1/boxes/{box}/packages': {
    description: '`source` tells those of the image from those that were installed into the box.',
    response: pageOf({ name: 'numpy', version: '2.4.0', source: 'image' }),
  },
};
