import { addAbortListener } from 'node:events';
import { z } from 'zod';
import { CodeBoxError, type CommandEvent, plainText } from '#contract';
import { largeJson } from '../../../json/json-bounds.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { maxArgument, type Places, runSchema, toResult } from './runs.ts';

/** The command line of code: each execution is a process of its own, and the code is not a file of the session. */
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

const execSchema = runSchema.extend({
  lang: z.string().max(32),
  args: z.array(plainText().max(maxArgument)).max(256).default([]),
});

/** `/exec`: a process in the box of a session. */
export const addExecRoute = ({ add }: Endpoints, { commands }: Pick<RouteParts, 'commands'>, places: Places): void => {
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
      const commandLine = Object.hasOwn(commandLines, body.lang) ? commandLines[body.lang] : undefined;
      if (!commandLine)
        throw new CodeBoxError('invalid_request', 'The box does not have this language.', {
          errors: [{ pointer: '/lang', detail: `must be one of ${Object.keys(commandLines).join(', ')}` }],
        });
      const leave = new AbortController();
      c.env?.outgoing?.once('close', () => leave.abort());
      const session = await places.open(c, tenant, body);
      const ask = { argv: commandLine(body.code, body.args), timeoutSeconds: body.timeout };
      let command: string | undefined;
      const { events } = await commands.start(session.ref, ask, undefined, async (id) => {
        command = id;
      });
      const all: CommandEvent[] = [];
      {
        // Nobody could read the output later.
        using _ = addAbortListener(leave.signal, () => {
          if (command === undefined) return;
          commands.kill(session.ref, command).catch((err: unknown) => c.get('log').debug({ err }, 'a run had ended'));
        });
        for await (const event of events ?? []) all.push(event);
      }
      const done = all.at(-1);
      if (done?.type !== 'done') throw new CodeBoxError('unavailable', 'The run ended without its last event.');
      return c.json(toResult(session, body, all, done));
    },
  );
};
