import { and, eq, isNull } from 'drizzle-orm';
import type { Database } from '../database.ts';
import { boxes } from '../schema.ts';
import type { BoxRow } from './boxes.ts';
import { nextVersion, noTask } from './tasks.ts';

/** The networks of living boxes. */
export const createNetworkStore = (db: Database) => ({
  /** Records the network of a box that is in force by now. */
  async markConnected(boxId: string, id: string, network: BoxRow['network']): Promise<boolean> {
    const rows = await db
      .update(boxes)
      .set({ ...noTask, network, version: nextVersion })
      .where(and(eq(boxes.id, boxId), eq(boxes.taskId, id)))
      .returning({ id: boxes.id });
    return rows.length > 0;
  },

  /** Records the network that a hibernated box is to have; returns false when the box does not hibernate, or is being restored. */
  async set(boxId: string, network: BoxRow['network']): Promise<boolean> {
    const rows = await db
      .update(boxes)
      .set({ network, version: nextVersion })
      .where(and(eq(boxes.id, boxId), eq(boxes.state, 'hibernated'), isNull(boxes.task)))
      .returning({ id: boxes.id });
    return rows.length > 0;
  },
});
