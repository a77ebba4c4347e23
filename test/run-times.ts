import { cpus } from 'node:os';
import { relative } from 'node:path';
import type { Reporter, TestModule, Vitest } from 'vitest/node';

const shown = 20;

/** Returns the total and the busy time of all CPUs since boot, in milliseconds. */
const processorTimes = (): { all: number; busy: number } => {
  const times = cpus().map((cpu) => cpu.times);
  const all = times.flatMap((time) => Object.values(time)).reduce((sum, ms) => sum + ms, 0);
  return { all, busy: all - times.reduce((sum, { idle }) => sum + idle, 0) };
};

/** Prints where the time of a run went: the slowest files, and how busy the CPUs were. */
export class RunTimes implements Reporter {
  #root = '';
  #begun = processorTimes();

  onInit(vitest: Vitest): void {
    this.#root = vitest.config.root;
    this.#begun = processorTimes();
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    if (modules.length < 2) return;
    const files = modules
      .map((file) => ({ file, ms: file.diagnostic().duration }))
      .sort((one, other) => other.ms - one.ms);
    const lines = files.slice(0, shown).map(({ file, ms }) => {
      const seconds = (ms / 1000).toFixed(1).padStart(7);
      return `${seconds} s  ${relative(this.#root, file.moduleId)}`;
    });
    const now = processorTimes();
    const share = ((now.busy - this.#begun.busy) / Math.max(1, now.all - this.#begun.all)) * 100;
    process.stdout.write(`\nThe slowest files:\n${lines.join('\n')}\nThe CPUs were busy for ${share.toFixed(0)} %.\n`);
  }
}
