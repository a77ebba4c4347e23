import type { Context } from 'hono';
import type { CommandEvent, ExecutionEvent } from '#contract';
import { resumeAfter, streamEvents, streamFormat } from '../../../http/stream.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { Env } from '../env.ts';

/** Where a run is: its box and its id there. */
export interface RunPlace {
  ref: BoxRef;
  id: string;
}

/** What the runs of code and those of processes do each in their own way. `A` is what was asked for, or is known of it. */
export interface RunKind<E, A> {
  /** As it is called in paths. */
  name: 'executions' | 'commands';
  /** Throws `not_found` for what nobody knows any more, and `conflict` for what is still being started. */
  find: (place: RunPlace) => Promise<A>;
  events: (place: RunPlace, after: number, leave: AbortSignal) => AsyncGenerator<E>;
  /** As JSON while it goes on, and once it has ended. */
  summary: (place: RunPlace, asked: A) => object;
  whole: (place: RunPlace, asked: A, events: E[]) => object;
}

export interface Begun<E, A> {
  id: string;
  /** None of a detached one. */
  events?: AsyncGenerator<E> | undefined;
  /** Looked up where it is not given. */
  asked?: A;
}

/** Told the id of what is about to be started. */
type OnAccepted = (id: string) => Promise<void>;

/** How a run is answered: whole once it has ended, as a stream, or at once when it is detached; and again by its location. */
export const createRunAnswers = <E extends CommandEvent | ExecutionEvent, A>(
  kind: RunKind<E, A>,
  stopping: AbortSignal,
) => {
  const locationOf = ({ ref, id }: RunPlace): string => `/v1/boxes/${ref.box}/${kind.name}/${id}`;

  const stream = (c: Context<Env>, format: 'ndjson' | 'sse', events: AsyncGenerator<E>, leave: AbortController) =>
    streamEvents(c, {
      format,
      events,
      leave,
      stopping,
      // A reader that leaves breaks its stream: that is nothing to warn of.
      onError: (err) => c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke'),
    });

  const respond = async (
    c: Context<Env>,
    place: RunPlace,
    asked: A | undefined,
    events: AsyncGenerator<E>,
    leave: AbortController,
  ): Promise<Response> => {
    const format = streamFormat(c);
    if (format) return stream(c, format, events, leave);
    // Before its end, after which the box may forget it.
    const known = asked ?? (await kind.find(place));
    return c.json(kind.whole(place, known, await Array.fromAsync(events)));
  };

  const accepted = async (c: Context<Env>, place: RunPlace, asked: A | undefined): Promise<Response> => {
    c.header('Location', `${locationOf(place)}/events`);
    return c.json(kind.summary(place, asked ?? (await kind.find(place))), 202);
  };

  return {
    placeOf(tenant: string, location: string): RunPlace {
      const [, , , box = '', , id = ''] = location.split('/');
      return { ref: { tenant, box }, id };
    },

    /** Starts a run by `begin`, and answers as asked. `onAccepted` is there when somebody has to know before it begins. */
    async start(
      c: Context<Env>,
      ref: BoxRef,
      begin: (leave: AbortSignal, onAccepted: OnAccepted | undefined) => Promise<Begun<E, A>>,
    ): Promise<Response> {
      const leave = new AbortController();
      const progress = c.get('progress');
      const { id, events, asked } = await begin(
        leave.signal,
        progress && ((begun) => progress.mayStart(locationOf({ ref, id: begun }))),
      );
      await progress?.hasStarted();
      const place = { ref, id };
      c.header('Content-Location', locationOf(place));
      return events ? await respond(c, place, asked, events, leave) : await accepted(c, place, asked);
    },

    /** Answers again for the run that an earlier request started. */
    async replay(c: Context<Env>, place: RunPlace, isDetached: boolean | undefined): Promise<Response> {
      // Before a stream begins: what nobody knows any more is a 404.
      const asked = await kind.find(place);
      if (isDetached) return await accepted(c, place, asked);
      const leave = new AbortController();
      return await respond(c, place, asked, kind.events(place, 0, leave.signal), leave);
    },

    /** Its events after the last one that the reader has, always as a stream. */
    events(c: Context<Env>, place: RunPlace, after: number | undefined): Response {
      const leave = new AbortController();
      return stream(c, streamFormat(c) ?? 'ndjson', kind.events(place, resumeAfter(c, after), leave.signal), leave);
    },
  };
};
