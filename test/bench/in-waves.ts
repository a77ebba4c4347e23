/** Runs a task so many times, a few of them at once, and gives their answers in order. */
export const inWaves = async <T>(count: number, atOnce: number, task: (n: number) => Promise<T>): Promise<T[]> => {
  const answers: T[] = [];
  for (let n = 0; n < count; n += atOnce) {
    const wave = Array.from({ length: Math.min(atOnce, count - n) }, (_, i) => task(n + i));
    answers.push(...(await Promise.all(wave)));
  }
  return answers;
};
