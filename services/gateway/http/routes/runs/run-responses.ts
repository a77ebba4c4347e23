import type { Context } from 'hono';
import type { CommandEvent, ExecutionEvent } from '#contract';
import { resumeAfter, streamEvents, streamFormat } from '../../../../http/bodies/stream.ts';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { Env } from '../../env.ts';
import { createLargeResponses } from '../../idempotency/large-responses.ts';
import { locationOf } from '../../idempotency/location.ts';

/** The headers of the response to the start of a run, for the OpenAPI document. */
export const startedHeaders = {
  'Content-Location': 'The path of the run. Its events can be read again at the same path with `/events` appended.',
};
export const detachedHeaders = { ...startedHeaders, Location: 'The path of the events.' };

/** The place of a run: its box and its id there. */
export interface RunPlace {
  ref: BoxRef;
  id: string;
}

/** The differences between executions and commands. `A` is the request of a run, or its record. */
export interface RunKind<E, A> {
  name: 'execution' | 'command';
  /** Throws `not_found` for a run that is no longer known, and `conflict` for one that is still being started. */
  find: (place: RunPlace) => Promise<A>;
  /** Throws `too_many_requests` when nobody may join the readers of the box. */
  expectReader: (ref: BoxRef) => void;
  events: (place: RunPlace, after: number, leave: AbortSignal) => AsyncGenerator<E>;
  /** Converts a run that may still be in progress to JSON. */
  summary: (place: RunPlace, known: A) => object;
  /** Converts a run that has ended to JSON, with its outputs. */
  whole: (place: RunPlace, known: A, events: E[]) => object;
}

export interface StartedRun<E, A> {
  id: string;
  /** Undefined for a detached run. */
  events?: AsyncGenerator<E> | undefined;
  /** The request or the record of the run; it is looked up when omitted. */
  known?: A;
}

/** Called with the id of a run that is about to start. */
type OnAccepted = (id: string) => Promise<void>;

/** A longer run is read again when its response is sent. */
const smallCharacters = 64 * 1024;

/** Reads the events of a run to its end, and returns them if they are small: many requests may wait for the end of one run. */
const readSmall = async <E>(events: AsyncGenerator<E>): Promise<E[] | undefined> => {
  let small: E[] | undefined = [];
  let size = 0;
  for await (const event of events) {
    if (small === undefined) continue;
    size += JSON.stringify(event).length;
    if (size > smallCharacters) small = undefined;
    else small.push(event);
  }
  return small;
};

/** Responds to the start of a run: with the whole run after its end, a stream, or at once when it is detached; and to repeated requests. */
export const createRunResponses = <E extends CommandEvent | ExecutionEvent, A>(
  kind: RunKind<E, A>,
  stopping: AbortSignal,
) => {
  const sendLarge = createLargeResponses();
  const referenceTo = ({ ref, id }: RunPlace) => ({ kind: kind.name, box: ref.box, id });

  const stream = (c: Context<Env>, format: 'ndjson' | 'sse', events: AsyncGenerator<E>, leave: AbortController) =>
    streamEvents(c, {
      format,
      events,
      leave,
      stopping,
      // A client that leaves breaks its stream, which needs no warning.
      onError: (err) => c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err }, 'a stream broke'),
    });

  const respond = async (
    c: Context<Env>,
    place: RunPlace,
    given: A | undefined,
    events: AsyncGenerator<E>,
    leave: AbortController,
  ): Promise<Response> => {
    const format = streamFormat(c);
    if (format) return stream(c, format, events, leave);
    // Looked up before the run ends, because the box may forget it afterwards.
    const known = given ?? (await kind.find(place));
    return c.json(kind.whole(place, known, await Array.fromAsync(events)));
  };

  const accepted = async (c: Context<Env>, place: RunPlace, given: A | undefined): Promise<Response> => {
    c.header('Location', `${locationOf(referenceTo(place))}/events`);
    return c.json(kind.summary(place, given ?? (await kind.find(place))), 202);
  };

  return {
    /** Bounds the responses with the whole output of a run, as for a repeated request. */
    sendLarge,

    /** Starts a run by `begin` and responds. `onAccepted` is given when the id has to be recorded before the run starts. */
    async start(
      c: Context<Env>,
      ref: BoxRef,
      begin: (leave: AbortSignal, onAccepted: OnAccepted | undefined) => Promise<StartedRun<E, A>>,
    ): Promise<Response> {
      const leave = new AbortController();
      const progress = c.get('progress');
      const { id, events, known } = await begin(
        leave.signal,
        progress && ((accepted) => progress.mayStart(referenceTo({ ref, id: accepted }))),
      );
      await progress?.hasStarted();
      const place = { ref, id };
      c.header('Content-Location', locationOf(referenceTo(place)));
      return events ? await respond(c, place, known, events, leave) : await accepted(c, place, known);
    },

    /** Responds to a repeated request with the run that the first one started. */
    async replay(c: Context<Env>, place: RunPlace, isDetached: boolean | undefined): Promise<Response> {
      // Before a stream starts, so that a run that is no longer known is a 404.
      const known = await kind.find(place);
      if (isDetached) return await accepted(c, place, known);
      kind.expectReader(place.ref);
      const leave = new AbortController();
      const events = () => kind.events(place, 0, leave.signal);
      if (streamFormat(c)) return await respond(c, place, known, events(), leave);
      const small = await readSmall(events());
      if (small !== undefined) return c.json(kind.whole(place, known, small));
      return await sendLarge(c, place.ref.box, () => respond(c, place, known, events(), leave));
    },

    /** Streams the events of a run after the last one that the client has. */
    events(c: Context<Env>, place: RunPlace, after: number | undefined): Response {
      kind.expectReader(place.ref);
      const leave = new AbortController();
      return stream(c, streamFormat(c) ?? 'ndjson', kind.events(place, resumeAfter(c, after), leave.signal), leave);
    },
  };
};
