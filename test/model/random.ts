/** Returns a seeded random generator of numbers from 0 to 1 (mulberry32). */
export const randomOf = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

/** Returns the seed of this run, `CODEBOX_TEST_SEED` or a random one, and prints it so that a failure can be reproduced. */
export const seedOf = (what: string): number => {
  const seed = Number(process.env.CODEBOX_TEST_SEED ?? Math.floor(Math.random() * 2 ** 31));
  process.stdout.write(`${what}: CODEBOX_TEST_SEED=${seed}\n`);
  return seed;
};
