import { type EventEmitter, once } from 'node:events';
import { createRequire } from 'node:module';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { closeFrame, createFrameFollower } from './frames.ts';

/** The frame reader and writer of `ws`, which its types do not declare. */
interface Frames {
  Sender: { frame(data: Buffer, options: object): Buffer[] };
  Receiver: new (options: { isServer: boolean }) => EventEmitter & { write(bytes: Buffer): void };
}
const { Receiver, Sender }: Frames = createRequire(import.meta.url)('ws');

const frameOf = (bytes: number, isMasked: boolean): Buffer => {
  const options = { fin: true, rsv1: false, opcode: 2, mask: isMasked, readOnly: true, maskBuffer: Buffer.alloc(4) };
  return Buffer.concat(Sender.frame(Buffer.alloc(bytes, 0x88), options));
};
const sizes = fc.oneof(fc.nat(200), fc.constantFrom(125, 126, 127, 65_535, 65_536, 100_000));

test('exactly the ends of frames are found, however the bytes are cut', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(sizes, fc.boolean()), { minLength: 1, maxLength: 5 }),
      fc.array(fc.integer({ min: 1, max: 70_000 }), { minLength: 1 }),
      (frames, cuts) => {
        const parts = frames.map(([bytes, isMasked]) => frameOf(bytes, isMasked));
        const ends = new Set<number>();
        let end = 0;
        for (const part of parts) {
          end += part.length;
          ends.add(end);
        }
        const stream = Buffer.concat(parts);
        const follower = createFrameFollower();
        expect(follower.isBetweenFrames()).toBe(true);
        for (let at = 0, i = 0; at < stream.length; i++) {
          const next = Math.min(at + (cuts[i % cuts.length] ?? 1), stream.length);
          follower.pass(stream.subarray(at, next));
          at = next;
          expect(follower.isBetweenFrames()).toBe(ends.has(at));
        }
      },
    ),
    { numRuns: 200 },
  );
});

test.each([true, false])('a close frame is valid for either side (masked: %s)', async (isMasked) => {
  const receiver = new Receiver({ isServer: isMasked });
  const concluded = once(receiver, 'conclude');
  receiver.write(closeFrame(1012, 'The gateway is stopping.', isMasked));
  expect((await concluded).map(String)).toEqual(['1012', 'The gateway is stopping.']);
});
