import { CodeBoxError } from '#contract';
import { boxJson, jsonExcess } from '../../../json/json-bounds.ts';
import { brokenProtocol } from './broken-protocol.ts';

/** The longest stream: the bound of a journal plus room for JSON escapes. */
const maxStreamBytes = 128 * 1024 * 1024;

/**
 * Splits a byte stream into the JSON values of its lines; blank lines are heartbeats and are skipped. The box is not trusted: a line over
 * 32 MiB, with too many values, or that is not JSON violates the protocol, and a stream over 128 MiB throws `too_large`.
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<unknown> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  let streamBytes = 0;
  for await (const bytes of chunks) {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    streamBytes += chunk.length;
    if (streamBytes > maxStreamBytes) throw new CodeBoxError('too_large', 'The box sent too much.');
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      const piece = chunk.subarray(start, end);
      const line = pendingBytes === 0 ? piece : Buffer.concat([...pending, piece]);
      pending = [];
      pendingBytes = 0;
      start = end + 1;
      if (line.length > 0) yield parseLine(line);
    }
    if (start === chunk.length) continue;
    pending.push(chunk.subarray(start));
    pendingBytes += chunk.length - start;
    if (pendingBytes > boxJson.bytes) throw brokenProtocol('The box sent a line that is too long.');
  }
}

const parseLine = (line: Buffer): unknown => {
  const excess = jsonExcess(line, boxJson);
  if (excess !== undefined) throw brokenProtocol(`The box sent a line that ${excess}.`);
  try {
    return JSON.parse(line.toString('utf8'));
  } catch (cause) {
    throw brokenProtocol('The box sent a line that is not JSON.', cause);
  }
};
