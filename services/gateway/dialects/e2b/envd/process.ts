import { z } from 'zod';
import { CodeBoxError, type CommandEvent, type CommandSummary, createCommandSchema } from '#contract';
import { streamAs } from '../../../../http/bodies/stream.ts';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints, RawInput } from '../../../http/endpoint.ts';
import type { Running } from '../data.ts';
import { toBoxPath } from '../paths.ts';
import { messages, readMessage } from './connect.ts';
import { createUnaryCalls } from './unary.ts';

const described = { tag: 'Process', responses: {} };
/** The longest time that a process may run. */
const maxSeconds = 86_400;

const selector = z.object({ process: z.object({ pid: z.int().min(1) }) });
const startSchema = z.object({
  process: z.object({
    cmd: z.string().min(1).max(4096),
    args: z.array(z.string()).max(1000).default([]),
    envs: createCommandSchema.shape.env.nullish(),
    cwd: z.string().max(4096).nullish(),
  }),
  stdin: z.boolean().default(true),
  pty: z.undefined({ error: 'is not supported' }).nullish(),
});
type Start = z.output<typeof startSchema>['process'];

/** A command line for a login shell, which E2B's clients send, is one for the shell of the box. */
const toCommand = ({ cmd, args }: Start) => {
  const [first, second, line, ...more] = args;
  const isLine = cmd === '/bin/bash' && first === '-l' && second === '-c' && more.length === 0 && line !== undefined;
  return isLine && line !== '' ? { command: line } : { argv: [cmd, ...args] };
};

/** Clients mean a folder of the box by an absolute path outside the home folder. */
const toFolder = (cwd: string): string => {
  try {
    return toBoxPath(cwd);
  } catch (error) {
    if (cwd.startsWith('/')) return cwd;
    throw error;
  }
};

const toEvent = (event: CommandEvent): object | undefined => {
  if (event.type === 'started') return { start: { pid: event.pid } };
  if (event.type === 'stdout' || event.type === 'stderr')
    return { data: { [event.type]: Buffer.from(event.text).toString('base64') } };
  if (event.type === 'truncated')
    return {
      data: { stderr: Buffer.from(`[${event.droppedBytes} bytes of output were dropped]\n`).toString('base64') },
    };
  const { exitCode, signal, cause } = event;
  if (exitCode !== null)
    return {
      end: {
        exitCode,
        exited: true,
        status: `exit status ${exitCode}`,
        ...(exitCode !== 0 && { error: `exit status ${exitCode}` }),
      },
    };
  const status = `signal: ${signal ?? 'killed'}`;
  return { end: { exitCode: -1, exited: false, status, error: cause?.detail ?? status } };
};

/** The calls on processes of E2B's daemon. */
export const addProcessRoutes = (
  endpoints: Endpoints,
  { commands, stopping }: Pick<RouteParts, 'commands' | 'stopping'>,
  running: Running,
): void => {
  const { addRaw } = endpoints;

  /** Throws when the sandbox has ended, so that clients do not take that for the end of the process. */
  async function* toMessages(c: RawInput<unknown>['c'], events: AsyncIterable<CommandEvent>): AsyncGenerator<object> {
    for await (const event of events) {
      if (event.type === 'done' && event.status === 'timeout')
        throw new CodeBoxError('timeout', 'The process was ended at the deadline of the call.');
      if (event.type === 'done' && (event.status === 'lost' || event.status === 'killed')) await running.check(c);
      const message = toEvent(event);
      if (message) yield { event: message };
    }
  }

  const stream = (c: RawInput<unknown>['c'], events: AsyncGenerator<CommandEvent>, leave: AbortController) => {
    const onError = (err: unknown) => c.get('log').debug({ err }, 'a stream broke');
    const keepalive = messages.encode({ event: { keepalive: {} } });
    return streamAs(c, { ...messages, ping: keepalive }, { events: toMessages(c, events), leave, stopping, onError });
  };

  /** Finds a running process. Throws `not_found`. */
  const find = async (ref: BoxRef, pid: number): Promise<CommandSummary> => {
    const found = (await commands.list(ref)).find((one) => one.pid === pid && one.status === 'running');
    if (!found) throw new CodeBoxError('not_found', `There is no process with the pid ${pid}.`);
    return found;
  };

  const addCall = createUnaryCalls(endpoints, running, { name: 'process.Process', scope: 'run', tag: 'Process' });

  addRaw(
    { ...described, method: 'post', path: '/process.Process/Start', scope: 'run', summary: 'Start a process' },
    async ({ c }) => {
      const { process, stdin } = await readMessage(c, startSchema);
      const ref = await running.of(c);
      const leave = new AbortController();
      const ask = {
        ...toCommand(process),
        ...(process.envs && { env: process.envs }),
        ...(process.cwd && { cwd: toFolder(process.cwd) }),
        openStdin: stdin,
        timeoutSeconds: timeoutOf(c.req.header('connect-timeout-ms')),
      };
      const { events } = await commands.start(ref, ask, leave.signal);
      if (!events) throw new Error('a process that is followed has no events');
      return stream(c, events, leave);
    },
  );

  addRaw(
    { ...described, method: 'post', path: '/process.Process/Connect', scope: 'run', summary: 'Follow a process' },
    async ({ c }) => {
      const { process } = await readMessage(c, selector);
      const ref = await running.of(c);
      const { id, lastSeq } = await find(ref, process.pid);
      const leave = new AbortController();
      return stream(c, after(process.pid, commands.events(ref, id, lastSeq, leave.signal)), leave);
    },
  );

  addCall('List', 'List the running processes', z.object({}), async (ref) => {
    const found = (await commands.list(ref)).filter((one) => one.status === 'running' && one.pid !== null);
    return {
      processes: found.map(({ pid, command, argv, cwd }) => {
        const [cmd, ...args] = argv ?? ['/bin/bash', '-l', '-c', command ?? ''];
        return { pid, config: { cmd, args, envs: {}, cwd } };
      }),
    };
  });

  const inputSchema = selector.extend({ input: z.object({ stdin: z.base64().max(1_398_104) }) });
  addCall('SendInput', 'Write to stdin', inputSchema, async (ref, { process, input }) => {
    await commands.input(ref, (await find(ref, process.pid)).id, { base64: input.stdin });
    return {};
  });

  addCall('CloseStdin', 'Close stdin', selector, async (ref, { process }) => {
    await commands.input(ref, (await find(ref, process.pid)).id, { eof: true });
    return {};
  });

  const signalSchema = selector.extend({ signal: z.enum(['SIGNAL_SIGTERM', 'SIGNAL_SIGKILL']) });
  addCall('SendSignal', 'End a process', signalSchema, async (ref, { process }) => {
    await commands.kill(ref, (await find(ref, process.pid)).id);
    return {};
  });
};

/** The time limit of a call is that of the process, even if the client leaves; 0 stands for none. */
const timeoutOf = (header: string | undefined): number => {
  const ms = /^\d{1,10}$/.test(header ?? '') ? Number(header) : 0;
  return ms === 0 ? maxSeconds : Math.min(Math.max(ms / 1000, 0.1), maxSeconds);
};

/** The events of a process from now on, preceded by its start as in those of a new process. */
async function* after(pid: number, events: AsyncGenerator<CommandEvent>): AsyncGenerator<CommandEvent> {
  yield { seq: 1, type: 'started', pid };
  yield* events;
}
