/**
 * What boxes are in use: those of which requests want something, and those with open streams, terminals, port connections, or runs
 * and commands that are followed to their ends. Single uses and held streams are written to the database together every few
 * seconds, which is often enough beside idle times of minutes, so that using a box does not cost a write each time.
 */
export const createActivity = (touch: (boxIds: string[]) => Promise<unknown>) => {
  const held = new Map<string, number>();
  let used = new Set<string>();

  return {
    /** The box was used just now. */
    note(boxId: string): void {
      used.add(boxId);
    },

    /** The box is in use until the answer is called. */
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

    /** Writes what is due; what could not be written is kept for the next time. */
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
