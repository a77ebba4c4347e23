import { setTimeout as sleep } from 'node:timers/promises';
import {
  CodeBoxError,
  type CommandEvent,
  type CreateRun,
  type ExecutionEvent,
  type InlineFile,
  type Run,
} from '#contract';
import type { Background } from '../../../waiting/background.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import type { Creation } from '../creation/creation.ts';
import type { Endings } from '../life/endings.ts';
import type { Files } from '../reach/files.ts';
import type { Catalog } from '../supply/catalog.ts';
import { type Program, programOf } from '../supply/templates.ts';
import type { Commands } from './commands.ts';
import { streamText } from './commands.ts';
import { toRunError } from './execution-view.ts';
import type { Executions } from './executions.ts';

export interface RunOptions {
  creation: Pick<Creation, 'create'>;
  endings: Pick<Endings, 'delete'>;
  catalog: Pick<Catalog, 'choose' | 'checkLanguage'>;
  executions: Executions;
  commands: Commands;
  files: Files;
  background: Background;
}

type RunEvent = ExecutionEvent | CommandEvent;

/** Idle time of the box, in case its gateway dies before it deletes the box. */
const strayIdleSeconds = 60;
const endPatienceMs = 2000;
const maxFileBytes = 4 * 1024 * 1024;
const maxFiles = 256;
const maxFilesBytes = 16 * 1024 * 1024;

/** Runs something once in a fresh box, returns its outputs and changed files, and deletes the box. */
export const createRun = (options: RunOptions) => {
  const { creation, endings, catalog, executions, commands, files, background } = options;
  const toProgram = (ask: CreateRun, { file, argv }: Program): { argv: string[]; main: InlineFile | undefined } => {
    const main = ask.code === undefined ? undefined : { path: file, text: ask.code };
    const first = main?.path ?? ask.files?.[0]?.path ?? file;
    return { argv: [...argv, `./${first}`, ...(ask.args ?? [])], main };
  };

  const runProgram = async (ref: BoxRef, ask: CreateRun, argv: string[]): Promise<CommandEvent[]> => {
    const timeoutSeconds = ask.timeoutSeconds ?? 60;
    const { events } = await commands.start(ref, {
      argv,
      timeoutSeconds,
      ...(ask.cpuSeconds !== undefined && { cpuSeconds: ask.cpuSeconds }),
      ...(ask.env && { env: ask.env }),
      ...(ask.stdin !== undefined && { stdin: ask.stdin }),
    });
    const all: CommandEvent[] = [];
    for await (const event of events ?? []) all.push(event);
    return all;
  };

  const runCode = async (ref: BoxRef, ask: CreateRun): Promise<ExecutionEvent[]> => {
    const { code = '', language, timeoutSeconds, cpuSeconds, env } = ask;
    const { events } = await executions.start(ref, {
      code,
      // The caller gets the result only, and knows neither the box nor the execution.
      unattended: true,
      ...(language !== undefined && { language }),
      ...(timeoutSeconds !== undefined && { timeoutSeconds }),
      ...(cpuSeconds !== undefined && { cpuSeconds }),
      ...(env && { env }),
    });
    const all: ExecutionEvent[] = [];
    for await (const event of events ?? []) all.push(event);
    return all;
  };

  const readChanged = async (ref: BoxRef, events: RunEvent[]): Promise<Run['files']> => {
    const done = events.at(-1);
    const changed = done?.type === 'done' ? done.files : undefined;
    const list = [
      ...(changed?.created ?? []).map((path) => ({ path, change: 'created' as const })),
      ...(changed?.modified ?? []).map((path) => ({ path, change: 'modified' as const })),
    ];
    const result: Run['files'] = [];
    let budget = maxFilesBytes;
    for (const { path, change } of list.slice(0, maxFiles)) {
      const file = await readFile(ref, path, Math.min(budget, maxFileBytes)).catch(ignoreUnreadable);
      if (!file) continue;
      budget -= file.bytes?.length ?? 0;
      result.push({ path, change, sizeBytes: file.sizeBytes, base64: file.bytes?.toString('base64') ?? null });
    }
    return result;
  };

  const readFile = async (ref: BoxRef, path: string, maxBytes: number) => {
    const opened = await files.open(ref, path);
    if (opened.kind === 'folder') return undefined;
    const { body, lengthBytes = 0 } = opened;
    if (lengthBytes > maxBytes) {
      body.destroy();
      return { sizeBytes: lengthBytes, bytes: null };
    }
    // The box may send no length, or a wrong one, so bytes are counted. Beyond the bound, the file is at least this long.
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        sizeBytes += chunk.length;
        if (sizeBytes > maxBytes) return { sizeBytes, bytes: null };
        chunks.push(chunk);
      }
    } catch (cause) {
      throw new CodeBoxError('unavailable', 'The box closed the connection.', { cause });
    }
    return { sizeBytes, bytes: Buffer.concat(chunks) };
  };

  /** Deletes the box, and waits for that only briefly: the result of the run does not depend on it. */
  const endBox = async (ref: BoxRef): Promise<void> => {
    const ended = endings.delete(ref);
    background.run('end the box of a run', () => ended);
    const patience = new AbortController();
    await Promise.race([
      // `background` reports a failure.
      ended.catch(() => {}),
      sleep(endPatienceMs, undefined, { signal: patience.signal }).catch(() => {}),
    ]);
    patience.abort();
  };

  /** Calls `onStart` once the box is ready, before anything runs in it. */
  return async (tenant: string, ask: CreateRun, onStart?: () => Promise<void> | undefined): Promise<Run> => {
    const isProgram = ask.files !== undefined || ask.stdin !== undefined || ask.args !== undefined;
    const template = catalog.choose(ask.template);
    const program = isProgram ? toProgram(ask, programOf(template, ask.language)) : undefined;
    if (!program) await catalog.checkLanguage(template, ask.language);
    const { box } = await creation.create(tenant, {
      ...(ask.template !== undefined && { template: ask.template }),
      ...(ask.limits && { limits: ask.limits }),
      ...(ask.network !== undefined && { network: ask.network }),
      ...(ask.packages && { packages: ask.packages }),
      metadata: {},
      // If this gateway dies meanwhile, the reaper soon ends the idle box.
      idleSeconds: strayIdleSeconds,
      files: [...(ask.files ?? []), ...(program?.main ? [program.main] : [])],
    });
    const ref = refOf(box);
    try {
      await onStart?.();
      const events: RunEvent[] = program ? await runProgram(ref, ask, program.argv) : await runCode(ref, ask);
      const isGone = events.at(-1)?.type === 'done' && (events.at(-1) as { status: string }).status === 'lost';
      return toRun(events, isGone ? [] : await readChanged(ref, events));
    } finally {
      await endBox(ref);
    }
  };
};

export type RunOnce = ReturnType<typeof createRun>;

/** Ignores a changed path that is a dangling link, a pipe, or gone again: the outputs are returned without it. */
const ignoreUnreadable = (error: unknown): undefined => {
  if (!(error instanceof CodeBoxError)) throw error;
};

const toRun = (events: RunEvent[], files: Run['files']): Run => {
  const done = events.at(-1);
  if (done?.type !== 'done') throw new Error('The run ended without its last event.');
  const result = events.find((event) => event.type === 'result');
  const text = result?.mime['text/plain'];
  return {
    status: done.status,
    ...(done.cause && { cause: done.cause }),
    exitCode: 'exitCode' in done ? done.exitCode : null,
    text: typeof text === 'string' ? text : null,
    error: toRunError(events),
    stdout: streamText(events, 'stdout'),
    stderr: streamText(events, 'stderr'),
    outputs: events.filter((event) => event.type !== 'started' && event.type !== 'done'),
    signal: 'signal' in done ? done.signal : null,
    durationMs: done.durationMs,
    cpuMs: done.cpuMs ?? null,
    files,
  };
};
