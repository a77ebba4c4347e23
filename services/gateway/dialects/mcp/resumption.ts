import type { CallToolResult } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { CodeBoxError } from '#contract';
import type { StreamWire } from '../../../http/bodies/stream.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import { createOutcome, type RunEvent } from './outcome.ts';

/** A run that a call has started. */
export interface StartedRun {
  kind: 'code' | 'command';
  id: string;
}

type RequestId = string | number;

const tokenSchema = z.tuple([z.enum(['code', 'command']), z.string(), z.union([z.string(), z.number()])]);
/** Clients return the id of an event in a header. */
const maxTokenLength = 1000;
/** The first version whose clients accept an event without data, which only has an id. */
const firstVersion = '2025-11-25';

/** Returns whether the client of a request can continue a stream that broke. */
export const canResume = (version: string | undefined): boolean => version !== undefined && version >= firstVersion;

/** Returns the id of the first event of a stream, by which any gateway can answer the call; undefined for an id that is too long. */
export const toEventId = ({ kind, id }: StartedRun, request: RequestId): string | undefined => {
  const token = Buffer.from(JSON.stringify([kind, id, request])).toString('base64url');
  return token.length <= maxTokenLength ? token : undefined;
};

/** Passes a stream of events on, and permits to insert the event that has only an id. */
export const withEventId = () => {
  let controller: TransformStreamDefaultController<Uint8Array> | undefined;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>({
    start: (given) => {
      controller = given;
    },
  });
  return {
    through: { readable, writable },
    /** Sends the event, unless the client has left. */
    send(id: string): void {
      try {
        controller?.enqueue(Buffer.from(`id: ${id}\ndata: \n\n`));
      } catch (error) {
        if (!(error instanceof TypeError)) throw error;
      }
    },
  };
};

export interface Response {
  jsonrpc: '2.0';
  id: RequestId;
  result: CallToolResult;
}

export const wire: StreamWire<Response> = {
  type: 'text/event-stream',
  encode: (response) => `event: message\ndata: ${JSON.stringify(response)}\n\n`,
  ping: ': ping\n\n',
};

/** Answers calls whose streams broke, at any gateway: the box keeps the events of its runs. */
export const createResumption = ({ executions, commands }: Pick<RouteParts, 'executions' | 'commands'>) => ({
  /**
   * Resolves with the response to the call that an event id names, as the only item of a stream, once the run has begun. Throws
   * `invalid_request` for any other text, `not_found` for a run that the box does not know.
   */
  async answer(ref: BoxRef, eventId: string, signal: AbortSignal): Promise<AsyncGenerator<Response>> {
    const [kind, id, request] = readToken(eventId);
    const source = kind === 'code' ? executions : commands;
    const events: AsyncGenerator<RunEvent> = source.events(ref, id, 0, signal);
    return toResponse(kind, request, await events.next(), events);
  },
});

async function* toResponse(
  kind: StartedRun['kind'],
  request: RequestId,
  first: IteratorResult<RunEvent>,
  events: AsyncGenerator<RunEvent>,
): AsyncGenerator<Response> {
  const outcome = createOutcome(kind);
  if (!first.done) outcome.add(first.value);
  for await (const event of events) outcome.add(event);
  yield { jsonrpc: '2.0', id: request, result: outcome.toResult() };
}

const readToken = (eventId: string) => {
  try {
    return tokenSchema.parse(JSON.parse(Buffer.from(eventId, 'base64url').toString()));
  } catch {
    throw new CodeBoxError('invalid_request', 'Last-Event-ID was not sent by this server.');
  }
};
