import {
  type AnswerEvent,
  type Approve,
  answerEventSchema,
  CodeBoxError,
  type CreateMessage,
  followEvents,
  pathOf,
  type Transport,
} from '#contract';

/** `start` comes again when the answer is sent anew from its beginning. */
const counting = {
  position: ({ seq }: AnswerEvent) => seq,
  isRepeated: ({ type, seq }: AnswerEvent, seen: number) => type !== 'start' && seq <= seen,
  isLast: ({ type }: AnswerEvent) => type === 'done',
};

/** Asks questions and streams their answers up to `done`. A stream that is cut is resumed. */
export const createAnswers = (transport: Transport) => {
  const eventsOf = (chat: string, message: string, after: number | undefined, signal: AbortSignal) =>
    transport.open({
      path: `${pathOf('chats', chat, 'messages', message)}/events`,
      query: { after },
      headers: { accept: 'application/x-ndjson' },
      options: { signal },
    });

  return {
    async *ask(
      chat: string,
      question: CreateMessage,
      { modelKey, signal }: { modelKey: string | null; signal: AbortSignal },
    ): AsyncGenerator<AnswerEvent, void, undefined> {
      const first = await transport.open({
        method: 'POST',
        path: pathOf('chats', chat, 'messages'),
        json: question,
        headers: { accept: 'application/x-ndjson', 'x-model-key': modelKey ?? undefined },
        options: { signal },
      });
      let message: string | undefined;
      const open = async (after: number | undefined) => {
        if (message === undefined) throw new CodeBoxError('internal', 'The answer was interrupted before it began.');
        return await eventsOf(chat, message, after, signal);
      };
      for await (const event of followEvents({ schema: answerEventSchema, counting, first, open, signal })) {
        if (event.type === 'start') message = event.message;
        yield event;
      }
    },

    /** Follows a running answer from its beginning. */
    follow: (chat: string, message: string, signal: AbortSignal): AsyncGenerator<AnswerEvent, void, undefined> =>
      followEvents({
        schema: answerEventSchema,
        counting,
        open: (after) => eventsOf(chat, message, after, signal),
        signal,
      }),

    stop: (chat: string): Promise<void> => transport.done({ method: 'POST', path: pathOf('chats', chat, 'stop') }),

    approve: (chat: string, decision: Approve): Promise<void> =>
      transport.done({ method: 'POST', path: pathOf('chats', chat, 'approvals'), json: decision }),
  };
};
