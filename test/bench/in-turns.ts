/** Does the same thing `rounds` times, and resolves with the milliseconds of each. */
export type Contender = (rounds: number) => Promise<number[]>;

const block = 20;

/** A contender that does `once` in each round, which resolves with whether the result is right. Throws for a wrong one. */
export const timed =
  (once: () => Promise<boolean>): Contender =>
  async (rounds) => {
    const samples: number[] = [];
    for (let i = 0; i < rounds; i++) {
      const startedAt = performance.now();
      const isRight = await once();
      samples.push(performance.now() - startedAt);
      if (!isRight) throw new Error('1+1 did not result in 2');
    }
    return samples;
  };

/** Measures contenders in turns of twenty rounds, after a warm-up of each. */
export const inTurns = async (
  contenders: Record<string, Contender>,
  rounds: number,
  warmUp: number,
): Promise<Record<string, number[]>> => {
  for (const run of Object.values(contenders)) await run(warmUp);
  const all = Object.entries(contenders).map(([name, run]) => ({ name, run, samples: [] as number[] }));
  for (let done = 0; done < rounds; done += block) {
    for (const { run, samples } of all) samples.push(...(await run(block)));
  }
  return Object.fromEntries(all.map(({ name, samples }) => [name, samples]));
};
