// The agent's API as these examples use it: chats, answers as they come, files.
import { type AnswerEvent, type Attachment, answerEventSchema, chatPageSchema, chatSchema } from '#contract';

/** What may go wrong is told as problem+json. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
}

export interface AgentOptions {
  url: string;
  /** An API key of CodeBox. */
  key: string;
  /** The end user of your app: sees chats of its own only. */
  user: string;
}

/** The agent for one user. Throws `AgentError` for what it refuses. */
export const createAgent = ({ url, key, user }: AgentOptions) => {
  const call = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = { Authorization: `Bearer ${key}`, 'X-CodeBox-User': user, ...init.headers };
    const response = await fetch(new URL(path, url), { ...init, headers });
    if (response.ok) return response;
    throw new AgentError(`${response.status} ${await response.text()}`);
  };
  const post = (path: string, body: unknown, init: RequestInit = {}) =>
    call(path, { ...init, method: 'POST', body: JSON.stringify(body) });

  return {
    newChat: async (): Promise<string> => chatSchema.parse(await (await post('/v1/chats', {})).json()).id,

    /** The user's latest chat; a new one for whoever has none. */
    async latestChat(): Promise<string> {
      const { items } = chatPageSchema.parse(await (await call('/v1/chats?limit=1')).json());
      return items[0]?.id ?? (await this.newChat());
    },

    /** Asks, and tells what happens until the answer is done. It goes on when nobody listens any more. */
    async *ask(chat: string, content: string, files: readonly string[] = []): AsyncGenerator<AnswerEvent> {
      const init = { headers: { Accept: 'application/x-ndjson' } };
      const response = await post(`/v1/chats/${chat}/messages`, { content, files }, init);
      let rest = '';
      for await (const text of (response.body ?? new ReadableStream()).pipeThrough(new TextDecoderStream())) {
        const lines = (rest + text).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          const event = answerEventSchema.safeParse(line === '' ? undefined : JSON.parse(line));
          if (event.success) yield event.data;
        }
      }
    },

    stop: (chat: string) => call(`/v1/chats/${chat}/stop`, { method: 'POST' }),

    /** Puts a file into the chat, for the next question to name. */
    upload: (chat: string, name: string, bytes: Uint8Array<ArrayBuffer>) =>
      call(`/v1/chats/${chat}/files/${encodeURIComponent(name)}`, { method: 'PUT', body: bytes }),

    async download({ url: link }: Pick<Attachment, 'url'>): Promise<Uint8Array<ArrayBuffer>> {
      return new Uint8Array(await (await call(link)).arrayBuffer());
    },
  };
};

export type Agent = ReturnType<typeof createAgent>;
