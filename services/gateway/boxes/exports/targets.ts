import type { Readable } from 'node:stream';
import type { S3Client } from '@aws-sdk/client-s3';
import type { S3Target } from '#contract';
import { compatible, uploadToS3 } from '../../../blobs/s3-upload.ts';
import {
  type Outbound,
  OutboundError,
  type OutboundRequest,
  type OutboundResponse,
} from '../../../outbound/outbound.ts';
import { ExportFailed } from './export-failed.ts';

/** The content of a file, of exactly this length. */
interface Content {
  body: Readable;
  lengthBytes: number;
  mediaType: string;
}

/** Where one file is written to: whole or not at all. Resolves with the ETag that the store returns. */
export interface Target {
  maxBytes: number;
  put: (content: Content, signal: AbortSignal) => Promise<string | null>;
}

type Send = Pick<Outbound, 'send'>;
type RequestHandler = S3Client['config']['requestHandler'];

const gib = 1024 ** 3;
/** How much of a response is read: an error, or a list of parts that was completed. */
const responseBytes = 65_536;
/** One part of a file is in memory at a time; S3 takes parts from 5 MiB, and up to 10,000 of them. */
const partBytes = 5 * 1024 * 1024;
const maxParts = 10_000;

/** The deadline of a request without the signal of its export. */
const requestMs = 60_000;
/** How long nothing may be sent or received. */
const idleMs = 60_000;

/** The code in an error of S3, Google Cloud Storage or Azure. */
const errorCode = /<Code>([A-Za-z0-9]{1,64})<\/Code>/;

const refusal = (status: number | undefined, code: string | undefined) => {
  const known = code !== undefined && /^[A-Za-z0-9]{1,64}$/.test(code) ? ` (${code})` : '';
  return new ExportFailed('refused', `The store responded with the status ${status ?? 'of no response'}${known}.`);
};

/** A URL that takes a file by one PUT, which is sent as it is read. */
export const urlTarget = (outbound: Send, url: string, headers: Record<string, string>): Target => ({
  // A single PUT of S3 takes no more.
  maxBytes: 5 * gib,
  async put({ body, lengthBytes }, signal) {
    const request: OutboundRequest = {
      url,
      method: 'PUT',
      headers: { ...headers, 'content-length': String(lengthBytes) },
      body: lengthBytes > 0 ? body : null,
      signal,
      maxBytes: responseBytes,
      idleMs,
    };
    const { status, headers: given, text } = await whole(outbound.send(request));
    if (status < 200 || status > 299) throw refusal(status, errorCode.exec(text)?.[1]);
    return typeof given.etag === 'string' ? given.etag : null;
  },
});

/** The objects of a bucket, by their key. */
export const createBucket = async (outbound: Send, target: S3Target) => {
  const s3 = await import('@aws-sdk/client-s3');
  const { bucket, accessKeyId, secretAccessKey, sessionToken } = target;
  const client = new s3.S3Client({
    region: target.region ?? 'us-east-1',
    endpoint: endpointOf(target),
    credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) },
    requestHandler: guardedHandler(outbound),
    ...compatible,
  });

  return {
    close: () => client.destroy(),

    object: (key: string): Target => ({
      maxBytes: partBytes * maxParts,
      async put({ body, lengthBytes, mediaType }, signal) {
        // A small file needs no more memory than it has bytes.
        const size = Math.min(partBytes, lengthBytes + 1);
        try {
          const object = { Bucket: bucket, Key: key, ContentType: mediaType };
          return (await uploadToS3(client, object, body, { partBytes: size, signal })) ?? null;
        } catch (error) {
          if (error instanceof s3.S3ServiceException) throw refusal(error.$metadata.httpStatusCode, error.name);
          if (signal.aborted || asExportFailed(error)) throw error;
          throw new ExportFailed('refused', 'The store sent an invalid response.');
        }
      },
    }),
  };
};

const encode = encodeURIComponent;

const whole = async (sent: Promise<OutboundResponse>): Promise<OutboundResponse> => {
  const response = await sent;
  if (response.isBroken) throw new OutboundError('The response broke off.');
  return response;
};

/** The origin of the store. */
export const endpointOf = ({ endpoint, region = 'us-east-1' }: S3Target): string =>
  new URL(endpoint ?? `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`).origin;

/** Sends the requests of the library as all requests to hosts that tenants name: to checked addresses, without following redirects. */
const guardedHandler = (outbound: Send): RequestHandler => ({
  async handle(
    { protocol, hostname, port, path, query, method, headers, body },
    { abortSignal }: { abortSignal?: unknown } = {},
  ) {
    const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value ?? '']).map((one) => `${encode(name)}=${encode(one)}`),
    );
    const origin = `${protocol}//${hostname}${port === undefined ? '' : `:${port}`}`;
    const sent = outbound.send({
      url: `${origin}${path}${pairs.length > 0 ? `?${pairs.join('&')}` : ''}`,
      method: method as OutboundRequest['method'],
      headers,
      body: body ?? null,
      signal: abortSignal instanceof AbortSignal ? abortSignal : AbortSignal.timeout(requestMs),
      maxBytes: responseBytes,
      idleMs,
    });
    const response = await whole(sent);
    const given = Object.entries(response.headers).map(([name, value]) => [name, String(value)]);
    const bytes = new TextEncoder().encode(response.text);
    return { response: { statusCode: response.status, headers: Object.fromEntries(given), body: bytes } };
  },
  updateHttpClientConfig() {},
  httpHandlerConfigs: () => ({}),
});

/**
 * What the failure of an export means for its tenant; undefined for an error of ours. A failure of the content breaks the request to the
 * store off, and so comes first.
 */
export const asExportFailed = (error: unknown): ExportFailed | undefined => {
  const chain: Error[] = [];
  for (let at = error; at instanceof Error && chain.length < 5; at = at.cause) chain.push(at);
  const failed = chain.find((one) => one instanceof ExportFailed);
  if (failed) return failed;
  const unreached = chain.find((one) => one instanceof OutboundError);
  return unreached && new ExportFailed('unreachable', unreached.message);
};
