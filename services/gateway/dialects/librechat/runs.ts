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
import { streamText } from '../../boxes/runs/commands.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Env } from '../../http/env.ts';
import { fileId, isShared, type Session, type Sessions } from './sessions.ts';

const defaultSeconds = 300;
/** The longest argument that Linux passes to a program, in bytes. */
export const maxArgument = 131_071;
const id = z.string().max(64);
const profileSchema = z.enum(['default', 'stateful']).optional();

export const inputSchema = z.object({
  id,
  name: z.string().min(1).max(4096),
  storage_session_id: id.optional(),
  /** Its name in older versions. */
  session_id: id.optional(),
  kind: z.enum(['user', 'agent', 'skill']).optional(),
  resource_id: plainText().max(256).optional(),
  version: z.number().optional(),
});

/** Code, where it runs, and with which files. */
export const runSchema = z.object({
  code: plainText().refine((code) => Buffer.byteLength(code) <= maxArgument, `must have at most ${maxArgument} bytes`),
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
type Run = z.output<typeof runSchema>;

const sessionOf = ({ storage_session_id, session_id }: Input): string => storage_session_id ?? session_id ?? '';
/** The user whom an input names; with a token, the user of that. Without an owner of the file, LibreChat repeats the id of the file. */
const userOf = (c: Context<Env>, { kind, resource_id, id }: Input): string | undefined =>
  c.get('endUser') ?? (kind === 'user' && resource_id !== id ? resource_id || undefined : undefined);
/** The path of an input in the working folder. */
const pathOf = ({ name }: Input, index: number): string =>
  checkInput(newPathSchema, name.replace(/^\/mnt\/data\//, ''), `/files/${index}/name`);

/** Where code runs. */
export const createPlaces = ({ files }: Pick<RouteParts, 'files'>, sessions: Sessions) => {
  /** Returns where the code runs: in the session that it names or whose files it gets, unless those belong to others too. */
  const openSession = async (c: Context<Env>, tenant: string, body: Run): Promise<Session> => {
    const own = body.files.find(({ kind }) => !isShared(kind));
    const user = own ? userOf(c, own) : c.get('endUser');
    const hint = body.runtime_session_hint;
    if (hint !== undefined) return await sessions.openHinted(c, tenant, hint, user);
    // Code in a session that is shared could change the files of all.
    for (const named of [body.session_id ?? '', own ? sessionOf(own) : ''])
      if ((await sessions.lookUp(tenant, named, user))?.isShared === false)
        return await sessions.open(c, tenant, named, user);
    return await sessions.create(c, tenant, user);
  };

  /** Copies the inputs that are in other sessions. */
  const copyInputs = async (c: Context<Env>, tenant: string, session: Session, inputs: readonly Input[]) => {
    for (const [index, input] of inputs.entries()) {
      const path = pathOf(input, index);
      const isOwn = sessionOf(input) === session.id;
      if (isOwn && input.id === fileId(path)) continue;
      const from = isOwn ? session.ref : await sessions.find(c, tenant, sessionOf(input), userOf(c, input));
      const source = await sessions.findFile(from, input.id);
      const opened = await files.open(from, source.path);
      if (opened.kind === 'folder') throw new CodeBoxError('not_found', 'There is no such file in the session.');
      await files.put(session.ref, path, opened.body);
    }
  };

  return {
    /** Returns the session in which code runs, with its inputs. */
    async open(c: Context<Env>, tenant: string, body: Run): Promise<Session> {
      checkInput(profileSchema, c.req.header('x-codeapi-expected-profile'), '/headers/X-CodeAPI-Expected-Profile');
      // Checked before a session is created that nobody would use.
      body.files.forEach(pathOf);
      for (const input of body.files) await sessions.find(c, tenant, sessionOf(input), userOf(c, input));
      const session = await openSession(c, tenant, body);
      await copyInputs(c, tenant, session, body.files);
      return session;
    },
  };
};

export type Places = ReturnType<typeof createPlaces>;

/** Renders the end of a run. */
export const toResult = (
  session: Pick<Session, 'id' | 'continuity'>,
  { files, runtime_session_hint }: Pick<Run, 'files' | 'runtime_session_hint'>,
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
