/** Follows the frames of one side of a WebSocket (RFC 6455, section 5.2), whose bytes somebody else reads. */
export interface Frames {
  /** Takes the next bytes. */
  read(chunk: Buffer): void;
  /** The bytes since the beginning of a message that is not complete; 0 between messages, and after a close frame. */
  arriving(): number;
}

const close = 8;

/** Returns how long the head of a frame is that begins with these two bytes. */
const headBytes = (second: number): number => {
  const length = second & 0x7f;
  return 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + (second & 0x80 ? 4 : 0);
};

const payloadBytes = (head: Buffer): number => {
  const length = (head[1] ?? 0) & 0x7f;
  return length === 126 ? head.readUInt16BE(2) : length === 127 ? Number(head.readBigUInt64BE(2)) : length;
};

export const followFrames = (): Frames => {
  const head = Buffer.alloc(14);
  let known = 0;
  /** The bytes of the payload that have not arrived, once the head is known. */
  let left = 0;
  let isInFrame = false;
  let isInMessage = false;
  let isOver = false;
  let arriving = 0;

  const endFrame = () => {
    const [first = 0] = head;
    const opcode = first & 0x0f;
    isInFrame = false;
    known = 0;
    if (opcode === close) isOver = true;
    // Control frames may come between those of a message, and belong to it as long as it is not complete.
    else if (opcode < close) isInMessage = (first & 0x80) === 0;
    if (!isInMessage) arriving = 0;
  };

  /** Takes bytes of a head or of a payload, and returns how many. */
  const step = (rest: Buffer): number => {
    if (isInFrame) {
      const taken = Math.min(left, rest.length);
      left -= taken;
      return taken;
    }
    const wanted = known < 2 ? 2 : headBytes(head[1] ?? 0);
    const taken = rest.copy(head, known, 0, wanted - known);
    known += taken;
    if (known >= 2 && known === headBytes(head[1] ?? 0)) {
      isInFrame = true;
      left = payloadBytes(head);
    }
    return taken;
  };

  return {
    read(chunk) {
      for (let at = 0; at < chunk.length && !isOver; ) {
        const taken = step(chunk.subarray(at));
        at += taken;
        arriving += taken;
        if (isInFrame && left === 0) endFrame();
      }
    },
    arriving: () => (isOver ? 0 : arriving),
  };
};
