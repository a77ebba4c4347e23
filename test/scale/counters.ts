import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import type { KubeConfig } from '@kubernetes/client-node';
import { Client } from 'pg';
import { cpuMsOf, databaseUrl, type GatewayProcess, memoryOf } from '../api/harness.ts';

/** The work of the parts of a deployment since they were started. */
export interface Counters {
  at: number;
  /** Requests to the API server by verb, of all its clients. */
  apiCalls: Record<string, number>;
  transactions: number;
  gatewayCpuMs: number;
  /** The largest resident memory of any gateway, in bytes. */
  gatewayMemory: number;
}

/** Reads the counters. Those of the API server include its other clients: scheduler, controllers, and the simulation itself. */
export const readCounters = async (config: KubeConfig, gateways: readonly GatewayProcess[]): Promise<Counters> => {
  const pids = gateways.map((gateway) => gateway.pid());
  const [apiCalls, transactions, cpu, memory] = await Promise.all([
    readApiCalls(config),
    readTransactions(gateways[0]?.dataDir ?? ''),
    Promise.all(pids.map(cpuMsOf)),
    Promise.all(pids.map(memoryOf)),
  ]);
  return {
    at: performance.now(),
    apiCalls,
    transactions,
    gatewayCpuMs: cpu.reduce((sum, ms) => sum + ms, 0),
    gatewayMemory: Math.max(...memory.map(({ now }) => now)),
  };
};

const readApiCalls = async (config: KubeConfig): Promise<Record<string, number>> => {
  const options: object = {};
  await config.applyToHTTPSOptions(options);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const url = new URL('/metrics', config.getCurrentCluster()?.server);
  request(url, { ...options, timeout: 20_000 }, (response) => text(response).then(resolve, reject))
    .on('error', reject)
    .end();
  const calls: Record<string, number> = {};
  for (const line of (await promise).split('\n')) {
    if (!line.startsWith('apiserver_request_total{') || !line.includes('resource="pods"')) continue;
    const verb = /verb="([A-Z]+)"/.exec(line)?.[1] ?? '';
    calls[verb] = (calls[verb] ?? 0) + Number(line.slice(line.lastIndexOf(' ')));
  }
  return calls;
};

const query = async (dataDir: string, text: string, values: unknown[] = []): Promise<number> => {
  const client = new Client({ connectionString: await databaseUrl(dataDir) });
  await client.connect();
  try {
    return Number((await client.query(text, values)).rows[0]?.n ?? 0);
  } finally {
    await client.end();
  }
};

const readTransactions = (dataDir: string): Promise<number> =>
  query(dataDir, 'select xact_commit as n from pg_stat_database where datname = current_database()');

/** Returns how many of these instances still count as running. */
export const countRunning = (dataDir: string, ids: readonly string[]): Promise<number> =>
  query(dataDir, "select count(*) as n from instances where id = any($1) and state in ('running', 'warm')", [ids]);
