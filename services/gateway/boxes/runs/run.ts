import { setTimeout as sleep } from 'node:timers/promises';
import type { CommandEvent, CreateRun, ExecutionEvent, InlineFile, Run, RunEvent, RunStep } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import type { Creation } from '../creation/creation.ts';
import type { Endings } from '../life/endings.ts';
import type { Files } from '../reach/files.ts';
import type { Catalog } from '../supply/catalog.ts';
import { type Program, programOf } from '../supply/templates.ts';
import type { Commands } from './commands.ts';
import type { Executions } from './executions.ts';
import { createChanges, readChanged } from './run-files.ts';
import { toRun } from './run-view.ts';

export interface RunOptions {
  creation: Pick<Creation, 'create'>;
  endings: Pick<Endings, 'delete'>;
  catalog: Pick<Catalog, 'pick' | 'checkLanguage'>;
  executions: Executions;
  commands: Commands;
  files: Files;
  background: Background;
}

export interface RunCall {
  /** Called once the box is ready, before anything runs in it. */
  onStart?: () => Promise<void> | undefined;
  /** Aborted when nobody waits for the result any more: the box then ends. */
  leave?: AbortSignal;
}

type StepEvent = ExecutionEvent | CommandEvent;

/** Idle time of the box, in case its gateway dies before it deletes the box. */
const strayIdleSeconds = 60;
const endPatienceMs = 2000;
const defaultStepSeconds = 60;

/** Runs something once in a fresh box, returns its outputs and changed files, and deletes the box. */
export const createRun = (options: RunOptions) => {
  const { creation, endings, catalog, executions, commands, files, background } = options;

  /** Returns what runs in the box, and the files that it needs beside those of the request. */
  const plan = async (tenant: string, ask: CreateRun): Promise<{ steps: RunStep[]; main?: InlineFile }> => {
    const template = await catalog.pick(tenant, ask.template);
    const { code, language, stdin, env, autoInstall, timeoutSeconds, cpuSeconds } = ask;
    for (const [index, step] of (ask.steps ?? []).entries())
      if (step.code !== undefined) await catalog.checkLanguage(template, step.language, `/steps/${index}/language`);
    if (ask.steps) return { steps: ask.steps };
    const shared = { env, timeoutSeconds, cpuSeconds };
    if (ask.files !== undefined || stdin !== undefined || ask.args !== undefined) {
      const { argv, main } = toProgram(ask, programOf(template, language));
      return { steps: [{ argv, stdin, ...shared }], ...(main && { main }) };
    }
    await catalog.checkLanguage(template, language);
    return { steps: [{ code, language, autoInstall, ...shared }] };
  };

  /** Starts one step and yields its events. */
  async function* runStep(ref: BoxRef, step: RunStep, leave: AbortSignal | undefined): AsyncGenerator<StepEvent> {
    const { code, language, autoInstall, timeoutSeconds = defaultStepSeconds, ...process } = step;
    const { env, cpuSeconds } = process;
    // The caller gets the result only, and knows neither the box nor the execution: nobody answers `input()`.
    const { events } =
      code === undefined
        ? await commands.start(ref, { ...process, timeoutSeconds }, leave)
        : await executions.start(
            ref,
            { code, language, autoInstall, timeoutSeconds, env, cpuSeconds, unattended: true },
            leave,
          );
    if (events) yield* events;
  }

  /** Runs the steps in order up to the first that fails, yields the changed files, and ends the box also when its reader leaves. */
  async function* runIn(ref: BoxRef, ask: CreateRun, steps: RunStep[], { onStart, leave }: RunCall) {
    let seq = 0;
    const changes = createChanges();
    let status: Run['status'] = 'ok';
    try {
      leave?.throwIfAborted();
      await onStart?.();
      for (const [number, step] of steps.entries()) {
        for await (const event of runStep(ref, step, leave)) {
          if (event.type === 'done') {
            status = event.status;
            if (event.files) changes.add(event.files);
          }
          yield { ...withoutId(event), seq: ++seq, ...(ask.steps && { step: number }) } as RunEvent;
        }
        if (status !== 'ok') break;
      }
      const isGone = status === 'lost';
      const changed = readChanged(files, ref, changes, isGone ? 'none' : (ask.returnFiles ?? 'content'));
      for await (const file of changed) yield { seq: ++seq, type: 'file', ...file } satisfies RunEvent;
      yield { seq: ++seq, type: 'end', status } satisfies RunEvent;
    } finally {
      await endBox(ref);
    }
  }

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

  /** Resolves with the events once the box is ready. They have to be read, and the box ends with them. */
  const stream = async (tenant: string, ask: CreateRun, call: RunCall = {}): Promise<AsyncGenerator<RunEvent>> => {
    const { steps, main } = await plan(tenant, ask);
    const { box } = await creation.create(tenant, {
      ...(ask.template !== undefined && { template: ask.template }),
      ...(ask.limits && { limits: ask.limits }),
      ...(ask.network !== undefined && { network: ask.network }),
      ...(ask.packages && { packages: ask.packages }),
      metadata: {},
      // If this gateway dies meanwhile, the reaper soon ends the idle box.
      idleSeconds: strayIdleSeconds,
      files: [...(ask.files ?? []), ...(main ? [main] : [])],
    });
    return runIn(refOf(box), ask, steps, call);
  };

  return {
    stream,

    /** Resolves with the result. */
    whole: async (tenant: string, ask: CreateRun, call?: RunCall): Promise<Run> =>
      toRun(await Array.fromAsync(await stream(tenant, ask, call)), ask.steps !== undefined),
  };
};

export type RunOnce = ReturnType<typeof createRun>;

const toProgram = (ask: CreateRun, { file, argv }: Program): { argv: string[]; main: InlineFile | undefined } => {
  const main = ask.code === undefined ? undefined : { path: file, text: ask.code };
  const first = main?.path ?? ask.files?.[0]?.path ?? file;
  return { argv: [...argv, `./${first}`, ...(ask.args ?? [])], main };
};

/** Leaves out the id by which others could read an event again: its box is gone by then. */
const withoutId = (event: StepEvent): StepEvent => {
  if (event.type !== 'started') return event;
  if ('pid' in event) {
    const { command: _, ...started } = event;
    return started;
  }
  const { execution: _, ...started } = event;
  return started;
};
