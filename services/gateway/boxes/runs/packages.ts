import type { InstallPackages, Package, PackageQuery, Page } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { BoxRef } from '../box-ref.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import type { Commands, OnAccepted } from './commands.ts';

export interface PackagesOptions {
  lifecycle: Lifecycle;
  commands: Commands;
  budget: CpuBudget;
}

const defaultTimeoutMs = 300_000;

/** Packages of a box. An installation is a command: what the box keeps of it is read, followed and ended as one. */
export const createPackages = ({ lifecycle, commands, budget }: PackagesOptions) => ({
  /** A page of what is installed, by name. */
  async list(ref: BoxRef, query: PackageQuery): Promise<Page<Package>> {
    const { server } = await lifecycle.use(ref);
    return await server.packages(query);
  },

  /**
   * Starts an installer. Its events can be read once; leaving them does not stop it; a detached one has none to read here. `conflict` in a box that can get
   * packages from nowhere, `cpu_limit` in one that has used all its CPU time. `onAccepted` is told its id before it is sent to
   * the box.
   */
  async install(ref: BoxRef, ask: InstallPackages, leave?: AbortSignal, onAccepted?: OnAccepted) {
    const { server, ...used } = await lifecycle.use(ref);
    const cpuLimitMs = await budget.ofRun(used, undefined);
    const { manager = 'pip', packages, timeoutSeconds, detach } = ask;
    const timeoutMs = timeoutSeconds === undefined ? defaultTimeoutMs : Math.round(timeoutSeconds * 1000);
    const id = newId('cmd');
    const over = new AbortController();
    const reading = { isDetached: detach, leave };
    await onAccepted?.(id);
    const opened = await server.install(
      id,
      { manager, packages, timeoutMs, ...(cpuLimitMs !== undefined && { cpuLimitMs }) },
      commands.unread(reading, over),
    );
    const patience = { timeoutMs, over };
    return { id, events: commands.begun({ ref, server, id, opened, patience }, reading) };
  },
});

export type Packages = ReturnType<typeof createPackages>;
