import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import type { CodeBoxError } from '#contract';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Dialect } from '../../http/app.ts';
import type { Env } from '../../http/env.ts';
import { clientHasLeft } from '../../http/routes/runs/run.ts';
import type { Surface } from '../../http/surface.ts';
import { executionSchema, toCreateRun, toResult } from './execution.ts';
import { createRuntimes } from './runtimes.ts';

/** All paths of Piston, also those that are not served: its clients expect its errors there. */
const paths = /^\/api\/v2\/(?:piston\/)?(?:execute|runtimes|packages|connect)(?:[/?]|$)/;
const described = { scope: 'run', tag: 'Piston', responses: {} } as const;

/** The key alone, as clients of the public server send theirs; also as Bearer, or as the password of a URL. */
const keyOf = (c: Context<Env>): string | undefined => {
  const [, scheme, text] = /^(?:(\w+) +)?(\S+)$/.exec(c.req.header('authorization') ?? '') ?? [];
  if (text === undefined || scheme?.toLowerCase() !== 'basic') return text;
  return Buffer.from(text, 'base64')
    .toString()
    .replace(/^[^:]*:/, '');
};

/** Converts `/files/0/name` to `files[0].name`. */
const toField = (pointer: string): string =>
  pointer
    .slice(1)
    .replaceAll(/\/(\d+)/g, '[$1]')
    .replaceAll('/', '.');

const messageOf = ({ message, errors }: CodeBoxError): string =>
  errors.length === 0
    ? message
    : errors.map(({ pointer, detail }) => `${toField(pointer) || 'The body'} ${detail}`).join('; ');

const surface: Surface = {
  claims: { request: ({ url = '' }: IncomingMessage) => paths.test(url) },
  credentialOf(c) {
    const key = keyOf(c);
    return key === undefined ? undefined : { key };
  },
  needed: () => 'A key of CodeBox is needed: Authorization: cbx_…',
  respond(c, error) {
    setRetryAfter(c, error);
    return c.json({ message: messageOf(error) }, problemKinds[error.code].status);
  },
};

/** Piston's API: each execution is a run in a fresh box. */
export const piston: readonly Dialect[] = [
  {
    surface,
    addRoutes({ add }, { catalog, run }) {
      const runtimes = createRuntimes({ catalog, run });
      for (const prefix of ['/api/v2', '/api/v2/piston']) {
        add(
          { ...described, method: 'get', path: `${prefix}/runtimes`, summary: 'List the runtimes' },
          async ({ c, tenant }) => c.json(await runtimes.list(tenant)),
        );

        add(
          {
            ...described,
            method: 'post',
            path: `${prefix}/execute`,
            summary: 'Run a program',
            body: executionSchema,
            bounds: largeJson,
          },
          async ({ c, tenant, body }) => {
            const leave = new AbortController();
            c.env?.outgoing?.once('close', () => leave.abort(clientHasLeft()));
            const { language, version } = await runtimes.find(tenant, body.language, body.version);
            const program = toCreateRun(body, runtimes.programOf(language));
            const result = toResult(await run(tenant, program, { leave: leave.signal }));
            return c.json({ run: result, language, version });
          },
        );
      }
    },
  },
];
