import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Pool } from 'undici';
import { createTokens, tokenHeader } from '../../services/gateway/box-server/transport/endpoint.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { addressOf } from '../../services/postgres/address.ts';
import { instanceIds } from './gateway-process.ts';

export interface BoxSocket extends AsyncDisposable {
  /** Runs code and resolves with the text of all its events. */
  execute(code: string): Promise<string>;
}

/**
 * Connects directly to the box server of a gateway's only box, over its Unix socket below the data folder. Throws unless there
 * is exactly one box.
 */
export const connectToBoxServer = async (dataDir: string): Promise<BoxSocket> => {
  const [instance, ...more] = await instanceIds(dataDir);
  if (instance === undefined || more.length > 0) throw new Error('the gateway does not have exactly one box');
  const store = await openStore((await addressOf(join(dataDir, 'postgres'))).url, () => {});
  const { secret } = await store.keys.deployment('none').finally(store.close);
  return connectToSocket(join(dataDir, 'run', instance, 'run/box.sock'), createTokens(secret)(instance));
};

/** Connects to a box server that listens on a Unix socket. */
export const connectToSocket = (socketPath: string, token: string): BoxSocket => {
  const pool = new Pool('http://localhost', { socketPath, connections: 1 });
  return {
    async execute(code) {
      const response = await pool.request({
        path: `/codebox/executions/exe_${randomUUID()}`,
        method: 'PUT',
        headers: { 'content-type': 'application/json', [tokenHeader]: token },
        body: JSON.stringify({ code, language: 'python', timeoutMs: 60_000 }),
      });
      const text = await response.body.text();
      if (response.statusCode !== 200) throw new Error(`the box server responded with ${response.statusCode}: ${text}`);
      return text;
    },
    [Symbol.asyncDispose]: () => pool.close(),
  };
};
