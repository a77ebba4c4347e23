import { Agent, fetch as send } from 'undici';

/** A run may take an hour before the gateway responds; the client has a deadline for each call. */
const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0 });

/** `fetch` for the gateway. Node's own would buffer an upload in memory faster than it can send it. */
// Both are the same implementation in different versions; only their types for a body differ.
export const gatewayFetch = ((input: string, init: object) =>
  send(input, { ...init, dispatcher })) as unknown as typeof fetch;
