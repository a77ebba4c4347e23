import { setTimeout as sleep } from 'node:timers/promises';
import { type Box, CodeBoxError } from '#contract';
import type { RunningGateway } from '../api/harness.ts';

export interface LoadResult {
  /** How long each successful create took, in ms, in ascending order. */
  tookMs: number[];
  warm: number;
  /** Refused creates by their error. */
  refused: Record<string, number>;
  /** From the first request to the last response. */
  seconds: number;
  boxes: Box[];
}

export interface Load {
  count: number;
  perSecond: number;
  /** For each box that is created, one of these is deleted and the new one takes its place. */
  replaced?: Box[];
}

/** Creates boxes at a steady rate, whether or not earlier requests have been answered, at each gateway in turn. */
export const createBoxes = async (
  gateways: readonly RunningGateway[],
  { count, perSecond, replaced }: Load,
): Promise<LoadResult> => {
  const result: LoadResult = { tookMs: [], warm: 0, refused: {}, seconds: 0, boxes: [] };
  const startedAt = performance.now();
  const createOne = async (n: number) => {
    const gateway = gateways[n % gateways.length];
    const askedAt = performance.now();
    try {
      const box = await gateway?.client.boxes.create({}, { idempotencyKey: false, deadlineSeconds: 120 });
      if (box === undefined) return;
      result.tookMs.push(performance.now() - askedAt);
      if (box.startup?.kind === 'warm') result.warm += 1;
      result.boxes.push(box);
      const old = replaced?.shift();
      replaced?.push(box);
      if (old) await gateway?.client.boxes.delete(old.id);
    } catch (error) {
      const code = error instanceof CodeBoxError ? `${error.code}: ${error.message}` : String(error);
      result.refused[code] = (result.refused[code] ?? 0) + 1;
    }
  };
  const requests: Promise<void>[] = [];
  for (let n = 0; n < count; n++) {
    await sleep(Math.max(0, startedAt + (n * 1000) / perSecond - performance.now()));
    requests.push(createOne(n));
  }
  await Promise.all(requests);
  result.seconds = (performance.now() - startedAt) / 1000;
  result.tookMs.sort((a, b) => a - b);
  return result;
};
