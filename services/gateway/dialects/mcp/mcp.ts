import {
  classifyInboundRequest,
  createMcpHandler,
  type McpServer,
  SUPPORTED_PROTOCOL_VERSIONS,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { Context } from 'hono';
import { z } from 'zod';
import { CodeBoxError, type KeyScope } from '#contract';
import { streamAs } from '../../../http/bodies/stream.ts';
import { givenKey, keyMistake } from '../../../http/endpoints/given-key.ts';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import { type BoxRef, refOf } from '../../boxes/box-ref.ts';
import type { BoxRow } from '../../boxes/life/directory.ts';
import { requireScope } from '../../http/admission/admission.ts';
import type { Dialect, RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { type Env, noteBox } from '../../http/env.ts';
import type { Surface } from '../../http/surface.ts';
import type { Seal } from '../../seal.ts';
import { createAccessTokens } from './access-tokens.ts';
import { createCancellations } from './cancellations.ts';
import { checkOrigin } from './origin.ts';
import { createResourceMetadata, metadataAddress } from './resource-metadata.ts';
import { canResume, createResumption, toEventId, wire, withEventId } from './resumption.ts';
import { createServer, messageOf } from './server.ts';
import { createSessions } from './sessions.ts';
import type { Issuer } from './settings.ts';
import type { Call } from './tool.ts';

export interface McpOptions {
  seal: Seal;
  /** Hosts whose pages may call the gateway, in addition to pages of this machine. */
  origins: readonly string[];
  /** Whose access tokens are accepted besides API keys. */
  issuer: Issuer | undefined;
}

const path = '/mcp';
const described = { path, tag: 'MCP', responses: {} };
/** Methods that use the box. */
const usesBox = ['tools/call', 'resources/read'];
const userSchema = z.string().regex(/^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/);

/** The codes of JSON-RPC; the others are those of the official SDK. */
const codeOf = ({ code, cause }: CodeBoxError): number => {
  if (code === 'invalid_request') return cause instanceof SyntaxError ? -32_700 : -32_600;
  if (code === 'internal') return -32_603;
  return code === 'not_found' ? -32_001 : -32_000;
};

/** The Model Context Protocol over Streamable HTTP. */
export const createMcp = (options: McpOptions): readonly Dialect[] => {
  const { issuer } = options;
  const tokens = issuer && createAccessTokens(issuer);
  const challenge = issuer
    ? `Bearer resource_metadata="${metadataAddress(issuer.resource)}"`
    : 'Bearer realm="codebox"';

  const surface: Surface = {
    claims: { prefix: path },
    async credentialOf(c) {
      checkOrigin(c, options.origins);
      const key = givenKey(c);
      if (key === undefined || !issuer || !tokens || key.startsWith('cbx_'))
        return key === undefined ? undefined : { key };
      const subject = await tokens.subjectOf(key);
      if (subject === undefined) return { find: async () => undefined };
      c.set('endUser', subject);
      return { key: issuer.key };
    },
    needed: (c) => `A valid API key is needed: Authorization: Bearer cbx_…${keyMistake(c)}`,
    respond(c, error) {
      setRetryAfter(c, error);
      const isRefused = issuer && givenKey(c) !== undefined;
      if (error.code === 'unauthorized')
        c.header('WWW-Authenticate', isRefused ? `${challenge}, error="invalid_token"` : challenge);
      const body = { jsonrpc: '2.0', error: { code: codeOf(error), message: messageOf(error) }, id: null };
      return c.json(body, problemKinds[error.code].status);
    },
  };
  const server: Dialect = { surface, addRoutes: (endpoints, parts) => addRoutes(endpoints, parts, options) };
  return issuer ? [createResourceMetadata(issuer), server] : [server];
};

const addRoutes = ({ add }: Endpoints, parts: RouteParts, { seal }: McpOptions): void => {
  const sessions = createSessions(seal, parts);
  const cancellations = createCancellations(parts);
  const resumption = createResumption(parts);

  /** The user whose reusable box the request is for: that of its header, else that of its session. */
  const readUser = (c: Context<Env>) => {
    const session = c.req.header('mcp-session-id');
    const ofSession = session === undefined ? undefined : sessions.userOf(ownerOf(c), session);
    const given = c.req.header('x-codebox-user');
    const endUser = c.get('endUser');
    if (endUser !== undefined && given !== undefined)
      throw new CodeBoxError('forbidden', 'The access token names the user: X-CodeBox-User needs an API key.');
    if (endUser !== undefined) return { ofSession, user: `oauth/${endUser}` };
    if (given === undefined) return { ofSession, user: ofSession };
    if (!userSchema.safeParse(given).success)
      throw new CodeBoxError('invalid_request', 'X-CodeBox-User must be 1 to 256 printable characters of ASCII.');
    return { ofSession, user: given };
  };

  const open = async (c: Context<Env>, user: string | undefined, living: BoxRow | undefined): Promise<BoxRef> => {
    if (user === undefined) throw noUser();
    const template = c.req.header('x-codebox-template');
    const ask = { user, reuse: true, ...(template !== undefined && { template }) };
    if (!living) requireScope(c, 'run');
    const box = living ?? (await parts.creation.create(c.get('tenant'), ask)).box;
    noteBox(c, box.id);
    return refOf(box);
  };

  const cancel = async (tenant: string, session: string, user: string, request: unknown): Promise<void> => {
    if (cancellations.cancel(session, request)) return;
    const ref = await sessions.boxOf(tenant, user);
    if (ref) await cancellations.stopOnly(ref);
  };

  add(
    { ...described, method: 'post', scope: 'any', summary: 'Send a message', body: z.unknown(), bounds: largeJson },
    async ({ c, tenant, body }) => {
      const message = messageSchema.safeParse(body).data ?? {};
      const { ofSession, user } = readUser(c);
      if (Array.isArray(body)) throw new CodeBoxError('invalid_request', 'Batches are not supported.');
      const kind = kindOf(c, body);
      const isModern = kind === 'modern';
      if (isModern && user === undefined) return noSessions(c, message.id);
      const needsBox = usesBox.includes(message.method ?? '');
      if (needsBox && user === undefined) throw noUser();
      const living = needsBox && user !== undefined ? await parts.creation.reuse(tenant, user) : undefined;
      if (needsBox && ofSession !== undefined && !living) await sessions.checkLiving(tenant, ofSession);
      const scopes = c.get('scopes');
      const mayUse = (scope: KeyScope) => scopes === null || scopes.includes(scope);
      if (ofSession !== undefined && message.method === 'notifications/cancelled' && mayUse('run'))
        await cancel(tenant, ofSession, user ?? ofSession, message.params?.requestId);

      const { id: request } = message;
      const resumable =
        ofSession !== undefined && canResume(c.req.header('mcp-protocol-version')) ? withEventId() : undefined;
      const call: Call = {
        onRun: (run) => {
          const eventId = request === undefined ? undefined : toEventId(run, request);
          if (eventId !== undefined) resumable?.send(eventId);
        },
        mayUse,
        open: () => open(c, user, living),
        // A client of the older protocol that loses its connection has not canceled its call.
        cancelable: isModern ? undefined : () => cancellations.register(ofSession, message.id),
        log: c.get('log'),
      };
      // A stream reports progress, and has keep-alives. A file may be longer than the event of a stream that clients accept.
      const mode = message.method === 'tools/call' ? 'sse' : 'auto';
      const make = () => createServer(call, parts);
      const isLegacy = kind === 'legacy';
      const response = await (isLegacy ? serveLegacy : serveModern)(make, toRequest(c), body, mode);
      const headers = new Headers(response.headers);
      if (isLegacy && message.method === 'initialize') headers.set('Mcp-Session-Id', sessions.begin(ownerOf(c)));
      const isStream = headers.get('content-type') === 'text/event-stream';
      if (isStream) c.set('isStream', true);
      const content = isStream && resumable ? response.body?.pipeThrough(resumable.through) : response.body;
      return new Response(content, { status: response.status, headers });
    },
  );

  add({ ...described, method: 'get', scope: 'run', summary: 'Continue a stream that broke' }, async ({ c, tenant }) => {
    const eventId = c.req.header('last-event-id');
    if (eventId === undefined)
      throw new CodeBoxError('method_not_allowed', 'Without Last-Event-ID, there are no streams to open.');
    const { user } = readUser(c);
    const ref = user === undefined ? undefined : await sessions.boxOf(tenant, user);
    if (!ref) throw new CodeBoxError('not_found', 'Session not found');
    noteBox(c, ref.box);
    const leave = new AbortController();
    const onError = (err: unknown) => c.get('log').info({ err }, 'a call could not be answered again');
    const events = await resumption.answer(ref, eventId, leave.signal);
    return streamAs(c, wire, { events, leave, stopping: parts.stopping, onError });
  });

  add(
    { ...described, method: 'delete', scope: 'run', summary: 'End a session, and delete its box' },
    async ({ c, tenant }) => {
      const { ofSession } = readUser(c);
      if (ofSession === undefined) throw new CodeBoxError('invalid_request', 'The request has no Mcp-Session-Id.');
      await sessions.checkLiving(tenant, ofSession);
      await sessions.end(tenant, ofSession);
      return c.body(null, 204);
    },
  );
};

type Serve = (make: () => McpServer, request: Request, parsedBody: unknown, mode: 'sse' | 'auto') => Promise<Response>;

/** Serves one message of the protocol up to 2025-11-25. The work that it started continues when the client leaves. */
const serveLegacy: Serve = async (make, request, parsedBody, mode) => {
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: mode === 'auto' });
  await make().connect(transport);
  return await transport.handleRequest(request, { parsedBody });
};

/** Serves one message of the protocol since 2026-07-28, which is canceled when the client leaves. */
const serveModern: Serve = (make, request, parsedBody, responseMode) =>
  createMcpHandler(make, { legacy: 'reject', maxSubscriptions: 0, responseMode }).fetch(request, { parsedBody });

/** Whose sessions a request may use: those of its tenant, or of the end user that it names. */
const ownerOf = (c: Context<Env>): string => [c.get('tenant'), c.get('endUser') ?? []].flat().join(' ');

const noUser = () => new CodeBoxError('invalid_request', 'The request has neither Mcp-Session-Id nor X-CodeBox-User.');

/** The request without its body, which is read already. Its signal fires when the connection ends. */
const toRequest = (c: Context<Env>): Request => {
  const left = new AbortController();
  c.env?.outgoing?.once('close', () => left.abort());
  return new Request(c.req.url, { method: 'POST', headers: c.req.raw.headers, signal: left.signal });
};

const messageSchema = z.looseObject({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string().optional(),
  params: z.looseObject({ requestId: z.unknown().optional() }).optional(),
});

/** Whether a message is of the protocol since 2026-07-28, which has no sessions. */
const kindOf = (c: Context<Env>, body: unknown) => {
  const [version, method, name] = ['mcp-protocol-version', 'mcp-method', 'mcp-name'].map((field) =>
    c.req.header(field),
  );
  return classifyInboundRequest({
    httpMethod: 'POST',
    body,
    ...(version !== undefined && { protocolVersionHeader: version }),
    ...(method !== undefined && { mcpMethodHeader: method }),
    ...(name !== undefined && { mcpNameHeader: name }),
  }).kind;
};

/** Directs clients of both protocols to the one with sessions. */
const noSessions = (c: Context<Env>, id: string | number | undefined): Response => {
  const message = 'This protocol version has no sessions: name the user of the box in X-CodeBox-User.';
  const requested = c.req.header('mcp-protocol-version') ?? '';
  const error = { code: -32_022, message, data: { supported: SUPPORTED_PROTOCOL_VERSIONS, requested } };
  return c.json({ jsonrpc: '2.0', error, id: id ?? null }, 400);
};
