// The main thread of the Node process of the JavaScript and TypeScript kernels: runs the cells. A second thread
// (control.mjs) receives the kernel's messages, so that interrupts work while a cell keeps this thread busy.
import { AsyncLocalStorage } from 'node:async_hooks';
import fs from 'node:fs';
import inspector from 'node:inspector';
import module from 'node:module';
import path from 'node:path';
import util from 'node:util';
import vm from 'node:vm';
import { Worker } from 'node:worker_threads';
import { bundleOf, createDisplay } from './display.mjs';
import { rewriteImports } from './imports.mjs';
import { createInspection } from './variables.mjs';

const [inputFd, outputFd] = process.argv.slice(2, 4).map(Number);
process.argv.length = 1;
const handled = new Int32Array(new SharedArrayBuffer(4));
const session = new inspector.Session();
session.connect();

let running = null;
/** The number of the cell that asynchronous output comes from. */
const cells = new AsyncLocalStorage();

/** Encodes a message for the kernel. Throws if it cannot be represented as JSON. */
const lineOf = (message) => Buffer.from(`${JSON.stringify(message)}\n`);

/** Writes a line to the kernel; blocks while the kernel is behind. */
const write = (line) => {
  for (let at = 0; at < line.length; ) at += fs.writeSync(outputFd, line, at);
};

const send = (message) => write(lineOf(message));

/** Sends output of a cell; asynchronous output of an earlier cell carries that cell's number. */
const show = (message) => {
  const origin = cells.getStore();
  send(origin === undefined || origin === running?.id ? message : { ...message, origin });
};

// Text output takes the same path as displays, so that their order is kept.
for (const name of ['stdout', 'stderr']) {
  process[name].write = (chunk, encoding, callback) => {
    const text = typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
    if (text) show({ stream: name, text });
    const done = typeof encoding === 'function' ? encoding : callback;
    if (done) process.nextTick(done);
    return true;
  };
}

/** Names that a cell may use without an import: `require`, `display`, and Node's built-in modules, as in its REPL. */
const defineGlobals = () => {
  const here = path.join(process.cwd(), 'cell.js');
  const require = module.createRequire(here);
  const load = vm.compileFunction('return import(specifier, options)', ['specifier', 'options'], {
    filename: here,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const hidden = { require, display: createDisplay(show, track), __import: (name, options) => load(name, options) };
  for (const [name, value] of Object.entries(hidden)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
  for (const name of module.builtinModules.filter((name) => /^[a-z]\w*$/.test(name) && !(name in globalThis))) {
    Object.defineProperty(globalThis, name, {
      configurable: true,
      enumerable: false,
      get: () => require(name),
      set: (value) => Object.defineProperty(globalThis, name, { value, writable: true, configurable: true }),
    });
  }
};

/** Makes the running cell wait for a pending display. */
const track = (promise) => {
  const cell = running;
  if (cell) cell.pending.push(promise);
};

let taken;
Object.defineProperty(globalThis, Symbol.for('codebox.take'), {
  value: (value) => {
    taken = value;
  },
  enumerable: false,
});

/** Returns the value that an inspector reply refers to. */
const revive = (remote) => {
  if (remote.objectId) {
    const functionDeclaration = 'function () { "use strict"; globalThis[Symbol.for("codebox.take")](this) }';
    session.post('Runtime.callFunctionOn', { objectId: remote.objectId, functionDeclaration });
    const value = taken;
    taken = undefined;
    return value;
  }
  if (remote.unserializableValue === undefined) return remote.value;
  const text = remote.unserializableValue;
  return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
};

const outside = /host\.mjs|node:inspector|\[nodejs\.internal|node:internal\/main/;

/** Describes an error for the kernel; any value may be thrown. */
const describe = (thrown, details) => {
  if (!(thrown instanceof Error) && !util.types.isNativeError(thrown)) {
    return { name: 'Uncaught', value: util.inspect(thrown), traceback: [`Uncaught ${util.inspect(thrown)}`] };
  }
  const lines = String(thrown.stack ?? thrown).split('\n');
  // Frames below the first frame of this file are not the caller's.
  const end = lines.findIndex((line) => outside.test(line));
  if (end > 0) lines.length = end;
  if (details && thrown.name === 'SyntaxError' && !lines.some((line) => line.includes('cell-'))) {
    lines.push(`    at cell-${running?.id}:${details.lineNumber + 1}:${details.columnNumber + 1}`);
  }
  // Errors of the type stripper begin with the line in a file without a name.
  if (/^:\d+$/.test(lines[0])) lines[0] = `cell-${running?.id}${lines[0]}`;
  return { name: String(thrown.name), value: String(thrown.message), traceback: lines };
};

/** Like `describe`, for values whose own code may throw while they are described. */
const describeAnyhow = (thrown) => {
  try {
    return describe(thrown);
  } catch {
    return { name: 'Error', value: 'an error that cannot be shown', traceback: [] };
  }
};

/** Sets the variables of one cell; returns a function that restores them. */
const applyEnv = (env) => {
  const before = Object.keys(env).map((name) => [name, process.env[name]]);
  Object.assign(process.env, env);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
};

/** Changes the environment permanently; null removes a variable. */
const changeEnvironment = (changes) => {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) delete process.env[name];
    else process.env[name] = value;
  }
  send({ environment: true });
};

const finish = (cell, result) => {
  if (running !== cell) return;
  // Encoded before the cell ends: if the result cannot be encoded, the cell ends with an error.
  const line = lineOf({ end: cell.id, ...result });
  running = null;
  cell.undo();
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
  write(line);
};

/** Converts the caller's code to JavaScript for the inspector. Throws a SyntaxError. */
const prepare = ({ cell, code, typescript }) => {
  const script = typescript ? module.stripTypeScriptTypes(code, { mode: 'transform' }) : code;
  return `${rewriteImports(script)}\n//# sourceURL=cell-${cell}`;
};

const complete = async (cell, reply) => {
  const { result, exceptionDetails } = reply;
  try {
    if (exceptionDetails) {
      const thrown = revive(exceptionDetails.exception ?? result);
      return finish(cell, { error: describe(thrown, exceptionDetails) });
    }
    const value = revive(result);
    await Promise.all(cell.pending);
    finish(cell, value === undefined ? {} : { data: await bundleOf(value) });
  } catch (error) {
    finish(cell, { error: describeAnyhow(error) });
  }
};

const interrupted = { error: { name: 'Interrupted', value: 'the cell was interrupted', traceback: [] } };

const run = (message) => {
  const cell = { id: message.cell, pending: [], undo: applyEnv(message.env) };
  running = cell;
  let expression;
  try {
    expression = prepare(message);
  } catch (error) {
    return finish(cell, { error: describe(error) });
  }
  const options = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
  const onEnd = (error, reply) => {
    // The only possible error is that the evaluation was terminated.
    if (error) finish(cell, interrupted);
    else complete(cell, reply);
  };
  cells.run(cell.id, () => session.post('Runtime.evaluate', options, onEnd));
};

for (const event of ['uncaughtException', 'unhandledRejection']) {
  // A failed callback must not end the process with the variables of the session.
  process.on(event, (error) => process.stderr.write(`Uncaught ${describeAnyhow(error).traceback.join('\n')}\n`));
}

// An interrupt is sent to the whole process group to end a child that a cell waits for; this process ignores the signal.
process.on('SIGINT', () => {});

defineGlobals();
const variables = createInspection(session);
const control = new Worker(new URL('./control.mjs', import.meta.url), { workerData: { inputFd, handled } });
control.on('message', (message) => {
  if (message.variables) return send({ variables: variables() });
  if (message.environment) return changeEnvironment(message.environment);
  if (message.interrupt === undefined) return run(message);
  Atomics.add(handled, 0, 1);
  if (running?.id === message.interrupt) finish(running, interrupted);
});
control.on('exit', () => process.exit());
control.once('online', () => send({ end: 0 }));
