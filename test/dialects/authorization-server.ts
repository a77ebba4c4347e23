import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';

/** An authorization server as MCP requires it: discovery, registration of clients, codes with PKCE, and tokens for one resource. */
export const startAuthorizationServer = async () => {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256' };
  const codes = new Map<string, { challenge: string; resource: string; subject: string }>();

  const sign = (claims: JWTPayload, key: Parameters<SignJWT['sign']>[0] = privateKey) =>
    new SignJWT({ iss: url, exp: Math.floor(Date.now() / 1000) + 60, ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: 'one' })
      .sign(key);

  const answer = async (
    path: string,
    form: URLSearchParams,
  ): Promise<[status: number, body: unknown, location?: string]> => {
    if (path === '/.well-known/oauth-authorization-server')
      return [
        200,
        {
          issuer: url,
          authorization_endpoint: `${url}/authorize`,
          token_endpoint: `${url}/token`,
          registration_endpoint: `${url}/register`,
          jwks_uri: `${url}/keys`,
          response_types_supported: ['code'],
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none'],
        },
      ];
    if (path === '/keys') return [200, { keys: [jwk] }];
    if (path === '/register')
      return [
        201,
        { ...JSON.parse(form.get('body') ?? '{}'), client_id: randomUUID(), token_endpoint_auth_method: 'none' },
      ];
    if (path === '/authorize') {
      const code = randomUUID();
      const [challenge, resource] = ['code_challenge', 'resource'].map((name) => form.get(name) ?? '');
      // The user who logs in is a parameter here.
      codes.set(code, { challenge: challenge ?? '', resource: resource ?? '', subject: form.get('login') ?? 'ada' });
      return [302, {}, `${form.get('redirect_uri')}?code=${code}`];
    }
    const found = codes.get(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    if (path !== '/token' || found?.challenge !== challenge) return [400, { error: 'invalid_grant' }];
    const token = await sign({ sub: found.subject, aud: found.resource });
    return [200, { access_token: token, token_type: 'Bearer', expires_in: 60 }];
  };

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    let body = '';
    for await (const chunk of request) body += chunk;
    const isForm = request.headers['content-type']?.startsWith('application/x-www-form-urlencoded');
    const form = isForm ? new URLSearchParams(body) : new URLSearchParams([...searchParams, ['body', body]]);
    const [status, shown, location] = await answer(pathname, form);
    response.writeHead(status, { 'content-type': 'application/json', ...(location && { location }) });
    response.end(JSON.stringify(shown));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    sign,
    /** Signs with a key that the server does not publish. */
    forge: async (claims: JWTPayload) => sign(claims, (await generateKeyPair('ES256')).privateKey),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};
