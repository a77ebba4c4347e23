import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/** A scripted model over OpenAI's protocol that responds at once and records the times of requests and responses. */
export interface ModelServer extends AsyncDisposable {
  url: string;
  /** The response to each request in order: code to run, or null for a final text. */
  script: (string | null)[];
  /** The times at which a whole request had arrived and its response was sent, by `performance.now()`. */
  turns: { receivedAt: number; sentAt: number }[];
}

/** Serves on a free port of 127.0.0.1. */
export const startModelServer = async (): Promise<ModelServer> => {
  const script: (string | null)[] = [];
  const turns: ModelServer['turns'] = [];
  const respond = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    incoming.resume();
    await once(incoming, 'end');
    const receivedAt = performance.now();
    const code = script.shift() ?? null;
    outgoing.writeHead(200, { 'content-type': 'text/event-stream' });
    outgoing.end(`${chunksOf(code, turns.length).map(toLine).join('')}data: [DONE]\n\n`);
    turns.push({ receivedAt, sentAt: performance.now() });
  };
  const server = createServer((incoming, outgoing) => void respond(incoming, outgoing));
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
