import { type Box, type BoxQuery, boxPageSchema, boxSchema, type CreateBox, type UpdateBox } from '../boxes/boxes.ts';
import { type BoxStats, type BoxStatsEvent, boxStatsEventSchema, boxStatsSchema } from '../boxes/stats.ts';
import { type Ticket, ticketSchema } from '../boxes/tickets.ts';
import { type CreatedLink, type CreateLink, createdLinkSchema, linkPageSchema } from '../files/links.ts';
import { type Counting, followEvents } from './events.ts';
import { type CallOptions, type CreateOptions, pathOf, type Transport } from './transport.ts';

/** A box may need a cold start. */
const createSeconds = 180;
/** Packages are installed after the start and take up to five minutes of their own. */
const installSeconds = 340;

/** All files of the box are transferred. */
const restSeconds = 700;

/** Samples are not numbered across streams, and no sample is the last. */
const sampled: Counting<BoxStatsEvent> = {
  position: ({ seq }) => seq,
  isRepeated: () => false,
  isLast: () => false,
};

/** Creates, finds, rests and deletes boxes. */
export const createBoxes = (transport: Transport) => ({
  /** Creates a box, or returns the user's own one with `reuse` or `name`. */
  create: (body: CreateBox = {}, options?: CreateOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes'),
      json: body,
      creates: true,
      deadlineSeconds: createSeconds + (body.packages?.length ? installSeconds : 0),
      options,
    }),

  /** Reads a box, including one that has ended. */
  read: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, { path: pathOf('boxes', box), options }),

  /** Newest first; boxes that have ended only when `state` asks for them. */
  list: (query: Partial<Omit<BoxQuery, 'cursor'>> = {}, options?: CallOptions) =>
    transport.items(boxPageSchema, { path: pathOf('boxes'), query, options }),

  /** Changes metadata, times and what happens when the box is idle. */
  update: (box: string, body: UpdateBox, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, { method: 'PATCH', path: pathOf('boxes', box), json: body, options }),

  /** Restarts the idle time. */
  keepalive: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, { method: 'POST', path: pathOf('boxes', box, 'keepalive'), options }),

  /** Freezes the box with its variables. Rejects with `conflict` while code runs in it. Any use resumes it. */
  pause: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'pause'),
      deadlineSeconds: createSeconds,
      options,
    }),

  /** Makes the box ready again, from its memory or its files. */
  resume: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'resume'),
      deadlineSeconds: restSeconds,
      options,
    }),

  /**
   * Stores the files of the box and ends its instance. Rejects with `conflict` while code runs in it. Any use restores
   * it.
   */
  hibernate: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'hibernate'),
      deadlineSeconds: restSeconds,
      options,
    }),

  /** Stores the files of the box, so that they survive the loss of its instance. */
  checkpoint: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'checkpoint'),
      deadlineSeconds: restSeconds,
      options,
    }),

  /** Current and peak usage of the box, against its limits. */
  stats: (box: string, options?: CallOptions): Promise<BoxStats> =>
    transport.json(boxStatsSchema, { path: pathOf('boxes', box, 'stats'), options }),

  /** Repeats `stats` every two seconds, or as often as given; ends with `gone` when the box has ended. */
  watchStats: (box: string, settings: { everySeconds?: number } & CallOptions = {}) => {
    const { everySeconds, ...options } = settings;
    const headers = { accept: 'application/x-ndjson' };
    const path = pathOf('boxes', box, 'stats');
    return followEvents<BoxStatsEvent>({
      schema: boxStatsEventSchema,
      counting: sampled,
      open: () => transport.open({ path, query: { everySeconds }, headers, options }),
      ...(options.signal && { signal: options.signal }),
    });
  },

  /** Deletes the box with its files; deleting it again has no effect. */
  delete: (box: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box), options }),
});

/** Lets a browser connect, which cannot send a key: the app creates a ticket, valid for one connection within 60 s. */
export const createTickets = (transport: Transport) => ({
  create: (box: string, options?: CallOptions): Promise<Ticket> =>
    transport.json(ticketSchema, { method: 'POST', path: pathOf('boxes', box, 'tickets'), options }),
});

/** Links to files of a box, for readers and writers without a key. */
export const createLinks = (transport: Transport) => ({
  /** The `url` of the new link is a path at the gateway's address. */
  create: (box: string, body: CreateLink, options?: CallOptions): Promise<CreatedLink> =>
    transport.json(createdLinkSchema, { method: 'POST', path: pathOf('boxes', box, 'links'), json: body, options }),

  /** Newest first. */
  list: (box: string, options?: CallOptions) =>
    transport.items(linkPageSchema, { path: pathOf('boxes', box, 'links'), options }),

  /** Revokes a link. */
  delete: (box: string, link: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box, 'links', link), options }),
});

/** Servers that listen inside a box. */
export const createPorts = (transport: Transport) => {
  const pathAt = (box: string, port: number, path: string) =>
    `${pathOf('boxes', box, 'ports', String(port))}/${path.replace(/^\//, '')}`;
  return {
    /** The URL of a port; for a browser, add a ticket as `?ticket=`. */
    url: (box: string, port: number, path = '/'): string => `${transport.base}${pathAt(box, port, path)}`,

    /**
     * `fetch` from a server in the box; resolves with its response unchanged. A 502 means that nothing listens there.
     */
    fetch: (box: string, port: number, path: string, init: RequestInit = {}): Promise<Response> =>
      transport.raw(pathAt(box, port, path), init),
  };
};
