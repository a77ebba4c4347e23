import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/** A model over OpenAI's wire that takes no time: it answers at once what it is told to, and notes when it was asked and had answered. */
export interface ModelServer extends AsyncDisposable {
  url: string;
  /** One for each request, in order: code to run, or null for the last word. */
  script: (string | null)[];
  /** When a request had come whole, and when its answer had gone, by `performance.now()`. */
  turns: { askedAt: number; answeredAt: number }[];
}

/** Serves on a free port of 127.0.0.1. */
export const startModelServer = async (): Promise<ModelServer> => {
  const script: (string | null)[] = [];
  const turns: ModelServer['turns'] = [];
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    incoming.resume();
    await once(incoming, 'end');
    const askedAt = performance.now();
    const code = script.shift() ?? null;
    outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
    outgoing.end(`${chunksOf(code, turns.length).map(toLine).join('')}data: [DONE]\n\n`);
    turns.push({ askedAt, answeredAt: performance.now() });
  };
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    script,
    turns,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
};

const toLine = (chunk: object) => `data: ${JSON.stringify(chunk)}\n\n`;

const chunksOf = (code: string | null, turn: number): object[] => {
  const chunk = (delta: object, finish_reason: string | null) => ({
    id: `turn-${turn}`,
    object: 'chat.completion.chunk',
    created: 0,
    model: 'scripted',
    choices: [{ index: 0, delta, finish_reason }],
  });
  if (code === null) return [chunk({ role: 'assistant', content: 'Done.' }, null), chunk({}, 'stop')];
  const call = {
    index: 0,
    id: `call-${turn}`,
    type: 'function',
    function: { name: 'run_code', arguments: JSON.stringify({ language: 'python', code }) },
  };
  return [chunk({ role: 'assistant', tool_calls: [call] }, null), chunk({}, 'tool_calls')];
};
