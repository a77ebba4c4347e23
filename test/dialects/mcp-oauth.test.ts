import { exportJWK, generateKeyPair } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { anyDriver, type RunningGateway, startGateway } from '../api/harness.ts';
import { startAuthorizationServer } from './authorization-server.ts';
import { clientsOf, installClients } from './mcp-clients.ts';

/** Connects as a client does that knows nothing but the address of the server: it is sent to log in, as `login`, and comes back with a code. */
const logIn = `
const logIn = async (login, headers = {}) => {
  const kept = {};
  const authProvider = {
    redirectUrl: 'http://localhost:1/callback',
    clientMetadata: { client_name: 'test', redirect_uris: ['http://localhost:1/callback'], token_endpoint_auth_method: 'none' },
    clientInformation: () => kept.client,
    saveClientInformation: (client) => { kept.client = client; },
    tokens: () => kept.tokens,
    saveTokens: (tokens) => { kept.tokens = tokens; },
    saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
    codeVerifier: () => kept.verifier,
    redirectToAuthorization: async (address) => {
      address.searchParams.set('login', login);
      const response = await fetch(address, { redirect: 'manual' });
      kept.code = new URL(response.headers.get('location')).searchParams.get('code');
    },
  };
  const connect = async () => {
    const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider, requestInit: { headers } });
    const client = new Client({ name: 'test', version: '1' });
    const refusal = await client.connect(transport).then(() => undefined, (error) => error);
    return { client, transport, refusal };
  };
  const first = await connect();
  if (first.refusal?.constructor.name !== 'UnauthorizedError') throw first.refusal ?? new Error('no login was asked for');
  await first.transport.finishAuth(kept.code);
  const { client, transport, refusal } = await connect();
  if (refusal) throw refusal;
  const run = async (code) => (await client.callTool({ name: 'run_code', arguments: { code } })).content[0].text;
  return { run, session: transport.sessionId, token: kept.tokens.access_token };
};`;

describe.each(anyDriver)('the MCP dialect with an authorization server on the %s driver', (driver) => {
  let gateway: RunningGateway;
  let server: Awaited<ReturnType<typeof startAuthorizationServer>>;
  const { js } = clientsOf(() => gateway);
  beforeAll(async () => {
    await installClients();
    server = await startAuthorizationServer();
    gateway = await startGateway(driver, { CODEBOX_DIALECTS: 'mcp' });
    await gateway.stop();
    await gateway.restart({
      CODEBOX_MCP_ISSUER: server.url,
      CODEBOX_MCP_RESOURCE: `${gateway.url}/mcp`,
      CODEBOX_MCP_KEY: gateway.key,
    });
  }, 600_000);
  afterAll(async () => {
    await gateway?.dispose();
    await server?.[Symbol.asyncDispose]();
  });

  const ask = async (token: string | undefined, headers: Record<string, string> = {}) => {
    const response = await fetch(`${gateway.url}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    });
    return { status: response.status, challenge: response.headers.get('www-authenticate') };
  };

  test('the official client logs in, and each of its users has a box', async () => {
    const shown = await js<Record<string, unknown>>(`${logIn}
      const ada = await logIn('ada');
      await ada.run('x = 41');
      const again = await logIn('ada');
      const bob = await logIn('bob');
      return {
        again: await again.run('x + 1'), bob: await bob.run('"x" in globals()'),
        session: ada.session, token: bob.token,
      };`);
    expect(shown).toMatchObject({ again: '42', bob: 'False' });
    const { body } = await gateway.get<{ items: { user: string }[] }>('/v1/boxes');
    expect(body.items.map(({ user }) => user).sort()).toEqual(['oauth/ada', 'oauth/bob']);
    // A session is one of its user, and a token names no other user.
    const [token, session] = [String(shown.token), String(shown.session)];
    expect((await ask(token, { 'mcp-session-id': session })).status).toBe(404);
    expect((await ask(token, { 'x-codebox-user': 'oauth/ada' })).status).toBe(403);
  });

  test('clients learn from a 401 which server issues tokens, and API keys go on working', async () => {
    const metadata = `${gateway.url}/.well-known/oauth-protected-resource`;
    expect(await ask(undefined)).toEqual({ status: 401, challenge: `Bearer resource_metadata="${metadata}/mcp"` });
    for (const address of [metadata, `${metadata}/mcp`]) {
      const response = await fetch(address, { headers: { origin: 'https://page.example' } });
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      expect(await response.json()).toMatchObject({
        resource: `${gateway.url}/mcp`,
        authorization_servers: [server.url],
        bearer_methods_supported: ['header'],
      });
    }
    expect((await ask(gateway.key)).status).toBe(200);
    expect((await ask(await gateway.addTenant())).status).toBe(200);
  });

  test('tokens for others, expired and forged ones are refused', async () => {
    const aud = `${gateway.url}/mcp`;
    const past = Math.floor(Date.now() / 1000) - 60;
    expect((await ask(await server.sign({ sub: 'ada', aud }))).status).toBe(200);
    const { publicKey } = await generateKeyPair('RS256', { extractable: true });
    const own = await exportJWK(publicKey);
    const unsigned = [{ alg: 'none' }, { iss: server.url, sub: 'ada', aud, exp: past + 3600 }]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    const wrong = {
      'another resource': await server.sign({ sub: 'ada', aud: 'http://other/mcp' }),
      'no resource': await server.sign({ sub: 'ada' }),
      'another issuer': await server.sign({ sub: 'ada', aud, iss: 'http://other' }),
      'no user': await server.sign({ aud }),
      'a user with a line break': await server.sign({ aud, sub: 'a\nb' }),
      expired: await server.sign({ sub: 'ada', aud, exp: past }),
      'not valid yet': await server.sign({ sub: 'ada', aud, nbf: past + 3600 }),
      forged: await server.forge({ sub: 'ada', aud }),
      unsigned: `${unsigned}.`,
      'no token': 'none',
      'a key of its own': `${Buffer.from(JSON.stringify({ alg: 'RS256', jwk: own })).toString('base64url')}.e30.e30`,
    };
    for (const [name, token] of Object.entries(wrong)) {
      const { status, challenge } = await ask(token);
      expect([name, status]).toEqual([name, 401]);
      expect(challenge).toContain('error="invalid_token"');
    }
  });
});
