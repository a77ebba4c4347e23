import {
  type Box,
  type BoxQuery,
  boxPageSchema,
  boxSchema,
  type CreateBox,
  type Template,
  templatePageSchema,
  templateSchema,
  type UpdateBox,
} from './boxes.ts';
import { type Counting, followEvents } from './client-events.ts';
import { type CallOptions, type CreateOptions, pathOf, type Transport } from './client-transport.ts';
import { type BoxStats, type BoxStatsEvent, boxStatsEventSchema, boxStatsSchema } from './stats.ts';
import { type Ticket, ticketSchema } from './tickets.ts';

/** A box may have to be started from nothing. */
const createSeconds = 180;
/** Packages are installed after the start, in up to five minutes of their own. */
const installSeconds = 340;

/** All files of a box are on their way. */
const restSeconds = 700;

/** Samples are not counted over streams, and none is the last. */
const sampled: Counting<BoxStatsEvent> = {
  position: ({ seq }) => seq,
  isRepeated: () => false,
  isLast: () => false,
};

/** Boxes: made, found, kept and ended. */
export const createBoxes = (transport: Transport) => ({
  /** A new box, or the user's own with `reuse`. */
  create: (body: CreateBox = {}, options?: CreateOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes'),
      json: body,
      creates: true,
      deadlineSeconds: createSeconds + (body.packages?.length ? installSeconds : 0),
      options,
    }),

  /** Also one that has ended. */
  read: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, { path: pathOf('boxes', box), options }),

  /** The newest first; those that have ended only when asked for by `state`. */
  list: (query: Partial<Omit<BoxQuery, 'cursor'>> = {}, options?: CallOptions) =>
    transport.items(boxPageSchema, { path: pathOf('boxes'), query, options }),

  /** Changes metadata, times and what it does when idle. */
  update: (box: string, body: UpdateBox, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, { method: 'PATCH', path: pathOf('boxes', box), json: body, options }),

  /** Puts off the idle end. */
  keepalive: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, { method: 'POST', path: pathOf('boxes', box, 'keepalive'), options }),

  /** Freezes it with its variables. A `conflict` while code runs there. Any use brings it back. */
  pause: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'pause'),
      deadlineSeconds: createSeconds,
      options,
    }),

  /** Has it ready again, from its memory or its files. */
  resume: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'resume'),
      deadlineSeconds: restSeconds,
      options,
    }),

  /** Puts its files aside and ends what runs it. A `conflict` while code runs there. Any use brings it back. */
  hibernate: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'hibernate'),
      deadlineSeconds: restSeconds,
      options,
    }),

  /** Puts its files aside, for the case that its instance is lost. */
  checkpoint: (box: string, options?: CallOptions): Promise<Box> =>
    transport.json(boxSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'checkpoint'),
      deadlineSeconds: restSeconds,
      options,
    }),

  /** What it uses now and at most, against its limits. */
  stats: (box: string, options?: CallOptions): Promise<BoxStats> =>
    transport.json(boxStatsSchema, { path: pathOf('boxes', box, 'stats'), options }),

  /** The same again and again, every two seconds unless given; ends by `gone` when the box has ended. */
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

  /** Ends it with its files; doing that again does nothing. */
  delete: (box: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box), options }),
});

/** What boxes are made from. */
export const createTemplates = (transport: Transport) => ({
  list: (options?: CallOptions) => transport.items(templatePageSchema, { path: pathOf('templates'), options }),

  read: (template: string, options?: CallOptions): Promise<Template> =>
    transport.json(templateSchema, { path: pathOf('templates', template), options }),
});

/** What a browser connects with, which cannot send a key: made by the app, good for one connection within 60 s. */
export const createTickets = (transport: Transport) => ({
  create: (box: string, options?: CallOptions): Promise<Ticket> =>
    transport.json(ticketSchema, { method: 'POST', path: pathOf('boxes', box, 'tickets'), options }),
});

/** Servers that listen inside a box. */
export const createPorts = (transport: Transport) => {
  const pathAt = (box: string, port: number, path: string) =>
    `${pathOf('boxes', box, 'ports', String(port))}/${path.replace(/^\//, '')}`;
  return {
    /** Where a port is: for a browser with a ticket behind it, `?ticket=`. */
    url: (box: string, port: number, path = '/'): string => `${transport.base}${pathAt(box, port, path)}`,

    /** `fetch` from a server in the box: its answer as it is. A 502 means that nothing listens there. */
    fetch: (box: string, port: number, path: string, init: RequestInit = {}): Promise<Response> =>
      transport.raw(pathAt(box, port, path), init),
  };
};
