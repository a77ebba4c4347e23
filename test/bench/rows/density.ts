import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { footprint } from '../footprint.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { proportionalMiB } from '../process-memory.ts';
import { mustRun } from '../program.ts';
import { measure, type Row } from '../report.ts';
import { untilWarm } from '../warm-pool.ts';

const size = 8;
const MiBInGiB = 1024;

/** Measures the number of idle warm boxes per GiB of memory, each with its kernel and libraries. Needs Docker. */
export const measureDensity = async (own: GatewayOptions): Promise<Row> => {
  await using gateway = await startGateway({ ...own, warm: size });
  await untilWarm(gateway, size);
  const folder = await readdir(join(gateway.dataDir, 'run'));
  const instances = folder.filter((name) => !name.startsWith('.'));
  const [groups, shares]: [number[], number[]] = [[], []];
  for (const instance of instances) {
    const container = await mustRun(['docker', 'ps', '--quiet', '--filter', `label=codebox.instance=${instance}`]);
    const pid = Number(await mustRun(['docker', 'inspect', '--format', '{{.State.Pid}}', container]));
    const [{ group, share }, keeper] = [await footprint(pid), await proportionalMiB(await parentOf(pid))];
    groups.push(group + keeper);
    shares.push(share + keeper);
  }
  return {
    id: 'density',
    title: 'Idle warm boxes',
    measures: [
      measure('one box', 'MiB', groups),
      measure('one box, PSS', 'MiB', shares),
      measure('boxes', 'per GiB', [perGiB(groups)]),
      measure('boxes, PSS', 'per GiB', [perGiB(shares)]),
    ],
    ratios: [],
    bars: [],
    notes: [
      `Measured with ${size} boxes, each with a Python kernel that has loaded numpy, pandas and matplotlib. The memory of a box includes the process that keeps its container.`,
    ],
  };
};

const perGiB = (values: readonly number[]): number =>
  (MiBInGiB * values.length) / values.reduce((sum, one) => sum + one, 0);

const parentOf = async (pid: number): Promise<number> => {
  const parent = /^PPid:\s+(\d+)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (parent === undefined) throw new Error(`process ${pid} has no parent`);
  return Number(parent);
};
