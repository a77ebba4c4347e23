import { orAborted } from '../../waiting/or-aborted.ts';
import { anthropicClient } from './anthropic.ts';
import { openAiClient } from './openai.ts';
import type { ModelSettings, Provider } from './settings.ts';

/** A model as its provider lists it. */
export interface Listed {
  name: string;
  /** Unix seconds; 0 when unknown. */
  created: number;
}

const deadlineMs = 5000;
const keptMs = 60_000;
const failedMs = 10_000;
const maxListed = 1000;

/** The chat models among OpenAI's models. */
const chats = /^(gpt-|chatgpt-|o\d|codex)/;
const chatsNot = /audio|realtime|transcribe|tts|image|instruct|search|embedding|moderation/;

type Ask = (signal: AbortSignal) => Promise<Listed[]>;

const first = async <T>(items: AsyncIterable<T>, toListed: (item: T) => Listed): Promise<Listed[]> => {
  const listed: Listed[] = [];
  for await (const item of items) {
    listed.push(toListed(item));
    if (listed.length >= maxListed) break;
  }
  return listed;
};

const openAiModels =
  (server: { url?: string | undefined; key: string | undefined }): Ask =>
  async (signal) =>
    first((await openAiClient(server)).models.list({ signal }), ({ id, created }) => ({
      name: id,
      created: Number.isSafeInteger(created) ? created : 0,
    }));

/** How to list the models of each configured provider. */
const asksOf = ({ openai, anthropic, azure, compatible }: ModelSettings): Partial<Record<Provider, Ask>> => {
  const asks: Partial<Record<Provider, Ask>> = {};
  if (openai.key !== undefined) {
    const ask = openAiModels(openai);
    // A different server may use any names for its models.
    const isOwn = openai.url === undefined;
    asks.openai = async (signal) =>
      (await ask(signal)).filter(({ name }) => !isOwn || (chats.test(name) && !chatsNot.test(name)));
  }
  const { key, url } = anthropic;
  if (key !== undefined)
    asks.anthropic = async (signal) =>
      first((await anthropicClient({ key, url })).models.list({ limit: 100 }, { signal }), ({ id, created_at }) => ({
        name: id,
        created: Math.max(0, Math.floor(Date.parse(created_at) / 1000) || 0),
      }));
  if (azure?.key !== undefined) asks.azure = async () => azure.deployments.map((name) => ({ name, created: 0 }));
  if (compatible) asks.compatible = openAiModels(compatible);
  return asks;
};

/**
 * The models of the providers, requested with a deadline and cached for a minute. A provider that fails counts as
 * having none, and is requested again after ten seconds.
 */
export const createListing = (settings: ModelSettings, now: () => number) => {
  const asks = asksOf(settings);
  const kept = new Map<Provider, { until: number; listed: Promise<Listed[]> }>();

  const refresh = (provider: Provider, ask: Ask): Promise<Listed[]> => {
    const deadline = AbortSignal.timeout(deadlineMs);
    const entry = { until: now() + keptMs, listed: Promise.resolve<Listed[]>([]) };
    entry.listed = orAborted(ask(deadline), deadline).catch(() => {
      entry.until = now() + failedMs;
      return [];
    });
    kept.set(provider, entry);
    return entry.listed;
  };

  return async (provider: Provider): Promise<Listed[]> => {
    const ask = asks[provider];
    if (ask === undefined) return [];
    const entry = kept.get(provider);
    return entry && now() < entry.until ? await entry.listed : await refresh(provider, ask);
  };
};
