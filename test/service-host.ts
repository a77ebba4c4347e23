import { createAgent } from '../services/agent/agent.ts';
import { readConfig as readAgentConfig } from '../services/agent/config.ts';
import { readConfig as readGatewayConfig } from '../services/gateway/config.ts';
import { ensureFirstKey } from '../services/gateway/first-key.ts';
import { createGateway } from '../services/gateway/gateway.ts';
import { onceThere } from '../services/postgres/away.ts';

/** Asks the host to start a service with these settings, or to stop the one that it started for request `of`. */
export type HostRequest =
  | { call: 'start'; id: number; service: 'gateway' | 'agent'; env: Record<string, string | undefined> }
  | { call: 'stop'; id: number; of: number };

/** The reply to the request with this id: without an error it has succeeded. */
export interface HostReply {
  id: number;
  error?: string;
}

/** Builds a service, lets it serve, and disposes of it if it cannot. */
const served = async <S extends AsyncDisposable>(service: S, serve: (service: S) => Promise<unknown>): Promise<S> => {
  try {
    await serve(service);
    return service;
  } catch (error) {
    await service[Symbol.asyncDispose]();
    throw error;
  }
};

const starts = {
  async gateway(env: NodeJS.ProcessEnv): Promise<AsyncDisposable> {
    const config = readGatewayConfig(env);
    return served(await createGateway(config), async (gateway) => {
      await onceThere(() => ensureFirstKey(gateway.store.keys, config));
      await gateway.start();
    });
  },
  async agent(env: NodeJS.ProcessEnv): Promise<AsyncDisposable> {
    return served(await createAgent(readAgentConfig(env)), (agent) => agent.start());
  },
};

/** By the id of the request that started them. */
const running = new Map<number, AsyncDisposable>();

const carryOut = async (request: HostRequest): Promise<void> => {
  if (request.call === 'start') {
    running.set(request.id, await starts[request.service](request.env));
    return;
  }
  const service = running.get(request.of);
  running.delete(request.of);
  await service?.[Symbol.asyncDispose]();
};

// The services are built from their settings as their own programs do it; only the process and its warm code are shared.
process.on('message', async (request: HostRequest) => {
  const error = await carryOut(request).then(
    () => undefined,
    (cause: unknown) => (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)),
  );
  process.send?.({ id: request.id, ...(error !== undefined && { error }) } satisfies HostReply);
});
process.once('disconnect', async () => {
  await Promise.allSettled([...running.values()].map((service) => service[Symbol.asyncDispose]()));
  process.exit();
});
