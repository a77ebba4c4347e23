// A client for the parts of the agent's API that these examples use: chats, streamed answers, files.
import { type AnswerEvent, type Attachment, answerEventSchema, chatPageSchema, chatSchema } from '#contract';

/** A refused request; the message contains the status and the problem document. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
}

export interface AgentOptions {
  url: string;
  /** An API key of CodeBox. */
  key: string;
  /** The id of an end user of your app, who can access only their own chats. */
  user: string;
}

/** Creates a client for one user. Its methods throw `AgentError` for refused requests. */
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

    /** Returns the id of the user's latest chat; creates one if there is none. */
    async latestChat(): Promise<string> {
      const { items } = chatPageSchema.parse(await (await call('/v1/chats?limit=1')).json());
      return items[0]?.id ?? (await this.newChat());
    },

    /** Sends a question and yields the events of its answer. The answer continues if the caller stops reading. */
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

    /** Uploads a file into the chat; a question refers to it by name. */
    upload: (chat: string, name: string, bytes: Uint8Array<ArrayBuffer>) =>
      call(`/v1/chats/${chat}/files/${encodeURIComponent(name)}`, { method: 'PUT', body: bytes }),

    async download({ url: link }: Pick<Attachment, 'url'>): Promise<Uint8Array<ArrayBuffer>> {
      return new Uint8Array(await (await call(link)).arrayBuffer());
    },
  };
};

export type Agent = ReturnType<typeof createAgent>;
