/** A header as it came: its name in its own case, its value byte for byte. */
export type HeaderPair = [name: string, value: string];

/** Headers that are about one connection, and so never go on to the next. */
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

/** The headers that a Connection header declares to be about that connection. */
export const namedByConnection = (connection: string | undefined): Set<string> =>
  new Set((connection ?? '').split(',').map((name) => name.trim().toLowerCase()));
