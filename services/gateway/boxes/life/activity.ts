/**
 * Tracks which boxes are in use: by requests, open streams, terminals and port connections, and by runs and commands that are followed
 * to their ends. Uses are written to the database together every few seconds, which is enough beside idle times of minutes, so that a
 * use does not cost a write. `touch` resolves with the boxes whose use it has written, and `everyMs` is the time between two calls of
 * `flush`.
 */
export const createActivity = (touch: (boxIds: string[]) => Promise<string[]>, everyMs: number) => {
  const held = new Map<string, number>();
  let used = new Set<string>();
  /** When a use of each box was last written, by `performance.now()`, since the last flush began. */
  let written = new Map<string, number>();

  const write = async (boxIds: string[]) => {
    const now = performance.now();
    for (const id of await touch(boxIds)) written.set(id, now);
  };

  return {
    /** Notes a single use of a box. */
    note(boxId: string): void {
      used.add(boxId);
    },

    /** Keeps a box in use until the returned function is called. */
    hold(boxId: string): () => void {
      held.set(boxId, (held.get(boxId) ?? 0) + 1);
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        used.add(boxId);
        const left = (held.get(boxId) ?? 1) - 1;
        if (left > 0) held.set(boxId, left);
        else held.delete(boxId);
      };
    },

    /** Makes sure that the last written use of these boxes is at most as old as a use that waits for the next flush. */
    async writeLate(boxIds: string[]): Promise<void> {
      const now = performance.now();
      await write(boxIds.filter((id) => now - (written.get(id) ?? Number.NEGATIVE_INFINITY) >= everyMs));
    },

    /** Writes the uses since the last call. If that fails, they are kept for the next call. */
    async flush(): Promise<void> {
      const due = used;
      used = new Set();
      written = new Map();
      try {
        await write([...new Set([...due, ...held.keys()])]);
      } catch (error) {
        for (const id of due) used.add(id);
        throw error;
      }
    },
  };
};

export type Activity = ReturnType<typeof createActivity>;
