import { CodeBoxError } from '#contract';
import type { Daemon } from '../daemon/daemon.ts';

const removeAttempts = 4;

/** Removes a container with its processes. Resolves when it is gone, also if it was before; throws `unavailable` if it is not in time. */
export const removeContainer = async (daemon: Daemon, name: string, signal: AbortSignal): Promise<void> => {
  await remove(daemon, name, signal);
  await waitUntilGone(daemon, name, signal);
};

/** Removes a container. The daemon refuses while a gVisor sandbox is ending, so the removal is tried again. */
const remove = async (daemon: Daemon, name: string, signal: AbortSignal): Promise<void> => {
  for (let attempt = 1; ; attempt++) {
    try {
      await daemon.callIfThere(signal, (docker, abortSignal) =>
        docker.getContainer(name).remove({ force: true, v: true, abortSignal }),
      );
      return;
    } catch (error) {
      if (attempt === removeAttempts || signal.aborted) throw error;
      await new Promise((done) => setTimeout(done, 500));
    }
  }
};

/** Waits until a container is gone: when another removal is in progress, the daemon responds before it is complete. */
const waitUntilGone = async (daemon: Daemon, name: string, signal: AbortSignal): Promise<void> => {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const found = await daemon.callIfThere(signal, (docker, abortSignal) =>
      docker.getContainer(name).inspect({ abortSignal }),
    );
    if (found === undefined) return;
    if (performance.now() > deadline)
      throw new CodeBoxError('unavailable', 'The container could not be removed in time.');
    await new Promise((done) => setTimeout(done, 50));
  }
};
