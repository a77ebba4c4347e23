import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { CodeBoxError, hasCode } from '#contract';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import { ClosedPort } from '../../boxes/reach/ports.ts';
import type { Env } from '../../http/env.ts';
import type { Surface } from '../../http/surface.ts';
import { type Address, ownPorts, readAddress, toBoxId, toSandboxId } from './address.ts';
import { closedPortPage } from './closed-port.ts';
import { failedCall, isRpc } from './envd/connect.ts';
import { messageOf, respondWith } from './errors.ts';
import type { OpenPorts } from './open-ports.ts';
import { readSigned, type Signatures } from './signatures.ts';
import type { Tokens } from './tokens.ts';

export interface DataOptions {
  tokens: Tokens;
  signatures: Signatures;
  openPorts: OpenPorts;
  /** The domain below which the ports of sandboxes have hosts. */
  domain: string;
}

const trafficHeader = 'e2b-traffic-access-token';

/**
 * Serves requests to the inside of a sandbox: to the daemon for files and processes, the code interpreter, and the servers of its programs,
 * each at its port. Headers or the host of a request name the sandbox and the port. Clients send a token of the sandbox instead of the key.
 */
export const createDataSurfaces = ({ tokens, signatures, openPorts, domain }: DataOptions) => {
  const at = (isOwn: (address: Address) => boolean) => ({
    request: (incoming: IncomingMessage) => {
      const address = addressIn(incoming, domain);
      return address !== undefined && isOwn(address);
    },
  });

  const envd: Surface = {
    claims: at(({ port, fault }) => port === ownPorts.envd && fault === undefined),
    isForPages: true,
    credentialOf(c) {
      const { sandbox } = addressOf(c, domain);
      const incoming = c.env?.incoming;
      const signed = incoming && readSigned(incoming);
      if (signed && incoming)
        return {
          find: async () => {
            const maker = await signatures.find(signed, sandbox);
            if (maker) named.set(incoming, toSandboxId(maker.box));
            return maker;
          },
        };
      const maker = tokens.read('envd', c.req.header('x-access-token'), sandbox);
      return maker && { maker };
    },
    needed: () => 'unauthorized access, please provide a valid access token or method signing if supported',
    respond(c, error) {
      if (error.code === 'gone') return notFound(c, addressOf(c, domain));
      if (isRpc(c)) return failedCall(c, error);
      return respondWith(c, error.code === 'conflict' ? 400 : problemKinds[error.code].status, error);
    },
  };

  const findOpener = async (c: Context<Env>, box: string) =>
    await openPorts.openerOf(box).catch((error: unknown) => {
      throw hasCode(error, 'unauthorized') ? new CodeBoxError('unauthorized', open.needed(c)) : error;
    });

  /** Clients send the token for traffic to every port except that of the daemon, where it must not grant everything. */
  const open: Pick<Surface, 'isForPages' | 'credentialOf' | 'needed'> = {
    isForPages: true,
    credentialOf(c) {
      const { sandbox } = addressOf(c, domain);
      const maker =
        tokens.read('envd', c.req.header('x-access-token'), sandbox) ??
        tokens.read('traffic', c.req.header(trafficHeader), sandbox);
      return maker && { maker };
    },
    needed: (c) =>
      c.req.header(trafficHeader) === undefined
        ? `Sandbox is secured with traffic access token. Token header '${trafficHeader}' is missing`
        : `Sandbox is secured with traffic access token. Provided token in header '${trafficHeader}' is invalid`,
  };

  const interpreter: Surface = {
    ...open,
    claims: at(({ port, fault }) => port === ownPorts.interpreter && fault === undefined),
    respond(c, error) {
      const address = addressOf(c, domain);
      if (error.code === 'gone') return notFound(c, address);
      if (error.code === 'unauthorized') return refused(c, address, error);
      setRetryAfter(c, error);
      return c.text(messageOf(error), problemKinds[error.code].status);
    },
  };

  const ports: Surface = {
    ...open,
    credentialOf(c) {
      const { sandbox } = addressOf(c, domain);
      const box = c.req.header(trafficHeader) === undefined ? toBoxId(sandbox) : undefined;
      return open.credentialOf(c) ?? (box === undefined ? undefined : { find: () => findOpener(c, box) });
    },
    claims: at(({ port, fault }) => fault !== undefined || !Object.values(ownPorts).includes(port)),
    respond(c, error) {
      const address = addressOf(c, domain);
      if (error.code === 'gone') return notFound(c, address);
      if (error.code === 'unauthorized') return refused(c, address, error);
      if (error instanceof ClosedPort) return closed(c, address);
      const { status } = problemKinds[error.code];
      return c.json(
        { sandboxId: address.sandbox, port: address.port, message: messageOf(error), code: status },
        status,
      );
    },
    readTarget(incoming) {
      const { sandbox, port, fault } = addressIn(incoming, domain) ?? { sandbox: '', port: 0 };
      if (fault !== undefined) throw new CodeBoxError('invalid_request', fault);
      const box = toBoxId(sandbox);
      if (box === undefined) throw new CodeBoxError('gone', 'The sandbox was not found');
      return { box, port, path: incoming.url ?? '/', prefix: '', isUnslashed: false };
    },
  };

  return { envd, interpreter, ports };
};

/** Clients recognise by the status 502 that a sandbox does not run. */
const notFound = (c: Context<Env>, { sandbox }: Address): Response =>
  c.json({ sandboxId: sandbox, message: 'The sandbox was not found', code: 502 }, 502);

const refused = (c: Context<Env>, { sandbox }: Address, { message }: CodeBoxError): Response =>
  c.json({ sandboxId: sandbox, message, code: 403 }, 403);

const closed = (c: Context<Env>, { sandbox, port }: Address): Response =>
  c.req.header('accept')?.includes('text/html')
    ? c.html(closedPortPage(sandbox, port), 502)
    : c.json({ sandboxId: sandbox, port, message: 'The sandbox is running but port is not open', code: 502 }, 502);

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

/** Returns where a request of these surfaces goes. */
export const addressOf = (c: Context<Env>, domain: string): Address =>
  (c.env?.incoming && addressIn(c.env.incoming, domain)) ?? { sandbox: '', port: 0 };
