import type { Context } from 'hono';
import { z } from 'zod';
import {
  CodeBoxError,
  type CommandDone,
  type CommandEvent,
  newPathSchema,
  plainText,
  timeoutSecondsSchema,
} from '#contract';
import { checkInput } from '../../../http/endpoints/endpoint.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import { streamText } from '../../boxes/runs/commands.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import type { Env } from '../../http/env.ts';
import { fileId, type Session, type Sessions } from './sessions.ts';

const defaultSeconds = 300;
/** The longest argument that Linux passes to a program, in bytes. */
const maxArgument = 131_071;
const id = z.string().max(64);

/** The command line of code: each execution is a process of its own, and the code is no file of the session. */
const commandLines: Record<string, (code: string, args: string[]) => string[]> = {
  py: (code, args) => ['python3', '-c', code, ...args],
  js: (code, args) => ['node', '-e', code, '--', ...args],
  ts: (code, args) => {
    const flags = ['--experimental-transform-types', '--disable-warning=ExperimentalWarning'];
    return ['node', ...flags, '--input-type=module-typescript', '-e', code, '--', ...args];
  },
  bash: (code, args) => ['bash', '-c', code, 'bash', ...args],
  r: (code, args) => ['Rscript', '-e', code, ...args],
};

const profileSchema = z.enum(['default', 'stateful']).optional();
const inputSchema = z.object({
  id,
  name: z.string().min(1).max(4096),
  storage_session_id: id.optional(),
  /** Its name in older versions. */
  session_id: id.optional(),
  kind: z.enum(['user', 'agent', 'skill']).optional(),
  resource_id: z.string().max(256).optional(),
  version: z.number().optional(),
});

const execSchema = z.object({
  lang: z.string().max(32),
  code: plainText().refine((code) => Buffer.byteLength(code) <= maxArgument, `must have at most ${maxArgument} bytes`),
  args: z.array(plainText().max(maxArgument)).max(256).default([]),
  session_id: id.nullish(),
  files: z.array(inputSchema).max(200).default([]),
  runtime_session_hint: z.string().min(1).max(1024).optional(),
  timeout: z
    .number()
    .transform((ms) => ms / 1000)
    .pipe(timeoutSecondsSchema)
    .default(defaultSeconds),
});

type Input = z.output<typeof inputSchema>;
type Exec = z.output<typeof execSchema>;

const sessionOf = ({ storage_session_id, session_id }: Input): string => storage_session_id ?? session_id ?? '';
/** The path of an input in the working folder. */
const pathOf = ({ name }: Input, index: number): string =>
  checkInput(newPathSchema, name.replace(/^\/mnt\/data\//, ''), `/files/${index}/name`);

/** `/exec`: a process in the box of a session. */
export const addExecRoute = (
  { add }: Endpoints,
  { commands, files }: Pick<RouteParts, 'commands' | 'files'>,
  sessions: Sessions,
): void => {
  /** Returns where the code runs: in the session that it names or whose files it gets, unless those belong to others too. */
  const openSession = async (c: Context<Env>, tenant: string, body: Exec): Promise<Session> => {
    if (body.runtime_session_hint !== undefined) return await sessions.openHinted(c, tenant, body.runtime_session_hint);
    const own = body.files.find(({ kind }) => kind === undefined || kind === 'user');
    for (const named of [body.session_id ?? '', own ? sessionOf(own) : ''])
      if (await sessions.lookUp(tenant, named)) return await sessions.open(c, tenant, named);
    return await sessions.create(c, tenant);
  };

  /** Copies the inputs that are in other sessions. */
  const copyInputs = async (c: Context<Env>, tenant: string, session: Session, inputs: readonly Input[]) => {
    for (const [index, input] of inputs.entries()) {
      const path = pathOf(input, index);
      const isOwn = sessionOf(input) === session.id;
      if (isOwn && input.id === fileId(path)) continue;
      const from = isOwn ? session.ref : await sessions.find(c, tenant, sessionOf(input));
      const source = await sessions.findFile(from, input.id);
      const opened = await files.open(from, source.path);
      if (opened.kind === 'folder') throw new CodeBoxError('not_found', 'There is no such file in the session.');
      await files.put(session.ref, path, opened.body);
    }
  };

  add(
    {
      method: 'post',
      path: '/librechat/exec',
      scope: 'run',
      summary: 'Run code in a session',
      tag: 'LibreChat',
      body: execSchema,
      bounds: largeJson,
      responses: {},
    },
    async ({ c, tenant, body }) => {
      checkInput(profileSchema, c.req.header('x-codeapi-expected-profile'), '/headers/X-CodeAPI-Expected-Profile');
      const commandLine = Object.hasOwn(commandLines, body.lang) ? commandLines[body.lang] : undefined;
      if (!commandLine)
        throw new CodeBoxError('invalid_request', 'The box does not have this language.', {
          errors: [{ pointer: '/lang', detail: `must be one of ${Object.keys(commandLines).join(', ')}` }],
        });
      const session = await openSession(c, tenant, body);
      await copyInputs(c, tenant, session, body.files);
      const leave = new AbortController();
      const ask = { argv: commandLine(body.code, body.args), timeoutSeconds: body.timeout };
      const { id: command, events } = await commands.start(session.ref, ask, leave.signal);
      // Nobody could read the output later.
      const abandon = () => {
        leave.abort();
        commands.kill(session.ref, command).catch((err: unknown) => c.get('log').debug({ err }, 'a run had ended'));
      };
      c.env?.outgoing?.once('close', abandon);
      const all: CommandEvent[] = [];
      try {
        for await (const event of events ?? []) all.push(event);
      } finally {
        c.env?.outgoing?.off('close', abandon);
      }
      const done = all.at(-1);
      if (done?.type !== 'done') throw new CodeBoxError('unavailable', 'The run ended without its last event.');
      return c.json(toResult(session, body, all, done));
    },
  );
};

const toResult = (
  session: Session,
  { files, runtime_session_hint }: Exec,
  events: CommandEvent[],
  done: CommandDone,
) => {
  const { created = [], modified = [], deleted = [] } = done.files ?? {};
  const changed = new Set([...created, ...modified, ...deleted]);
  const inherited = files
    .map((input, index) => ({ ...input, path: pathOf(input, index) }))
    .filter(({ path }) => !changed.has(path))
    .map(({ path: _path, session_id: _session, ...input }) => ({ ...input, inherited: true as const }));
  const outputs = [...created, ...modified].map((path) => {
    const from = files.find((input, index) => pathOf(input, index) === path);
    return {
      id: fileId(path),
      name: path,
      path: `/mnt/data/${path}`,
      session_id: session.id,
      storage_session_id: session.id,
      ...(from && { modified_from: { id: from.id, storage_session_id: sessionOf(from) } }),
    };
  });
  // A failure of the program itself is in its own output.
  const isOwnFailure = done.status === 'ok' || done.status === 'error';
  const note = isOwnFailure ? '' : `${done.cause?.detail ?? done.status}\n`;
  return {
    session_id: session.id,
    stdout: streamText(events, 'stdout'),
    stderr: `${streamText(events, 'stderr')}${note}`,
    files: [...outputs, ...inherited],
    ...(deleted.length > 0 && { deleted_files: deleted }),
    code: done.exitCode,
    signal: done.signal,
    status: isOwnFailure ? null : done.status,
    message: done.cause?.detail ?? null,
    wall_time: Math.round(done.durationMs),
    ...(runtime_session_hint !== undefined && {
      runtime_session_id: session.id,
      runtime_status:
        session.continuity === 'new' || session.continuity === 'lost' ? ('new' as const) : ('reused' as const),
    }),
  };
};
