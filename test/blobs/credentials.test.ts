import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { createServer as createTlsServer, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { ContainerClient } from '@azure/storage-blob';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { openBlobs } from '../../services/blobs/open-blobs.ts';
import { blobsVariables, toBlobsConfig } from '../../services/blobs/settings.ts';
import { refusal } from '../api/harness.ts';
import { azureConnectionString, startAzureWithTokens } from './servers.ts';

const run = promisify(execFile);
const signal = () => AbortSignal.timeout(50_000);

/** Opens the store that an environment describes, as a service reads it. */
const openFrom = (place: string, environment: Record<string, string>) => {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
  const values = {
    AWS_REGION: blobsVariables.AWS_REGION.parse(environment.AWS_REGION),
    AWS_ACCESS_KEY_ID: environment.AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY: environment.AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN: environment.AWS_SESSION_TOKEN,
    AZURE_STORAGE_CONNECTION_STRING: undefined,
    CODEBOX_BLOBS: place,
  };
  return openBlobs(toBlobsConfig(values, '/none'), 'dep-1');
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-credentials-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));
afterEach(() => vi.unstubAllEnvs());

const listen = async (server: ReturnType<typeof createServer>) => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const stop = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { port: (server.address() as AddressInfo).port, [Symbol.asyncDispose]: stop };
};

describe('the credentials for a bucket', () => {
  const expiration = new Date(Date.now() + 3_600_000).toISOString();
  const given = (name: string) => ({ AccessKeyId: `${name}-key`, SecretAccessKey: 'secret', Token: `${name}-session` });
  const asJson = (name: string) =>
    JSON.stringify({ ...given(name), Code: 'Success', Type: 'AWS-HMAC', Expiration: expiration });
  const asXml = (name: string) => {
    const { AccessKeyId, SecretAccessKey, Token } = given(name);
    return `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
      <Credentials><AccessKeyId>${AccessKeyId}</AccessKeyId><SecretAccessKey>${SecretAccessKey}</SecretAccessKey>
      <SessionToken>${Token}</SessionToken><Expiration>${expiration}</Expiration></Credentials>
      </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`;
  };

  /** The requests to the bucket: their key, their session, and whether the signature covers the session. */
  const seen: { key: string | undefined; session: unknown; isSigned: boolean }[] = [];
  const note = ({ headers }: IncomingMessage) => {
    const authorization = headers.authorization ?? '';
    seen.push({
      key: /Credential=([^/]+)\//.exec(authorization)?.[1],
      session: headers['x-amz-security-token'],
      isSigned: /SignedHeaders=[^,]*x-amz-security-token/.test(authorization),
    });
  };

  /** Bucket, token service, pod identity agent and instance metadata in one server: each checks the secret of its caller. */
  const cloud: RequestListener = async (incoming, response) => {
    const { method, url = '', headers } = incoming;
    const role = '/latest/meta-data/iam/security-credentials/';
    if (url.startsWith('/bucket')) {
      note(incoming);
      return response.writeHead(404).end();
    }
    if (method === 'POST') {
      const body = new URLSearchParams(await text(incoming));
      const isRight =
        body.get('WebIdentityToken') === 'projected' && body.get('RoleArn') === 'arn:aws:iam::1:role/boxes';
      return isRight ? response.end(asXml('web')) : response.writeHead(403).end();
    }
    if (url === '/pod' && headers.authorization === 'pod-secret') return response.end(asJson('pod'));
    if (url === '/latest/api/token' && method === 'PUT') return response.end('session');
    if (headers['x-aws-ec2-metadata-token'] !== 'session') return response.writeHead(401).end();
    if (url === role) return response.end('machine');
    return url === `${role}machine` ? response.end(asJson('machine')) : response.writeHead(404).end();
  };

  let server: Awaited<ReturnType<typeof listen>>;
  beforeAll(async () => {
    server = await listen(createServer(cloud));
    await writeFile(join(folder, 'projected'), 'projected');
    await writeFile(join(folder, 'pod-secret'), 'pod-secret');
  });
  afterAll(() => server?.[Symbol.asyncDispose]());
  beforeEach(() => {
    seen.length = 0;
    // The credentials of the user who runs the tests must not be used.
    for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) vi.stubEnv(name, undefined);
    vi.stubEnv('AWS_CONFIG_FILE', '/dev/null');
    vi.stubEnv('AWS_SHARED_CREDENTIALS_FILE', '/dev/null');
  });

  const sources: Record<string, { environment: () => Record<string, string>; name: string }> = {
    'of a session in the environment': {
      environment: () => ({
        AWS_ACCESS_KEY_ID: 'env-key',
        AWS_SECRET_ACCESS_KEY: 'secret',
        AWS_SESSION_TOKEN: 'env-session',
      }),
      name: 'env',
    },
    'of the role of a service account': {
      environment: () => ({
        AWS_ROLE_ARN: 'arn:aws:iam::1:role/boxes',
        AWS_WEB_IDENTITY_TOKEN_FILE: join(folder, 'projected'),
        AWS_ENDPOINT_URL_STS: `http://127.0.0.1:${server.port}`,
        AWS_EC2_METADATA_DISABLED: 'true',
      }),
      name: 'web',
    },
    'of a pod identity': {
      environment: () => ({
        AWS_CONTAINER_CREDENTIALS_FULL_URI: `http://127.0.0.1:${server.port}/pod`,
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: join(folder, 'pod-secret'),
      }),
      name: 'pod',
    },
    'of the instance metadata': {
      environment: () => ({ AWS_EC2_METADATA_SERVICE_ENDPOINT: `http://127.0.0.1:${server.port}` }),
      name: 'machine',
    },
  };

  test.each(Object.entries(sources))(
    '%s are found, and their session token is sent',
    async (_, { environment, name }) => {
      const blobs = await openFrom(`s3+http://127.0.0.1:${server.port}/bucket`, environment());
      expect(await blobs.has('box-1/none', signal())).toBe(false);
      expect(seen).toEqual([{ key: `${name}-key`, session: `${name}-session`, isSigned: true }]);
    },
  );

  test('that are missing make the store unavailable, and it gets no request', async () => {
    const blobs = await openFrom(`s3+http://127.0.0.1:${server.port}/bucket`, { AWS_EC2_METADATA_DISABLED: 'true' });
    expect((await refusal(blobs.has('box-1/none', signal()))).code).toBe('unavailable');
    expect(seen).toEqual([]);
  });

  test('that no service provides are not waited for beyond the deadline of the caller', async () => {
    await using silent = await listen(createServer(() => {}));
    const blobs = await openFrom(`s3+http://127.0.0.1:${server.port}/bucket`, {
      ...sources['of the role of a service account']?.environment(),
      AWS_ENDPOINT_URL_STS: `http://127.0.0.1:${silent.port}`,
    });
    const content = Readable.from([Buffer.from('x')]);
    const late = AbortSignal.timeout(300);
    expect((await refusal(blobs.has('box-1/none', late))).code).toBe('unavailable');
    expect((await refusal(blobs.put('box-1/none', content, late))).code).toBe('unavailable');
  });
});

describe('the authorization for an Azure container', () => {
  const tenant = '11111111-2222-3333-4444-555555555555';
  const about = { AZURE_CLIENT_ID: tenant, AZURE_TENANT_ID: tenant };
  const token = () => {
    const [now, part] = [
      Math.floor(Date.now() / 1000),
      (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url'),
    ];
    const claims = {
      aud: 'https://storage.azure.com',
      iss: `https://sts.windows.net/${tenant}/`,
      iat: now,
      nbf: now - 60,
    };
    return `${part({ alg: 'RS256', typ: 'JWT' })}.${part({ ...claims, exp: now + 3600 })}.c2lnbmF0dXJl`;
  };

  /** The emulator has the account in the path, the cloud in the host name. */
  const store: RequestListener = (incoming, response) => {
    const { method, url, headers } = incoming;
    const passed = request(
      { host: '127.0.0.1', port: azure, method, path: `/devstoreaccount1${url}`, headers },
      (reply) => {
        response.writeHead(reply.statusCode ?? 0, reply.headers);
        reply.pipe(response);
      },
    );
    passed.on('error', () => response.destroy());
    incoming.pipe(passed);
  };

  /** The directory that exchanges tokens of service accounts, and the identity endpoint of a machine. */
  const directory: RequestListener = async (incoming, response) => {
    const { url = '', headers } = incoming;
    const sendJson = (body: object) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
    const base = `https://${headers.host}/${tenant}`;
    if (url.includes('openid-configuration'))
      return sendJson({
        issuer: `${base}/v2.0`,
        authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
        token_endpoint: `${base}/oauth2/v2.0/token`,
        jwks_uri: `${base}/keys`,
      });
    if (incoming.method === 'POST') {
      const isRight = new URLSearchParams(await text(incoming)).get('client_assertion') === 'projected';
      return isRight
        ? sendJson({ token_type: 'Bearer', expires_in: 3600, access_token: token() })
        : response.writeHead(401).end();
    }
    if (headers['x-identity-header'] !== 'machine-secret') return response.writeHead(401).end();
    return sendJson({
      access_token: token(),
      expires_on: Math.floor(Date.now() / 1000) + 3600,
      resource: 'https://storage.azure.com',
      token_type: 'Bearer',
    });
  };

  const trusted = getCACertificates('default');
  let open: AsyncDisposableStack;
  let azure: number;
  let account: number;
  let tokens: number;
  beforeAll(async () => {
    open = new AsyncDisposableStack();
    const pair = { key: join(folder, 'key.pem'), certificate: join(folder, 'certificate.pem') };
    const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-subj', '/CN=127.0.0.1'];
    const names = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', pair.key, '-out', pair.certificate];
    await run('openssl', [...request, ...names]);
    const [key, cert] = [await readFile(pair.key, 'utf8'), await readFile(pair.certificate, 'utf8')];
    setDefaultCACertificates([...trusted, cert]);
    await writeFile(join(folder, 'projected'), 'projected');
    azure = open.use(await startAzureWithTokens(pair)).port;
    tokens = open.use(await listen(createTlsServer({ key, cert }, directory))).port;
    account = open.use(await listen(createTlsServer({ key, cert }, store))).port;
    await new ContainerClient(azureConnectionString(azure, 'https'), 'boxes').create();
  });
  afterAll(async () => {
    await open?.disposeAsync();
    setDefaultCACertificates(trusted);
  });
  beforeEach(() => {
    for (const name of Object.keys(process.env)) if (name.startsWith('AZURE_')) vi.stubEnv(name, undefined);
  });

  const sources: Record<string, () => Record<string, string>> = {
    'is found in the token of a service account': () => ({
      ...about,
      AZURE_FEDERATED_TOKEN_FILE: join(folder, 'projected'),
      AZURE_AUTHORITY_HOST: `https://127.0.0.1:${tokens}/`,
    }),
    'is found in the identity of a machine': () => ({
      IDENTITY_ENDPOINT: `https://127.0.0.1:${tokens}/identity`,
      IDENTITY_HEADER: 'machine-secret',
      AZURE_TOKEN_CREDENTIALS: 'ManagedIdentityCredential',
    }),
  };

  test.each(Object.entries(sources))('%s', async (_, environment) => {
    const blobs = await openFrom(`azure+https://127.0.0.1:${account}/boxes/prefix`, environment());
    await blobs.put('box-1/blob', Readable.from([Buffer.from('kept')]), signal());
    expect(await text(await blobs.get('box-1/blob', signal()))).toBe('kept');
    await blobs.delete('box-1/blob', signal());
  });
});
