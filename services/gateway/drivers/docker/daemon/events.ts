import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GetEventsOptions } from 'dockerode';
import type { Daemon } from './daemon.ts';

export interface EventsOptions {
  daemon: Daemon;
  deployment: string;
  /** Called when an instance of the deployment has ended; without an id when any may have, unobserved. */
  onEnd: (id?: string) => void;
}

interface DaemonEvent {
  Type?: string;
  Actor?: { Attributes?: Record<string, string> };
}

const retryMs = 1000;
/** How long a cached image id is used: some daemons report no event for images that BuildKit builds. */
const cacheMs = 60_000;
const filters: NonNullable<GetEventsOptions['filters']> = {
  type: ['container', 'image'],
  event: ['die', 'tag', 'untag', 'delete', 'load', 'pull', 'import'],
};

/**
 * Follows the daemon's events of containers that end and of images that change, and reconnects after each interruption of the stream. Image
 * ids are cached only while it is connected.
 */
export const followEvents = ({ daemon, deployment, onEnd }: EventsOptions) => {
  const stop = new AbortController();
  const images = new Map<string, { id: string | undefined; until: number }>();
  let isListening = false;
  /** Counts invalidations of the cache of images. */
  let changes = 0;

  const forget = () => {
    changes += 1;
    images.clear();
  };

  const handle = (line: string) => {
    const { Type, Actor }: DaemonEvent = JSON.parse(line);
    if (Type === 'image') return forget();
    const { 'codebox.deployment': of, 'codebox.instance': id } = Actor?.Attributes ?? {};
    if (of === deployment && id !== undefined) onEnd(id);
  };

  const listen = async () => {
    // Not through `call`, whose deadline would end the stream.
    const options: GetEventsOptions & { abortSignal: AbortSignal } = { filters, abortSignal: stop.signal };
    const stream = await daemon.docker.getEvents(options);
    isListening = true;
    forget();
    onEnd();
    for await (const line of createInterface({ input: stream })) handle(line);
  };

  const following = async () => {
    while (!stop.signal.aborted) {
      // An unavailable daemon is reported by every other call.
      await listen().catch(() => undefined);
      isListening = false;
      await sleep(retryMs, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  };
  void following();

  return {
    /** Returns the id of the image with this name, from the cache or by `find`. */
    async imageId(name: string, find: () => Promise<string | undefined>): Promise<string | undefined> {
      const known = images.get(name);
      if (isListening && known && known.until > performance.now()) return known.id;
      const before = changes;
      const id = await find();
      if (isListening && before === changes) images.set(name, { id, until: performance.now() + cacheMs });
      return id;
    },
    [Symbol.dispose]: () => stop.abort(),
  };
};

export type Events = ReturnType<typeof followEvents>;
