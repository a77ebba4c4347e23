import { constants } from 'node:os';
import { z } from 'zod';
import {
  CodeBoxError,
  type CommandEvent,
  type CommandSummary,
  type CreateCommand,
  createCommandSchema,
  hasCode,
  plainText,
} from '#contract';
import { largeJson } from '../../../json/json-bounds.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { Commands } from '../../boxes/runs/commands.ts';
import { type Homes, toAbsolute } from './homes.ts';
import { listsPorts } from './ports.ts';
import type { Tools } from './tools.ts';

const killSeconds = 10;
/** The longest duration of a command whose end is waited for; others have no limit. */
const longestSeconds = 86_400;
const { env, command } = createCommandSchema.shape;

const wait = z.coerce
  .number()
  .min(0)
  .max(300)
  .optional()
  .meta({ description: 'Seconds to wait for the end of the command. By default the response comes at once.' });
const tail = z.coerce
  .number()
  .int()
  .min(1)
  .optional()
  .meta({ description: 'Return only the last entries of the output, this many.' });
const offset = z.coerce
  .number()
  .int()
  .min(0)
  .default(0)
  .meta({ description: 'Leave out the first entries of the output, this many: `next_offset` of an earlier response.' });
const params = z.object({ process_id: z.string().max(64) });

const executeSchema = z.object({
  command: command.unwrap().meta({ description: 'The command line, for bash.' }),
  cwd: plainText()
    .max(4096)
    .nullish()
    .meta({ description: 'The folder in which it starts; by default the home folder.' }),
  env: env.unwrap().nullish().meta({ description: 'Additional environment variables.' }),
});
const inputSchema = z.object({
  input: z.string().max(1_048_576).meta({ description: 'The text for stdin, with line breaks where they are needed.' }),
});

const statusOf = ({ status }: Pick<CommandSummary, 'status'>): string => {
  if (status === 'running') return 'running';
  return status === 'interrupted' || status === 'killed' ? 'killed' : 'done';
};

/** The exit code; that of a signal is its negative number, as in Python. */
const exitCodeOf = ({ exitCode, signal }: Pick<CommandSummary, 'exitCode' | 'signal'>): number | null => {
  const number = signal === null ? undefined : constants.signals[signal as NodeJS.Signals];
  return number === undefined ? exitCode : -number;
};

type Process = Pick<CommandSummary, 'id' | 'command' | 'argv' | 'status' | 'exitCode' | 'signal'>;

const toProcess = (run: Process) => ({
  id: run.id,
  command: run.command ?? run.argv?.join(' ') ?? '',
  status: statusOf(run),
  exit_code: exitCodeOf(run),
  log_path: null,
});

const toResult = (run: Process & { outputs: readonly CommandEvent[] }, from: number, last: number | undefined) => {
  const all = run.outputs.flatMap((event) =>
    event.type === 'stdout' || event.type === 'stderr' ? [{ type: event.type, data: event.text }] : [],
  );
  const rest = all.slice(from);
  const output = last === undefined ? rest : rest.slice(-last);
  return { ...toProcess(run), output, next_offset: all.length, truncated: output.length < rest.length };
};

/** Models write `\n` and `\x03` where they mean the characters. */
const toCharacters = (text: string): string =>
  text.replaceAll(/\\(?:([nrt\\])|x([0-9a-fA-F]{2}))/g, (_, letter: string | undefined, hex: string) =>
    letter === undefined
      ? String.fromCharCode(Number.parseInt(hex, 16))
      : ({ n: '\n', r: '\r', t: '\t' }[letter] ?? '\\'),
  );

/** `/execute`: commands in the box of a user. They continue after the response has been sent. */
export const addProcessRoutes = ({ add }: Tools, commands: Commands, homes: Homes): void => {
  /** Waits for the end of a command, `seconds` at most. */
  const waitFor = async (ref: BoxRef, id: string, seconds: number): Promise<void> => {
    const late = AbortSignal.timeout(seconds * 1000);
    try {
      for await (const event of commands.events(ref, id, 0, late)) if (event.type === 'done') return;
    } catch (error) {
      if (!late.aborted) throw error;
    }
  };
  const readResult = async (ref: BoxRef, id: string, seconds: number | undefined, from: number, last?: number) => {
    if (seconds !== undefined && seconds > 0) await waitFor(ref, id, seconds);
    return toResult(await commands.readWhole(ref, id), from, last);
  };

  /** Starts a command and waits for its end, `seconds` at most. The end comes with the response of the box to the start. */
  const runFor = async (ref: BoxRef, seconds: number, ask: CreateCommand & { command: string }, last?: number) => {
    const leave = new AbortController();
    const whole = { ...ask, openStdin: true, timeoutSeconds: longestSeconds };
    const { id, events } = await commands.start(ref, whole, leave.signal);
    const late = setTimeout(() => leave.abort(), seconds * 1000);
    const outputs: CommandEvent[] = [];
    try {
      for await (const event of events ?? []) outputs.push(event);
    } catch (error) {
      if (!leave.signal.aborted) throw error;
    } finally {
      clearTimeout(late);
    }
    const done = outputs.at(-1);
    if (done?.type !== 'done') return await readResult(ref, id, undefined, 0, last);
    return toResult({ ...done, id, command: ask.command, argv: null, outputs }, 0, last);
  };

  add(
    {
      name: 'run_command',
      method: 'post',
      path: '/openterminal/execute',
      scope: 'run',
      summary: 'Run a command',
      description: 'Runs a command line in the background. `wait` returns its output once it has ended.',
      query: z.object({ wait, tail }),
      body: executeSchema,
      bounds: largeJson,
    },
    async ({ c, tenant, query, body }) => {
      const ref = await homes.of(c, tenant);
      const cwd = toAbsolute(body.cwd ?? '');
      const ask = { command: body.command, cwd, ...(body.env && { env: body.env }) };
      if (query.wait) return c.json({ ...(await runFor(ref, query.wait, ask, query.tail)), cwd });
      const { id } = await commands.start(ref, { ...ask, detach: true });
      return c.json({ ...(await readResult(ref, id, undefined, 0, query.tail)), cwd });
    },
  );

  add(
    {
      name: 'list_processes',
      method: 'get',
      path: '/openterminal/execute',
      scope: 'run',
      summary: 'List commands',
      description: 'Lists the commands of the user, with those that have ended.',
    },
    async ({ c, tenant }) => {
      const ref = await homes.lookUp(c, tenant);
      return c.json(ref ? (await commands.list(ref)).filter((run) => !listsPorts(run)).map(toProcess) : []);
    },
  );

  add(
    {
      name: 'get_process_status',
      method: 'get',
      path: '/openterminal/execute/{process_id}/status',
      scope: 'run',
      summary: 'Read the status and the output of a command',
      description: 'Returns the output of a command after `offset`, its status and its exit code.',
      params,
      query: z.object({ wait, offset, tail }),
    },
    async ({ c, tenant, params: { process_id: id }, query }) =>
      c.json(await readResult(await homes.find(c, tenant), id, query.wait, query.offset, query.tail)),
  );

  add(
    {
      name: 'send_process_input',
      method: 'post',
      path: '/openterminal/execute/{process_id}/input',
      scope: 'run',
      summary: 'Send input to a command',
      description: 'Writes text to the stdin of a running command.',
      params,
      body: inputSchema,
      bounds: largeJson,
    },
    async ({ c, tenant, params: { process_id: id }, body }) => {
      await commands
        .input(await homes.find(c, tenant), id, { text: toCharacters(body.input) })
        .catch((cause: unknown) => {
          if (!hasCode(cause, 'conflict')) throw cause;
          throw new CodeBoxError('invalid_request', 'Process has already exited, or its stdin is closed', { cause });
        });
      return c.json({ status: 'ok' });
    },
  );

  add(
    {
      name: 'kill_process',
      method: 'delete',
      path: '/openterminal/execute/{process_id}',
      scope: 'run',
      summary: 'End a command',
      description: 'Ends a command: SIGTERM, then SIGKILL after 2 seconds.',
      params,
      query: z.object({ force: z.enum(['true', 'false']).optional() }),
    },
    async ({ c, tenant, params: { process_id: id } }) => {
      const ref = await homes.find(c, tenant);
      await commands.read(ref, id);
      await commands.kill(ref, id).catch((error: unknown) => {
        // The process has already ended.
        if (!hasCode(error, 'conflict')) throw error;
      });
      await waitFor(ref, id, killSeconds);
      return c.json({ status: 'killed' });
    },
  );
};
