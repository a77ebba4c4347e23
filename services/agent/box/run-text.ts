/** How many characters of the beginning, and at least of the end, of a text are kept. */
const keptCharacters = 1_048_576;

/** Collects text in bounded memory: all of it, or its head and tail with a note about the gap. */
export const createRunText = (kept = keptCharacters) => {
  let head = '';
  let tail = '';
  let missingBytes = 0;
  return {
    add(text: string): void {
      const room = kept - head.length;
      head += text.slice(0, room);
      tail += text.slice(room);
      if (tail.length <= 2 * kept) return;
      missingBytes += Buffer.byteLength(tail.slice(0, -kept));
      tail = tail.slice(-kept);
    },
    read: (): string =>
      missingBytes === 0 ? head + tail : `${head}\n[… ${missingBytes} bytes are left out here …]\n${tail}`,
  };
};
