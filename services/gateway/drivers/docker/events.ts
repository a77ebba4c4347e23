import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GetEventsOptions } from 'dockerode';
import type { Daemon } from './daemon.ts';

export interface EventsOptions {
  daemon: Daemon;
  deployment: string;
  /** An instance of the deployment has ended; without an id, any may have, while nobody listened. */
  onEnd: (id?: string) => void;
}

interface DaemonEvent {
  Type?: string;
  Actor?: { Attributes?: Record<string, string> };
}

const retryMs = 1000;
/** Some daemons report no event for an image that BuildKit has built. */
const trustMs = 60_000;
const filters: NonNullable<GetEventsOptions['filters']> = {
  type: ['container', 'image'],
  event: ['die', 'tag', 'untag', 'delete', 'load', 'pull', 'import'],
};

/**
 * Listens to what the daemon tells of containers that end and of images that change, and begins anew whenever that breaks off. What
 * is remembered of images is right as long as it listens.
 */
export const followEvents = ({ daemon, deployment, onEnd }: EventsOptions) => {
  const stop = new AbortController();
  const images = new Map<string, { id: string | undefined; until: number }>();
  let isListening = false;
  /** Counts what makes images unknown again. */
  let changes = 0;

  const forget = () => {
    changes += 1;
    images.clear();
  };

  const take = (line: string) => {
    const { Type, Actor }: DaemonEvent = JSON.parse(line);
    if (Type === 'image') return forget();
    const { 'codebox.deployment': of, 'codebox.instance': id } = Actor?.Attributes ?? {};
    if (of === deployment && id !== undefined) onEnd(id);
  };

  const listen = async () => {
    // Not by `call`, whose deadline would end it.
    const options: GetEventsOptions & { abortSignal: AbortSignal } = { filters, abortSignal: stop.signal };
    const stream = await daemon.docker.getEvents(options);
    isListening = true;
    forget();
    onEnd();
    for await (const line of createInterface({ input: stream })) take(line);
  };

  const following = async () => {
    while (!stop.signal.aborted) {
      // The daemon is away, which every call to it says aloud.
      await listen().catch(() => undefined);
      isListening = false;
      await sleep(retryMs, undefined, { signal: stop.signal }).catch(() => undefined);
    }
  };
  void following();

  return {
    /** The id of the image that a name means now; asked for only when that is not known. */
    async imageId(name: string, ask: () => Promise<string | undefined>): Promise<string | undefined> {
      const known = images.get(name);
      if (isListening && known && known.until > performance.now()) return known.id;
      const before = changes;
      const id = await ask();
      if (isListening && before === changes) images.set(name, { id, until: performance.now() + trustMs });
      return id;
    },
    [Symbol.dispose]: () => stop.abort(),
  };
};

export type Events = ReturnType<typeof followEvents>;
