/**
 * Tracks the frame boundaries in one direction of a WebSocket without reading the payloads, so that a frame can be inserted between two
 * others.
 */
export const createFrameFollower = () => {
  let head: number[] = [];
  let headBytes = 2;
  let bodyBytes = 0;

  const readHead = (byte: number) => {
    head.push(byte);
    if (head.length === 2) {
      const length = byte & 0x7f;
      headBytes = 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + (byte & 0x80 ? 4 : 0);
    }
    if (head.length < headBytes) return;
    const length = (head[1] ?? 0) & 0x7f;
    const longer = head.slice(2, length === 126 ? 4 : length === 127 ? 10 : 2);
    bodyBytes = longer.length === 0 ? length : longer.reduce((sum, part) => sum * 256 + part, 0);
    head = [];
    headBytes = 2;
  };

  return {
    /** Processes a chunk that was just forwarded. */
    pass(chunk: Uint8Array): void {
      for (let at = 0; at < chunk.length; ) {
        const skipped = Math.min(bodyBytes, chunk.length - at);
        bodyBytes -= skipped;
        at += skipped;
        if (at < chunk.length && bodyBytes === 0) readHead(chunk[at++] ?? 0);
      }
    },

    /** Whether everything forwarded so far is complete frames. */
    isBetweenFrames: (): boolean => bodyBytes === 0 && head.length === 0,
  };
};

/** Creates a close frame with a reason of at most 123 bytes. A frame to a server has to be masked. */
export const closeFrame = (code: number, reason: string, isMasked: boolean): Buffer => {
  const text = Buffer.from(reason);
  const body = Buffer.alloc(2 + text.length);
  body.writeUInt16BE(code);
  text.copy(body, 2);
  // A mask of zeros suffices: masks protect caches from payloads that look like requests, and this is not one.
  const head = isMasked ? [0x88, 0x80 | body.length, 0, 0, 0, 0] : [0x88, body.length];
  return Buffer.concat([Buffer.from(head), body]);
};
