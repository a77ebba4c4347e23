import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
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

/** Descriptions and examples of the operations on code, commands, kernels and packages. */
export const runTexts: OperationTexts = {
  'POST /v1/run': {
    description:
      'With `code` alone, the code runs in a kernel, and the response has its results and figures. With `files`, `stdin` or `args` it ' +
      'runs as a program, and the response has its `exitCode` or `signal`. `steps` run one after the other in one box that has the ' +
      '`files`, up to the first that fails. Files that they write are returned in base64, unless `returnFiles` says otherwise. ' +
      '`Accept: text/event-stream` or `application/x-ndjson` streams the events of the run, its files and `end`. A client that leaves ' +
      'the request ends the run and its box, unless it has sent an `Idempotency-Key`, with which it gets the result later.',
    request: { language: 'python', code: 'print("hello")\n6 * 7', timeoutSeconds: 10 },
    response: {
      status: 'ok',
      exitCode: null,
      text: '42',
      error: null,
      stdout: 'hello\n',
      stderr: '',
      outputs,
      signal: null,
      durationMs: 12.5,
      cpuMs: 10.4,
      files: [{ path: 'plot.png', change: 'created', sizeBytes: 3, base64: 'cG5n' }],
    },
  },
  'POST /v1/boxes/{box}/executions': {
    description:
      'Variables persist in the context. `files` are written before the code runs. Code that raises an error is a 200 with status `error`; `cause` names anything else that ended ' +
      'the run. With `detach` the response is an immediate 202. `Accept: text/event-stream` or `application/x-ndjson` streams the events, of ' +
      'which the first one has the id by which the stream can be resumed.',
    request: { code: 'print("hello")\n6 * 7', timeoutSeconds: 10 },
    response: execution,
  },
  'GET /v1/boxes/{box}/executions': {
    description:
      'Lists the executions of all clients, without outputs. The executions of a box that has ended are listed too.',
    response: pageOf(executionSummary),
  },
  'GET /v1/boxes/{box}/executions/{execution}': {
    description: '`outputs` is null when the box no longer has them; how the execution ended is kept for 7 days.',
    response: execution,
  },
  'GET /v1/boxes/{box}/executions/{execution}/events': {
    description:
      'Events are numbered from 1 by `seq`; `after`, or the `Last-Event-ID` of an EventSource, is the last one received. Any number of ' +
      'clients may follow; none of them affects the run.',
    response: done,
  },
  'POST /v1/boxes/{box}/executions/{execution}/input': {
    description:
      '`text` is the line, without its newline, for the latest `input_request`. 409 when the run is not waiting for input.',
    request: { text: 'Ada' },
  },
  'POST /v1/boxes/{box}/executions/{execution}/interrupt': {
    description:
      'Has the effect of Ctrl-C. If the code does not stop, its kernel is restarted, and `stateLost` is true in the `done` event.',
  },
  'GET /v1/boxes/{box}/ws': {
    description:
      'Frames are JSON with an `id` of your choice and an `op`: `execute`, `attach`, `input`, `interrupt`. Events carry the ' +
      'same `id`. Closing the socket does not stop any execution.',
    response: { id: '1', op: 'execute', code: 'print("hello")\n6 * 7' },
  },
  'GET /v1/boxes/{box}/contexts': {
    description: 'A context is a live kernel. Each language has a default context, created when it is first needed.',
    response: pageOf({ ...context, default: true }),
  },
  'POST /v1/boxes/{box}/contexts': {
    description:
      'The new context has its own variables, folder and environment. Runs in different contexts are concurrent.',
    request: { language: 'python', cwd: 'reports', env: { MODE: 'fast' } },
    response: context,
  },
  'DELETE /v1/boxes/{box}/contexts/{context}': {
    description: 'Variables are lost; files stay. A default context is created again when it is next needed.',
  },
  'POST /v1/boxes/{box}/contexts/{context}/restart': {
    description: 'Variables are lost; files, the folder and the environment stay. A run in progress ends as `killed`.',
    response: context,
  },
  'GET /v1/boxes/{box}/contexts/{context}/variables': {
    description: 'Lists names, types, shapes and short previews. 409 while code runs in the context.',
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
      '`command` is a line for Bash; `argv` is a program with its arguments, run without a shell. Stdin stays open: write to it with ' +
      '`POST …/input`.',
    request: { command: 'wc -l < table.csv', timeoutSeconds: 10 },
    response: command,
  },
  'GET /v1/boxes/{box}/commands': {
    description: 'Lists the latest commands of the box, without their output.',
    response: pageOf(commandSummary),
  },
  'GET /v1/boxes/{box}/commands/{command}': {
    description: 'Includes the output so far; the command may still be running.',
    response: command,
  },
  'DELETE /v1/boxes/{box}/commands/{command}': {
    description:
      'Ends the command and all processes that it has started. The `done` event names the signal that ended it.',
  },
  'GET /v1/boxes/{box}/commands/{command}/events': {
    description: 'Events are numbered from 1 by `seq`; `after`, or `Last-Event-ID`, is the last one received.',
    response: { seq: 3, type: 'done', status: 'ok', durationMs: 8.1, exitCode: 0, signal: null },
  },
  'POST /v1/boxes/{box}/commands/{command}/input': {
    description: '`text` or `base64` is written unchanged; `eof` closes stdin afterwards.',
    request: { text: 'yes\n', eof: true },
  },
  'POST /v1/boxes/{box}/notebooks': {
    description:
      'Every cell runs in a new kernel in the folder of the notebook, and its outputs are written back into the file. The events are those ' +
      'of a command, with a `cell` at the start and the end of each code cell. A run that stops at a failed cell ends with `error`.',
    request: { path: 'report.ipynb', output: 'report-2026.ipynb', parameters: { year: 2026 }, onError: 'continue' },
    response: {
      ...command,
      command: null,
      argv: ['python', 'runner.py'],
      outputs: [{ seq: 2, type: 'cell', index: 0, cells: 1, id: 'f1d2', status: 'ok', executionCount: 1, outputs: [] }],
    },
  },
  'GET /v1/boxes/{box}/notebook': {
    description:
      'The notebook has a cell for each execution that the box still has, the oldest first. Open it in Jupyter, or run it again.',
    response: { nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [{ cell_type: 'code', source: 'x = 1' }] },
  },
  'POST /v1/boxes/{box}/packages': {
    description:
      'The response has the output of the installer. The box needs the network `internet`, unless the operator provides a folder of ' +
      'wheels. Running kernels can import the packages at once.',
    request: { packages: ['polars>=1'], manager: 'pip' },
    response: {
      ...command,
      command: null,
      argv: ['pip', 'install', '--user', 'polars>=1'],
      installed: [{ name: 'polars', version: '1.31.0' }],
    },
  },
  'GET /v1/boxes/{box}/packages': {
    description: '`source` distinguishes packages of the image from packages that were installed into the box.',
    response: pageOf({ name: 'numpy', version: '2.4.0', source: 'image' }),
  },
};
