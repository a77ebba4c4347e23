import { request } from 'undici';
import type { GatewayProcess } from './gateway-process.ts';

/** Posts JSON over the kept connections of a gateway. Throws for a response that is no success. */
export const post = async (
  { client: { transport } }: GatewayProcess,
  url: string,
  body: object,
  headers: Record<string, string>,
) => {
  const sent = { ...headers, 'content-type': 'application/json' };
  const options = {
    dispatcher: transport.dispatcher,
    method: 'POST',
    headers: sent,
    body: JSON.stringify(body),
  } as const;
  const response = await request(url, options);
  const text = await response.body.text();
  if (response.statusCode >= 300) throw new Error(`${url} responded with ${response.statusCode}: ${text}`);
  return { text, headers: response.headers };
};
