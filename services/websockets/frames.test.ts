import { expect, test } from 'vitest';
import { followFrames } from './frames.ts';

/** The bytes of a frame of a client, with a mask of zeros. */
const frame = (payload: number, { fin = true, opcode = 2 } = {}): Buffer => {
  const [length, more] = payload < 126 ? [payload, 0] : payload < 65_536 ? [126, 2] : [127, 8];
  const bytes = Buffer.alloc(2 + more + 4 + payload);
  bytes.set([(fin ? 0x80 : 0) | opcode, 0x80 | length]);
  if (more > 0) bytes.writeUIntBE(payload, more === 2 ? 2 : 4, more === 2 ? 2 : 6);
  return bytes;
};

const ping = frame(100, { opcode: 9 });
const messages: [name: string, frames: Buffer[]][] = [
  ['an empty message', [frame(0)]],
  ['a short message', [frame(125)]],
  ['a message with a length of two bytes', [frame(126)]],
  ['a message with a length of eight bytes', [frame(70_000)]],
  [
    'a message in three frames, with pings between them',
    [frame(10, { fin: false }), ping, frame(70_000, { fin: false, opcode: 0 }), ping, frame(5, { opcode: 0 })],
  ],
];

test.each(messages)('%s counts from its first byte to its last, in pieces of any size', (_, frames) => {
  const bytes = Buffer.concat(frames);
  for (const size of [1, 2, 7, 4096, bytes.length]) {
    const followed = followFrames();
    followed.read(ping);
    expect(followed.arriving()).toBe(0);
    for (let at = 0; at < bytes.length; at += size) {
      const end = Math.min(bytes.length, at + size);
      followed.read(bytes.subarray(at, end));
      expect(followed.arriving()).toBe(end < bytes.length ? end : 0);
    }
  }
});

test('what follows in the same piece counts for the next message', () => {
  const followed = followFrames();
  followed.read(Buffer.concat([frame(300), frame(10), frame(50, { fin: false })]));
  expect(followed.arriving()).toBe(frame(50).length);
  followed.read(Buffer.concat([frame(1, { opcode: 0 }), ping]));
  expect(followed.arriving()).toBe(0);
});

test('nothing counts after a close frame', () => {
  const followed = followFrames();
  followed.read(Buffer.concat([frame(10, { fin: false }), frame(2, { opcode: 8 }), frame(500, { fin: false })]));
  expect(followed.arriving()).toBe(0);
});
