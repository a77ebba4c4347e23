import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from './config.ts';

const deadlineMs = 120_000;
const lookEveryMs = 200;

/**
 * Resolves with the agent's own API key for the gateway; waits for the key file, which the gateway writes at its first
 * start. Throws after two minutes.
 */
export const readApiKey = async ({ apiKey, apiKeyFile }: Pick<Config, 'apiKey' | 'apiKeyFile'>): Promise<string> => {
  if (apiKey !== undefined) return apiKey;
  for (const deadline = performance.now() + deadlineMs; performance.now() < deadline; await sleep(lookEveryMs)) {
    const key = (await readFile(apiKeyFile, 'utf8').catch(() => '')).trim();
    if (key !== '') return key;
  }
  throw new Error(`No API key: set CODEBOX_API_KEY, or start the gateway that writes ${apiKeyFile}.`);
};
