import type { InstallPackages, Package, PackageQuery, Page } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import { type Commands, type OnAccepted, toMs } from './commands.ts';

export interface PackagesOptions {
  access: Pick<Access, 'use'>;
  commands: Commands;
}

const defaultTimeoutMs = 300_000;

/** Lists and installs packages of a box. An installation is a command, and is read, followed and ended like one. */
export const createPackages = ({ access, commands }: PackagesOptions) => ({
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
    const { manager = 'pip', packages, timeoutSeconds, detach } = ask;
    const timeoutMs = toMs(timeoutSeconds) ?? defaultTimeoutMs;
    return await commands.launch(
      ref,
      { timeoutMs, isDetached: detach, leave, onAccepted },
      (server, id, limits, unread) => server.install(id, { manager, packages, ...limits }, unread),
    );
  },
});

export type Packages = ReturnType<typeof createPackages>;
