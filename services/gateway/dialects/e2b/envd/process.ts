import { z } from 'zod';
import { CodeBoxError, type CommandEvent, type CommandSummary, createCommandSchema } from '#contract';
import { streamAs } from '../../../../http/bodies/stream.ts';
import { openUpload } from '../../../../http/bodies/uploads.ts';
import { orAborted } from '../../../../waiting/or-aborted.ts';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints, RawInput } from '../../../http/endpoint.ts';
import { environmentIn, toBoxPath } from '../paths.ts';
import type { Running } from '../running.ts';
import { acknowledge, messages, readMessage, readMessages } from './connect.ts';
import { createPtys, sizeSchema, toEnd } from './pty.ts';
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
  pty: sizeSchema.nullish(),
});
type Start = z.output<typeof startSchema>['process'];

/** Converts the command line for a login shell, which E2B's clients send, to one for the shell of the box. */
const toCommand = ({ cmd, args }: Start) => {
  const [first, second, line, ...more] = args;
  const isLine = cmd === '/bin/bash' && first === '-l' && second === '-c' && more.length === 0 && line !== undefined;
  return isLine && line !== '' ? { command: line } : { argv: [cmd, ...args] };
};

/** The command that E2B's clients start in a terminal. */
const shell = ['/bin/bash', '-i', '-l'];

const requireShell = ({ cmd, args }: Start): void => {
  if ([cmd, ...args].join(' ') === shell.join(' ')) return;
  throw new CodeBoxError('invalid_request', `A terminal runs ${shell.join(' ')}: start other programs there.`);
};

const toEvent = (event: CommandEvent): object | undefined => {
  if (event.type === 'started') return { start: { pid: event.pid } };
  if (event.type === 'stdout' || event.type === 'stderr')
    return { data: { [event.type]: Buffer.from(event.text).toString('base64') } };
  if (event.type === 'truncated')
    return {
      data: { stderr: Buffer.from(`[${event.droppedBytes} bytes of output were dropped]\n`).toString('base64') },
    };
  return event.type === 'done' ? { end: toEnd(event, event.cause?.detail) } : undefined;
};

/** The calls on processes of E2B's daemon. */
export const addProcessRoutes = (
  endpoints: Endpoints,
  { commands, terminals, stopping }: Pick<RouteParts, 'commands' | 'terminals' | 'stopping'>,
  running: Running,
): void => {
  const { addRaw } = endpoints;
  const ptys = createPtys(terminals);

  /** Throws when the sandbox has ended, so that clients do not mistake that for the end of the process. */
  async function* toMessages(c: RawInput<unknown>['c'], events: AsyncIterable<CommandEvent>): AsyncGenerator<object> {
    for await (const event of events) {
      if (event.type === 'done' && event.status === 'timeout')
        throw new CodeBoxError('timeout', 'The process was ended at the deadline of the call.');
      if (event.type === 'done' && (event.status === 'lost' || event.status === 'killed')) await running.check(c);
      const message = toEvent(event);
      if (message) yield { event: message };
    }
  }

  const stream = (c: RawInput<unknown>['c'], events: AsyncGenerator<object>, leave: AbortController) => {
    const onError = (err: unknown) => c.get('log').debug({ err }, 'a stream broke');
    const keepalive = messages.encode({ event: { keepalive: {} } });
    return streamAs(c, { ...messages, ping: keepalive }, { events, leave, stopping, onError });
  };

  /** Finds a running process that has no terminal. */
  const findOrNone = async (ref: BoxRef, pid: number): Promise<CommandSummary | undefined> =>
    (await commands.list(ref)).find((one) => one.pid === pid && one.status === 'running');

  const find = async (ref: BoxRef, pid: number): Promise<CommandSummary> => {
    const found = await findOrNone(ref, pid);
    if (!found) throw new CodeBoxError('not_found', `There is no process with the pid ${pid} that has stdin.`);
    return found;
  };

  const addCall = createUnaryCalls(endpoints, running, { name: 'process.Process', scope: 'run', tag: 'Process' });

  addRaw(
    { ...described, method: 'post', path: '/process.Process/Start', scope: 'run', summary: 'Start a process' },
    async ({ c }) => {
      const { process, stdin, pty } = await readMessage(c, startSchema);
      const ref = await running.of(c);
      const leave = new AbortController();
      const timeoutSeconds = timeoutOf(c.req.header('connect-timeout-ms'));
      const place = {
        env: { ...environmentIn(process.cwd), ...process.envs },
        ...(process.cwd && { cwd: toBoxPath(process.cwd) }),
      };
      if (pty) {
        requireShell(process);
        const ask = { ...place, size: pty.size, timeoutMs: timeoutSeconds * 1000 };
        return stream(c, await ptys.start(ref, ask, leave.signal), leave);
      }
      const ask = { ...toCommand(process), ...place, openStdin: stdin, timeoutSeconds };
      const { events } = await commands.start(ref, ask, leave.signal);
      if (!events) throw new Error('a process that is followed has no events');
      return stream(c, toMessages(c, events), leave);
    },
  );

  addRaw(
    { ...described, method: 'post', path: '/process.Process/Connect', scope: 'run', summary: 'Follow a process' },
    async ({ c }) => {
      const { process } = await readMessage(c, selector);
      const ref = await running.of(c);
      const { pid } = process;
      const found = await findOrNone(ref, pid);
      const leave = new AbortController();
      if (!found) return stream(c, await ptys.connect(ref, pid, leave.signal), leave);
      const events = after(pid, commands.events(ref, found.id, found.lastSeq, leave.signal));
      return stream(c, toMessages(c, events), leave);
    },
  );

  addCall('List', 'List the running processes', z.object({}), async (ref) => {
    const [found, shells] = await Promise.all([commands.list(ref), ptys.list(ref)]);
    const alive = found.filter((one) => one.status === 'running' && one.pid !== null);
    const processes = alive.map(({ pid, command, argv, cwd }) => {
      const [cmd, ...args] = argv ?? ['/bin/bash', '-l', '-c', command ?? ''];
      return { pid, config: { cmd, args, envs: {}, cwd } };
    });
    const [cmd, ...args] = shell;
    return {
      processes: [...processes, ...shells.map(({ pid, cwd }) => ({ pid, config: { cmd, args, envs: {}, cwd } }))],
    };
  });

  const bytes = z.base64().max(1_398_104);
  const input = z.union([z.object({ stdin: bytes }), z.object({ pty: bytes })]);
  const write = async (ref: BoxRef, pid: number, keys: z.output<typeof input>): Promise<void> => {
    if ('pty' in keys) await ptys.write(ref, pid, Buffer.from(keys.pty, 'base64'));
    else await commands.input(ref, (await find(ref, pid)).id, { base64: keys.stdin });
  };
  addCall('SendInput', 'Write to a process', selector.extend({ input }), async (ref, ask) => {
    await write(ref, ask.process.pid, ask.input);
    return {};
  });

  const inputEvent = z.object({
    start: selector.optional(),
    data: z.object({ input }).optional(),
  });
  addRaw(
    { ...described, method: 'post', path: '/process.Process/StreamInput', scope: 'run', summary: 'Write in a stream' },
    async ({ c }) => {
      const ref = await running.of(c);
      using upload = openUpload(c);
      const writeAll = async () => {
        let pid: number | undefined;
        const body = upload.body.iterator({ destroyOnReturn: false });
        for await (const { start, data } of readMessages(c, body, inputEvent)) {
          pid ??= start?.process.pid;
          if (data) await write(ref, named(pid), data.input);
        }
        named(pid);
      };
      try {
        await orAborted(writeAll(), upload.signal);
      } catch (error) {
        // The rest of the body must not be read as the next request.
        c.header('Connection', 'close');
        throw error;
      }
      return acknowledge(c);
    },
  );

  addCall(
    'Update',
    'Resize a terminal',
    selector.extend({ pty: sizeSchema }),
    async (ref, { process: { pid }, pty }) => {
      await ptys.resize(ref, pid, pty.size);
      return {};
    },
  );

  addCall('CloseStdin', 'Close stdin', selector, async (ref, { process }) => {
    await commands.input(ref, (await find(ref, process.pid)).id, { eof: true });
    return {};
  });

  const signalSchema = selector.extend({ signal: z.enum(['SIGNAL_SIGTERM', 'SIGNAL_SIGKILL']) });
  addCall('SendSignal', 'End a process', signalSchema, async (ref, { process: { pid } }) => {
    const found = await findOrNone(ref, pid);
    if (found) await commands.kill(ref, found.id);
    else await ptys.end(ref, pid);
    return {};
  });
};

const named = (pid: number | undefined): number => {
  if (pid !== undefined) return pid;
  throw new CodeBoxError('invalid_request', 'The first message has to name the process.');
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
