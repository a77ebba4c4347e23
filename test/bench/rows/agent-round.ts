import type { Chat, Message } from '#contract';
import { startAgent } from '../agent-process.ts';
import type { GatewayProcess } from '../gateway-process.ts';
import { startModelServer } from '../model-server.ts';
import { atMost, measure, type Row } from '../report.ts';

const limitMs = 10;
/** The agent's limit of rounds per answer. */
const roundsPerAnswer = 10;
const code = '1+1';

/**
 * Measures one round of the agent, from the end of one model response to the agent's next request, in turns with the same code at the
 * gateway without an agent.
 */
export const measureAgentRound = async (gateway: GatewayProcess, answers: number): Promise<Row> => {
  await using stack = new AsyncDisposableStack();
  const model = stack.use(await startModelServer());
  const agent = stack.use(await startAgent(gateway, model.url));
  const { client } = gateway;
  const box = await client.boxes.create();
  stack.defer(() => client.boxes.delete(box.id));
  const post = async <T>(path: string, body: object): Promise<T> => {
    const { url, headers } = agent;
    const response = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path} responded with ${response.status}: ${await response.text()}`);
    return (await response.json()) as T;
  };
  const chat = await post<Chat>('/v1/chats', {});
  stack.defer(
    async () => void (await fetch(`${agent.url}/v1/chats/${chat.id}`, { method: 'DELETE', headers: agent.headers })),
  );

  const inAgent = async (): Promise<number[]> => {
    model.turns.length = 0;
    model.script.push(...Array.from({ length: roundsPerAnswer }, () => code), null);
    const { status } = await post<Message>(`/v1/chats/${chat.id}/messages`, { content: 'Go on.' });
    if (status !== 'ok') throw new Error(`the answer ended with ${status}`);
    return model.turns.slice(1).map(({ receivedAt }, n) => receivedAt - (model.turns[n]?.sentAt ?? 0));
  };
  const atGateway = async (): Promise<number[]> => {
    const samples: number[] = [];
    for (let n = 0; n < roundsPerAnswer; n++) {
      const startedAt = performance.now();
      for await (const _ of await client.stream(box.id, { code }, 'ndjson'));
      samples.push(performance.now() - startedAt);
    }
    return samples;
  };

  await inAgent();
  await atGateway();
  const [rounds, runs]: [number[], number[]] = [[], []];
  for (let n = 0; n < answers; n++) {
    rounds.push(...(await inAgent()));
    runs.push(...(await atGateway()));
  }
  const [round, run] = [
    measure('a round of the agent', 'ms', rounds),
    measure('its code at the gateway alone', 'ms', runs),
  ];
  return {
    id: 'agent-round',
    title: "A round of the agent, beside the model's own time",
    measures: [round, run],
    ratios: [],
    bars: [atMost('what the agent adds to a round at p50', round.values.p50 - run.values.p50, limitMs, 'ms')],
    notes: [
      `From the last byte of one model response to the agent's next request: the agent parses the response, runs, shows and stores ${code}, and sends the next request. The model responds at once, over OpenAI's protocol.`,
    ],
  };
};
