/**
 * Tracks which boxes are in use: by requests, open streams, terminals and port connections, and by runs and commands that are followed
 * to their ends. Uses are written to the database together every few seconds, which is enough beside idle times of minutes, so that a
 * use does not cost a write.
 */
export const createActivity = (touch: (boxIds: string[]) => Promise<unknown>) => {
  const held = new Map<string, number>();
  let used = new Set<string>();

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

    /** Writes the uses since the last call. If that fails, they are kept for the next call. */
    async flush(): Promise<void> {
      const due = used;
      used = new Set();
      try {
        await touch([...new Set([...due, ...held.keys()])]);
      } catch (error) {
        for (const id of due) used.add(id);
        throw error;
      }
    },
  };
};

export type Activity = ReturnType<typeof createActivity>;
