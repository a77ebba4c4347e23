import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { CodeBoxError } from '#contract';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import { type Env, noteBox } from '../../http/env.ts';
import type { Surface } from '../../http/surface.ts';
import { type Address, ownPorts, readAddress, toBoxId, toSandboxId } from './address.ts';
import { isPaused, pausesItself } from './control/sandbox.ts';
import { failedCall, isRpc } from './envd/connect.ts';
import { messageOf, respondWith } from './errors.ts';
import { readSigned, type Signatures } from './signatures.ts';
import type { Tokens } from './tokens.ts';

export interface DataOptions {
  tokens: Tokens;
  signatures: Signatures;
  /** The domain below which the ports of sandboxes have hosts. */
  domain: string;
}

/**
 * Serves requests to the inside of a sandbox: to the daemon for files and processes, the code interpreter, and the servers of its
 * programs. Headers or the host of a request name the sandbox and the port. Clients send a token of the sandbox instead of the key.
 */
export const createDataSurface = ({ tokens, signatures, domain }: DataOptions): Surface => ({
  claims: { request: (incoming) => addressIn(incoming, domain) !== undefined },
  isForPages: true,
  credentialOf(c) {
    const { sandbox, port } = addressOf(c, domain);
    const incoming = c.env?.incoming;
    const signed = incoming && port === ownPorts.envd ? readSigned(incoming) : undefined;
    if (signed && incoming)
      return {
        find: async () => {
          const maker = await signatures.find(signed, sandbox);
          if (maker) named.set(incoming, toSandboxId(maker.box));
          return maker;
        },
      };
    // Clients send this token to every port except that of the daemon, where it must not grant everything.
    const traffic = port === ownPorts.envd ? undefined : c.req.header('e2b-traffic-access-token');
    const maker =
      tokens.read('envd', c.req.header('x-access-token'), sandbox) ?? tokens.read('traffic', traffic, sandbox);
    return maker && { maker };
  },
  needed: () => 'unauthorized access, please provide a valid access token or method signing if supported',
  respond(c, error) {
    const { sandbox, port } = addressOf(c, domain);
    // Clients recognise by the status 502 that a sandbox does not run.
    if (error.code === 'gone')
      return c.json({ sandboxId: sandbox, message: 'The sandbox was not found', code: 502 }, 502);
    if (port === ownPorts.envd && isRpc(c)) return failedCall(c, error);
    const { status } = problemKinds[error.code];
    if (port === ownPorts.envd) return respondWith(c, error.code === 'conflict' ? 400 : status, error);
    if (port !== ownPorts.interpreter)
      return c.json({ sandboxId: sandbox, port, message: messageOf(error), code: status }, status);
    setRetryAfter(c, error);
    return c.text(messageOf(error), status);
  },
  readTarget(incoming) {
    const { sandbox, port } = addressIn(incoming, domain) ?? { sandbox: '', port: 0 };
    const isOwn = port === ownPorts.envd || port === ownPorts.interpreter;
    const box = toBoxId(sandbox);
    if (isOwn || port === 0 || box === undefined) return undefined;
    return { box, port, path: incoming.url ?? '/', prefix: '', isUnslashed: false };
  },
});

/** The sandboxes of requests that name them by a signature only. */
const named = new WeakMap<IncomingMessage, string>();

/** A browser asks whether a page may name a sandbox by headers before it sends those. */
const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' && headers['access-control-request-headers']?.toLowerCase().includes('e2b-sandbox-id') === true;

const addressIn = (incoming: IncomingMessage, domain: string): Address | undefined =>
  readAddress(incoming, domain) ??
  (readSigned(incoming) || isPreflight(incoming)
    ? { sandbox: named.get(incoming) ?? '', port: ownPorts.envd }
    : undefined);

const addressOf = (c: Context<Env>, domain: string): Address =>
  (c.env?.incoming && addressIn(c.env.incoming, domain)) ?? { sandbox: '', port: 0 };

/** Finds the running sandbox that a request names. Throws `gone` for one that does not run. */
export const createRunning = (directory: Pick<RouteParts['directory'], 'find' | 'cached'>, domain: string) => {
  const read = async (ref: BoxRef) => {
    const row = await directory.find(ref).catch(() => undefined);
    // The sweep that ends boxes comes some seconds after their time.
    const hasEnded = row === undefined || row.endedAt !== null || row.expiresAt.getTime() <= Date.now();
    if (hasEnded || (isPaused(row) && !pausesItself(row))) throw new CodeBoxError('gone', 'The sandbox was not found');
    return row;
  };

  return {
    /** Returns the box of the request. A sandbox that has paused itself counts as running, because its use resumes it. */
    async of(c: Context<Env>): Promise<BoxRef> {
      const ref = { tenant: c.get('tenant'), box: toBoxId(addressOf(c, domain).sandbox) ?? '' };
      noteBox(c, ref.box);
      if (!directory.cached(ref)) await read(ref);
      return ref;
    },

    /** Throws unless the sandbox of the request runs now. The check does not count as use. */
    async check(c: Context<Env>): Promise<void> {
      const ref = { tenant: c.get('tenant'), box: toBoxId(addressOf(c, domain).sandbox) ?? '' };
      noteBox(c, ref.box);
      if (isPaused(await read(ref))) throw new CodeBoxError('gone', 'The sandbox was not found');
    },
  };
};

export type Running = ReturnType<typeof createRunning>;
