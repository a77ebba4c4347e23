/** A header as received: the name in its original case, the value byte for byte. */
export type HeaderPair = [name: string, value: string];

/** Hop-by-hop headers: they concern one connection and are never forwarded. */
export const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Node's `rawHeaders` as pairs. */
export const toPairs = (raw: readonly string[]): HeaderPair[] => {
  const pairs: HeaderPair[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) pairs.push([raw[i] ?? '', raw[i + 1] ?? '']);
  return pairs;
};

/** The names that a Connection header declares as hop-by-hop. */
export const namedByConnection = (connection: string | undefined): Set<string> =>
  new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
