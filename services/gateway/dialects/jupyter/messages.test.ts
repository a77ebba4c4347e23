import { expect, test } from 'vitest';
import { binaryProtocol, decodeClient, decodeKernel, encode, type ServerMessage, toMessage } from './messages.ts';

const message: ServerMessage = {
  ...toMessage(undefined, { channel: 'shell', type: 'comm_msg', content: { text: 'hä' } }),
  buffers: ['abc', ''].map((text) => new DataView(new TextEncoder().encode(text).buffer)),
};
const bytesOf = (buffers: DataView[] = []) => buffers.map((view) => Buffer.from(view.buffer).toString());

test.each(['', binaryProtocol])('a message with buffers survives the protocol "%s"', (protocol) => {
  const wire = encode(message, protocol);
  if (typeof wire === 'string') throw new Error('a message with buffers is not text');
  const read = decodeClient(Buffer.from(wire), true, protocol);
  expect(read).toMatchObject({ channel: 'shell', header: { msg_type: 'comm_msg' }, content: { text: 'hä' } });
  expect(bytesOf(read?.buffers)).toEqual(['abc', '']);
});

test('a frame of a kernel is read, and a truncated one is no message or a shorter one', () => {
  const wire = Buffer.from(encode(message, binaryProtocol));
  expect(decodeKernel(wire)?.read()).toMatchObject({ msg_type: 'comm_msg', content: { text: 'hä' } });
  for (let length = 0; length < wire.length; length++) expect(decodeKernel(wire.subarray(0, length))).toBeUndefined();
});

test('hostile frames are refused', () => {
  const frames = [
    Buffer.alloc(8, 0xff),
    // Offsets that overlap would multiply the size of a message.
    Buffer.concat([Buffer.from([0, 0, 0, 2, 0, 0, 0, 12, 0, 0, 0, 4]), Buffer.from('{}')]),
    Buffer.from([0, 0, 0, 1, 0, 0, 0, 99]),
    Buffer.alloc(0),
  ];
  for (const frame of frames)
    for (const protocol of ['', binaryProtocol]) expect(decodeClient(frame, true, protocol)).toBeUndefined();
  for (const text of ['', '{', 'null', '[]', `${'['.repeat(100)}`, '{"header": {}}', '{"channel": "iopub"}'])
    expect(decodeClient(Buffer.from(text), false, '')).toBeUndefined();
});
