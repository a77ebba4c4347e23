import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ChatCompletionRequest, type FixtureResponse, LLMock } from '@copilotkit/aimock';
import type { ToolCall } from '../../services/agent/models/model.ts';

/** The next response of the model. */
export type Reply =
  | { text: string; finishReason?: 'stop' | 'length'; usage?: Record<string, number>; after?: Promise<unknown> }
  | { text?: string; calls: (Omit<ToolCall, 'id'> & { id?: string })[]; finishReason?: 'length' }
  /** A refusal with this status. */
  | { status: number; retryAfter?: number; message?: string }
  /** No response at all, not even headers. */
  | { fault: 'hang' }
  /** The connection breaks after this text. */
  | { fault: 'cut'; text: string }
  /** The stream ends cleanly, but without a finish reason. */
  | { fault: 'unfinished'; text: string };

export type Wire = 'openai' | 'anthropic';

export const wires: readonly Wire[] = ['openai', 'anthropic'];

/** Returns a call that runs code. */
export const runs = (code: string, language = 'python', text?: string): Reply => ({
  calls: [{ name: 'run_code', arguments: JSON.stringify({ language, code }) }],
  ...(text !== undefined && { text }),
});

/** Token counts with the field names of both wires. */
const usage = { prompt_tokens: 100, completion_tokens: 10, input_tokens: 100, output_tokens: 10 };

const toFixture = (reply: Exclude<Reply, { fault: string }>, number: number): FixtureResponse => {
  if ('status' in reply) {
    const { status, retryAfter, message = 'It fails.' } = reply;
    return { status, error: { message, type: 'server_error' }, ...(retryAfter !== undefined && { retryAfter }) };
  }
  if ('calls' in reply) {
    const toolCalls = reply.calls.map((call, index) => ({ id: `call_${number}_${index}`, ...call }));
    const more = { toolCalls, usage, ...(reply.finishReason && { finishReason: reply.finishReason }) };
    return reply.text === undefined ? more : { content: reply.text, ...more };
  }
  return {
    content: reply.text,
    usage: { ...usage, ...reply.usage },
    ...(reply.finishReason && { finishReason: reply.finishReason }),
  };
};

const startOf = (wire: Wire, text: string): string => {
  const events =
    wire === 'openai'
      ? [{ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] }]
      : [
          { type: 'message_start', message: { id: 'm', role: 'assistant', content: [], usage: { input_tokens: 1 } } },
          { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
          { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } },
        ];
  return events
    .map(
      (event) =>
        `${wire === 'anthropic' && 'type' in event ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`,
    )
    .join('');
};

/**
 * Starts a scripted language model, one reply per request, with the wires of OpenAI and Anthropic. Faults below HTTP are produced
 * here, everything else by aimock behind it.
 */
export const startModelServer = async () => {
  const script: Reply[] = [];
  const requests: ChatCompletionRequest[] = [];
  let requestCount = 0;
  let next: Exclude<Reply, { fault: string }> = { text: '' };
  const mock = new LLMock({ logLevel: 'silent' });
  mock.addFixture({
    match: { predicate: () => true },
    response: (body) => {
      requests.push(body);
      return toFixture(next, requestCount);
    },
  });
  const behind = await mock.start();

  const pass = (req: IncomingMessage, res: ServerResponse) => {
    const out = request(`${behind}${req.url}`, { method: req.method, headers: req.headers }, (response) => {
      res.writeHead(response.statusCode ?? 500, response.headers);
      response.pipe(res);
    });
    out.on('error', () => res.destroy());
    req.pipe(out);
  };

  const server = createServer((req, res) => {
    if (req.method !== 'POST') return pass(req, res);
    requestCount += 1;
    const reply = script.shift() ?? { text: 'The script is at its end.' };
    if (!('fault' in reply)) {
      const respond = () => {
        next = reply;
        pass(req, res);
      };
      if ('after' in reply) reply.after?.then(respond);
      else respond();
      return;
    }
    req.resume();
    if (reply.fault === 'hang') return;
    const wire: Wire = req.url?.endsWith('/messages') ? 'anthropic' : 'openai';
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(startOf(wire, reply.text), () => {
      if (reply.fault === 'cut') setTimeout(() => res.destroy(), 50);
      else res.end();
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    /** Starts a new script. */
    script(...replies: Reply[]): void {
      script.splice(0, Number.POSITIVE_INFINITY, ...replies);
      requests.length = 0;
      requestCount = 0;
    },
    /** The requests to aimock since then, in the format of OpenAI whatever the wire. */
    requests,
    /** The number of requests since then, including those that got a fault. */
    requestCount: () => requestCount,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await mock.stop();
    },
  };
};

export type ModelServer = Awaited<ReturnType<typeof startModelServer>>;
