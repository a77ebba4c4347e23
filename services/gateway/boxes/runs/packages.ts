import type { InstallPackages, Package, PackageQuery, Page } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Commands, OnAccepted } from './commands.ts';

export interface PackagesOptions {
  access: Pick<Access, 'use'>;
  commands: Commands;
  budget: CpuBudget;
}

const defaultTimeoutMs = 300_000;

/** Lists and installs packages of a box. An installation is a command, and is read, followed and ended like one. */
export const createPackages = ({ access, commands, budget }: PackagesOptions) => ({
  /** Returns a page of the installed packages, by name. */
  async list(ref: BoxRef, query: PackageQuery): Promise<Page<Package>> {
    const { server } = await access.use(ref);
    return await server.packages(query);
  },

  /**
   * Starts an installer. Its events can be read once, and leaving them does not stop it; a detached one returns no events. Throws
   * `conflict` when no package index is reachable from the box, `cpu_limit` when the box has used all its CPU time. Calls `onAccepted`
   * with the id of the command before the request is sent to the box.
   */
  async install(ref: BoxRef, ask: InstallPackages, leave?: AbortSignal, onAccepted?: OnAccepted) {
    const { server, ...used } = await access.use(ref);
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
