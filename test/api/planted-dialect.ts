import { setTimeout as sleep } from 'node:timers/promises';
import type { Context } from 'hono';
import { z } from 'zod';
import { CodeBoxError, type ExecutionEvent } from '#contract';
import type { Dialect } from '../../services/gateway/http/app.ts';
import type { Env } from '../../services/gateway/http/env.ts';
import type { Surface } from '../../services/gateway/http/surface.ts';
import { type StreamWire, streamAs } from '../../services/http/bodies/stream.ts';
import { toProblem } from '../../services/http/problems/problem.ts';

/** The id of a box and a key in the format of the planted dialect. */
export const plantedId = (box: string): string => box.replace(/^box-/, '');
export const plantedKey = (key: string): string => `pl_${Buffer.from(key).toString('hex')}`;

/** Frames of a kind, a length and a payload. */
export const frame = (kind: number, payload: string): Uint8Array => {
  const bytes = Buffer.from(payload);
  return Uint8Array.from([kind, bytes.length, ...bytes]);
};

const wire: StreamWire<ExecutionEvent> = {
  type: 'application/planted',
  encode: (event) => frame(0, event.type === 'stdout' ? event.text : event.type),
  end: () => frame(2, ''),
  fail: (error) => frame(2, error.code),
};

const conventions = {
  credentialOf: (c: Context<Env>) => {
    const [, hex] = /^pl_([0-9a-f]+)$/.exec(c.req.header('planted-key') ?? '') ?? [];
    return hex === undefined ? undefined : { key: Buffer.from(hex, 'hex').toString() };
  },
  needed: () => 'Send Planted-Key.',
  respond: (c: Context<Env>, error: CodeBoxError) =>
    c.json({ oops: error.code, text: error.message }, toProblem(error, '').status as 400),
  toBox: (text: string) => (/^[a-z2-7]+$/.test(text) ? `box-${text}` : undefined),
} satisfies Omit<Surface, 'claims'>;

const params = z.object({ box: z.string() });
const described = { summary: 'Planted', tag: 'Planted', responses: {} };

/** A small dialect below a path prefix. */
export const plantedPaths: Dialect = {
  surface: { ...conventions, claims: { prefix: '/planted' } },
  addRoutes({ add, addRaw }, { executions, directory, stopping }) {
    add({ ...described, method: 'get', path: '/planted/health', scope: 'public' }, ({ c }) => c.text('well'));

    add(
      { ...described, method: 'get', path: '/planted/boxes/{box}', scope: 'boxes:read', params },
      async ({ c, tenant, params: { box } }) => {
        const { id, state } = await directory.find({ tenant, box });
        return c.json({ id: plantedId(id), state });
      },
    );

    // The request body is the code, and `?then=fault` makes its stream fail.
    addRaw(
      { ...described, method: 'post', path: '/planted/boxes/{box}/run', scope: 'run', params },
      async ({ c, tenant, params: { box }, incoming }) => {
        let code = '';
        for await (const chunk of incoming.setEncoding('utf8')) code += chunk;
        const leave = new AbortController();
        const { events } = await executions.start({ tenant, box }, { code }, leave.signal);
        const breaks = incoming.url?.endsWith('?then=fault') ?? false;
        const onError = (err: unknown) => c.get('log').info({ err }, 'planted');
        return streamAs(c, wire, { events: broken(events, breaks), leave, stopping, onError });
      },
    );
  },
};

async function* broken(events: AsyncIterable<ExecutionEvent> | undefined, breaks: boolean) {
  for await (const event of events ?? []) {
    if (event.type !== 'stdout') continue;
    yield event;
    if (breaks) throw new CodeBoxError('gone', 'The box has ended.');
  }
}

const domain = 'planted.test';
const ownPort = '49999';
const label = /^(\d+)-([a-z2-7]+)\./;
const hostOf = (host = '') => host.toLowerCase().replace(/:\d*$/, '');

/** The same dialect by hosts: the gateway serves one port of each box, and servers in the box all others. */
export const plantedHosts: Dialect = {
  surface: {
    ...conventions,
    claims: { request: ({ headers }) => hostOf(headers.host).endsWith(`.${domain}`) },
    readTarget({ headers, url }) {
      const [, port, id] = label.exec(hostOf(headers.host)) ?? [];
      if (port === undefined || id === undefined || port === ownPort) return undefined;
      return { box: `box-${id}`, port: Number(port), path: url ?? '/', prefix: '', isUnslashed: false };
    },
  },
  addRoutes({ add }) {
    add({ ...described, method: 'get', path: '/metrics', scope: 'any' }, async ({ c }) => {
      await sleep(0);
      return c.text(`own metrics for ${c.req.header('host')}`);
    });
  },
};
