import { Agent, fetch as send } from 'undici';

/** A run may take an hour to answer; the client has a deadline for each call. */
const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });

/** `fetch` to the gateway. Not Node's own, which takes an upload into memory faster than it can send it. */
// Both are the same code at different times; only what their types call a body differs.
export const gatewayFetch = ((input: string, init: object) =>
  send(input, { ...init, dispatcher })) as unknown as typeof fetch;
