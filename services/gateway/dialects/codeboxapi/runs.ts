import { CodeBoxError, packageSpecsSchema } from '#contract';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import type { RunEvent } from './outputs.ts';

export interface RunRequest {
  code: string;
  kernel: 'ipython' | 'bash';
  /** Relative to the working folder, or absolute. */
  cwd?: string | null | undefined;
  timeoutSeconds: number;
}

type Events = AsyncGenerator<RunEvent>;

const language = 'python';
/** Code that restarts the kernel. */
export const restartCode = '%restart';
/** The commands that the client's `install` and `list_packages` run. */
const installer = /^uv pip install (.+)$/;
const lister = "uv pip list | tail -n +3 | cut -d ' ' -f 1";
const longestLine = 65_536;
const longestReason = 1500;
const mostPackages = 1000;

/**
 * Runs code as the reference server does: cells share a kernel, while a shell command shares nothing with others. A run ends when its reader
 * leaves, because nobody could read its output later.
 */
export const createRuns = (parts: Pick<RouteParts, 'executions' | 'commands' | 'contexts' | 'packages'>) => {
  const { executions, commands, contexts, packages } = parts;

  const startCell = async (ref: BoxRef, request: RunRequest, leave: AbortSignal): Promise<Events> => {
    const { code, cwd, timeoutSeconds } = request;
    const ask = { code, language, timeoutSeconds, isLong: true, ...(cwd && { cwd }) };
    const { row, events } = await executions.start(ref, ask, leave);
    const interrupt = () => executions.interrupt(ref, row.id).catch(ignoreRefusal);
    leave.addEventListener('abort', interrupt, { once: true });
    return withoutInput(events, interrupt);
  };

  const startCommand = async (ref: BoxRef, request: RunRequest, leave: AbortSignal): Promise<Events> => {
    const { code, cwd, timeoutSeconds } = request;
    const ask = { command: code || ':', timeoutSeconds, ...(cwd && { cwd }) };
    const { id, events } = await commands.start(ref, ask, leave);
    leave.addEventListener('abort', () => commands.kill(ref, id).catch(ignoreRefusal), { once: true });
    return inLines(events);
  };

  /** Replaces the kernel: variables are gone, files stay. */
  const restart = async (ref: BoxRef): Promise<void> => {
    const kernels = await contexts.list(ref);
    const kernel = kernels.find((context) => context.default && context.language === language);
    if (kernel) await contexts.restart(ref, kernel.id);
  };

  const startInstallation = async (ref: BoxRef, names: string[], leave: AbortSignal): Promise<Events> =>
    replay((await packages.install(ref, { packages: names }, leave)).events);

  const listPackages = async (ref: BoxRef): Promise<Events> => {
    const { items } = await packages.list(ref, { manager: 'pip', limit: mostPackages });
    const text = items.map(({ name }) => `${name}\n`).join('');
    return replay([{ type: 'stdout', seq: 1, text }]);
  };

  return {
    restart,

    /** Installs packages. Throws `invalid_request` with the end of the installer's output when that fails. */
    async install(ref: BoxRef, names: string[]): Promise<void> {
      let output = '';
      for await (const event of await startInstallation(ref, names, new AbortController().signal)) {
        if ('text' in event) output = (output + event.text).slice(-longestReason);
        if (event.type === 'done' && event.status !== 'ok')
          throw new CodeBoxError('invalid_request', `The packages could not be installed: ${output.trim()}`);
      }
    },

    /** Starts a run and returns its events. Calls that are not user code go to their own use cases. */
    async start(ref: BoxRef, request: RunRequest, leave: AbortSignal): Promise<Events> {
      const { code, kernel } = request;
      if (kernel === 'bash') {
        if (code === lister) return await listPackages(ref);
        const names = packageSpecsSchema.safeParse(installer.exec(code)?.[1]?.split(/\s+/));
        return names.success
          ? await startInstallation(ref, names.data, leave)
          : await startCommand(ref, request, leave);
      }
      if (code.trim() === restartCode) {
        await restart(ref);
        return replay([]);
      }
      const events = await startCell(ref, request, leave);
      return code.trim() === '%who' ? namesOnly(events) : events;
    },
  };
};

/** Ignores the error of a run that has already ended. */
const ignoreRefusal = (error: unknown): void => {
  if (!(error instanceof CodeBoxError)) throw error;
};

async function* replay(events: AsyncIterable<RunEvent> | readonly RunEvent[] = []): Events {
  yield* events;
}

/** Interrupts a cell that asks for input. */
async function* withoutInput(events: AsyncIterable<RunEvent> | undefined, interrupt: () => Promise<void>): Events {
  for await (const event of events ?? []) {
    yield event;
    if (event.type === 'input_request') await interrupt();
  }
}

/** Drops the notice that there are no variables, which the client would parse as names. */
async function* namesOnly(events: Events): Events {
  for await (const event of events)
    if (event.type !== 'stdout' || !event.text.startsWith('Interactive namespace is empty')) yield event;
}

/** Passes output on by whole lines, as pipes do, because callers count chunks. */
async function* inLines(events: AsyncIterable<RunEvent> | undefined): Events {
  let held = '';
  for await (const event of events ?? []) {
    if (event.type !== 'stdout') {
      if (event.type === 'done' && held !== '') yield { type: 'stdout', seq: event.seq, text: held };
      yield event;
      continue;
    }
    const text = held + event.text;
    const end = text.length > longestLine ? text.length : text.lastIndexOf('\n') + 1;
    held = text.slice(end);
    if (end > 0) yield { ...event, text: text.slice(0, end) };
  }
}
