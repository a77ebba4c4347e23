import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Pool } from 'undici';
import { createTokens, tokenHeader } from '../../services/gateway/box-server/endpoint.ts';
import { openStore } from '../../services/gateway/store/store.ts';
import { addressOf } from '../../services/postgres/address.ts';

export interface BoxSocket extends AsyncDisposable {
  /** Runs code and reads its events to the end; answers their text. */
  execute(code: string): Promise<string>;
}

/**
 * The box server of the one box of a gateway, without the gateway: over its Unix socket below the data folder. Throws when
 * there is not exactly one box.
 */
export const connectToBoxServer = async (dataDir: string): Promise<BoxSocket> => {
  const folder = join(dataDir, 'run');
  const [instance, ...more] = (await readdir(folder)).filter((name) => !name.startsWith('.'));
  if (instance === undefined || more.length > 0) throw new Error('there is not exactly one box');
  const store = await openStore((await addressOf(join(dataDir, 'postgres'))).url, () => {});
  const { secret } = await store.keys.deployment('none').finally(store.close);
  return connectToSocket(join(folder, instance, 'run/box.sock'), createTokens(secret)(instance));
};

/** A box server that listens on a Unix socket. */
export const connectToSocket = (socketPath: string, token: string): BoxSocket => {
  const pool = new Pool('http://localhost', { socketPath, connections: 1 });
  return {
    async execute(code) {
      const answer = await pool.request({
        path: `/codebox/executions/exe_${randomUUID()}`,
        method: 'PUT',
        headers: { 'content-type': 'application/json', [tokenHeader]: token },
        body: JSON.stringify({ code, language: 'python', timeoutMs: 60_000 }),
      });
      const text = await answer.body.text();
      if (answer.statusCode !== 200) throw new Error(`the box server answered ${answer.statusCode}: ${text}`);
      return text;
    },
    [Symbol.asyncDispose]: () => pool.close(),
  };
};
