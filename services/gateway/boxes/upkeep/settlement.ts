import { type Cause, CodeBoxError } from '#contract';
import type { Background } from '../../../waiting/background.ts';
import type { UnsettledExecution } from '../../store/box/executions.ts';
import type { Store } from '../../store/store.ts';
import { boxOf } from '../box-ref.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import type { Recorder } from '../life/recorder.ts';
import { type Following, lostEvent, whyRunGone } from '../runs/following.ts';
import { noEnd } from '../runs/run-clock.ts';

export interface SettlementOptions {
  /** The id of this gateway. */
  gateway: string;
  site: string;
  store: Pick<Store, 'executions'>;
  lifecycle: Pick<Lifecycle, 'find' | 'past' | 'whyGone'>;
  following: Following;
  background: Background;
  recorder: Recorder;
}

const pageSize = 200;
const boxesAtOnce = 8;

/**
 * Finds the ends of executions that nobody follows any more. Those whose gateway has died are followed on by this one. That one is
 * `lost` is said only of those and of this gateway's own: what another living gateway does not tell of, it may be sending just now.
 */
export const createSettlement = (options: SettlementOptions) => {
  const { gateway, site, store, lifecycle, following, background, recorder } = options;

  /** One after the other; a box that did not answer once is left for the next time. */
  const settleBox = async (found: UnsettledExecution[]): Promise<void> => {
    for (const one of found) if (!(await background.attempt('settle an execution', () => settleOne(one)))) return;
  };

  const settleOne = async ({ row, isAbandoned }: UnsettledExecution): Promise<void> => {
    const isHeld = following.isHeld(row.id);
    const isOurs = isAbandoned || row.gatewayId === gateway;
    // Frozen, it neither ends nor can be asked.
    if ((await lifecycle.find(boxOf(row))).state === 'paused') return;
    const server = await lifecycle.past(boxOf(row), { isUse: false });
    let cause: Cause | undefined;
    try {
      const found = await server?.readExecution(row.id);
      const where = found?.context && found.language ? { context: found.context, language: found.language } : undefined;
      // Also of one that is followed here: its events, and the end with them, wait for a reader who may not take them.
      if (found?.done) return recorder.record(row, found.done, where);
      if (found && (isHeld || !isOurs)) return;
      if (found && (await following.isOverdue(row)))
        return recorder.record(row, lostEvent(found.lastSeq + 1, noEnd), where);
      if (found && server) {
        if (await store.executions.adopt(row)) following.inBackground(row, server, found.lastSeq, where);
        return;
      }
    } catch (error) {
      if (!(error instanceof CodeBoxError)) throw error;
      if (error.code === 'not_found') {
        if (!isOurs) return;
        cause = { code: 'journal_lost', detail: 'The box no longer knows this run.' };
      }
    }
    if (isHeld) return;
    cause ??= await whyRunGone(lifecycle, row);
    if (!cause && isOurs && (await following.isOverdue(row))) cause = noEnd;
    if (!cause) throw new CodeBoxError('unavailable', 'The box does not answer.');
    recorder.record(row, server ? await following.forgotten(row, server, 1, cause) : lostEvent(1, cause));
  };

  /** Page by page: those that nobody follows, and all that have counted as running for longer than `olderThanMs`. */
  return async (olderThanMs: number): Promise<void> => {
    // What is known here comes before what a box, or its absence, tells.
    await recorder.flush();
    for (let after = ''; ; ) {
      const page = await store.executions.unsettled(site, after, olderThanMs, pageSize);
      const boxes = [...Map.groupBy(page, ({ row }) => row.boxId).values()];
      for (let at = 0; at < boxes.length; at += boxesAtOnce) {
        await Promise.all(boxes.slice(at, at + boxesAtOnce).map(settleBox));
      }
      const last = page.at(-1);
      if (page.length < pageSize || !last) return;
      after = last.row.id;
    }
  };
};

export type Settlement = ReturnType<typeof createSettlement>;
