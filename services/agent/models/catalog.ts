import { CodeBoxError, type Model } from '#contract';
import { didYouMean, nearest } from '../../suggestions/nearest.ts';
import { orAborted } from '../../waiting/or-aborted.ts';
import { createAnthropicModel } from './anthropic.ts';
import { createFencedModel, createWillingModel } from './fenced.ts';
import { createListing } from './listing.ts';
import type { LanguageModel } from './model.ts';
import { createOpenAiModel } from './openai.ts';
import { type ModelSettings, type Provider, providers } from './settings.ts';

const noTools = ':no-tools';

const keyVariables: Record<Provider, string> = {
  openai: 'OPENAI_API_KEY',
  azure: 'AZURE_OPENAI_API_KEY',
  anthropic: 'ANTHROPIC_API_KEY',
  compatible: 'CODEBOX_MODEL_KEY',
};

const howToConfigure =
  'No language model is configured. Set OPENAI_API_KEY, ANTHROPIC_API_KEY, AZURE_OPENAI_ENDPOINT with AZURE_OPENAI_API_KEY and ' +
  'AZURE_OPENAI_DEPLOYMENTS, or CODEBOX_MODEL_URL for a server of your own that speaks chat completions (Ollama, vLLM, llama.cpp).';

interface Name {
  id: string;
  provider: Provider;
  name: string;
  takesTools: boolean;
}

const toName = (provider: Provider, name: string, takesTools = true): Name => ({
  id: `${provider}/${name}`,
  provider,
  name,
  takesTools,
});

const readName = (text: string): Name | undefined => {
  const takesTools = !text.endsWith(noTools);
  const [start = '', ...rest] = (takesTools ? text : text.slice(0, -noTools.length)).split('/');
  const provider = providers.find((known) => known === start);
  const name = rest.join('/');
  return provider === undefined || name === '' ? undefined : toName(provider, name, takesTools);
};

/** The preferred model of a provider that lists many, unless another one is named. */
const usual = [toName('openai', 'gpt-5'), toName('anthropic', 'claude-sonnet-4-5')];

/** The models that can be used. */
export const createCatalog = (settings: ModelSettings, { now = () => performance.now() } = {}) => {
  const listed = createListing(settings, now);
  const opened = new Map<string, LanguageModel>();
  const chosen = settings.models.flatMap((text) => readName(text) ?? []);
  const fallback = settings.defaultModel === undefined ? undefined : readName(settings.defaultModel);

  const hasServer = (provider: Provider): boolean => {
    if (provider === 'openai' || provider === 'anthropic') return true;
    return settings[provider] !== undefined;
  };
  const needsKey = (provider: Provider): boolean => provider !== 'compatible' && settings[provider]?.key === undefined;
  const isReady = (provider: Provider): boolean => hasServer(provider) && !needsKey(provider);
  const ready = providers.filter(isReady);

  const defaultName = async (): Promise<Name | undefined> => {
    if (fallback) return fallback;
    if (chosen.length > 0) return chosen.find(({ provider }) => isReady(provider)) ?? chosen[0];
    for (const provider of ready) {
      // A different server behind the same provider has other models.
      const isOwn = provider !== 'compatible' && provider !== 'azure' && settings[provider].url === undefined;
      const known = isOwn ? usual.find((one) => one.provider === provider) : undefined;
      if (known) return known;
      const [first] = await listed(provider);
      if (first) return toName(provider, first.name);
    }
    return undefined;
  };

  const find = async (id: string | null): Promise<Name | undefined> => {
    if (id === null) return await defaultName();
    const named = readName(id);
    if (named === undefined || !hasServer(named.provider)) return undefined;
    if (fallback?.id === named.id) return fallback;
    return chosen.length > 0 ? chosen.find((one) => one.id === named.id) : named;
  };

  const build = ({ id, provider, name, takesTools }: Name, key: string | undefined): LanguageModel => {
    const { silenceSeconds, anthropic, azure, compatible, openai } = settings;
    const common = { id, name, silenceSeconds };
    const model =
      provider === 'anthropic'
        ? createAnthropicModel({ ...common, server: { url: anthropic.url, key: key ?? '' } })
        : createOpenAiModel({
            ...common,
            server:
              provider === 'azure'
                ? { url: azure?.endpoint, key, azure: { apiVersion: azure?.apiVersion ?? '' } }
                : { url: provider === 'compatible' ? compatible?.url : openai.url, key },
          });
    return takesTools ? createWillingModel(model) : createFencedModel(model);
  };

  /** The models in `CODEBOX_MODELS`, otherwise those that the providers list, otherwise the usual ones. */
  const named = async (): Promise<{ name: Name; created: number }[]> => {
    if (chosen.length > 0) return chosen.map((name) => ({ name, created: 0 }));
    const served = await Promise.all(
      ready.map(async (provider) =>
        (await listed(provider)).map(({ name, created }) => ({ name: toName(provider, name), created })),
      ),
    );
    return ready.length > 0 ? served.flat() : usual.map((name) => ({ name, created: 0 }));
  };

  const listAll = async (): Promise<Model[]> => {
    const [standard, all] = await Promise.all([defaultName(), named()]);
    const isDefault = ({ id }: Name) => id === standard?.id;
    const first = standard ? [...all.filter(({ name }) => isDefault(name)), { name: standard, created: 0 }] : [];
    const models = new Map<string, Model>();
    for (const { name, created } of [...first, ...all]) {
      const { id, provider } = name;
      if (models.has(id)) continue;
      const more = { needsKey: needsKey(provider), isDefault: isDefault(name) };
      models.set(id, { id, object: 'model', owned_by: provider, created, ...more });
    }
    return [...models.values()];
  };

  const unknown = (id: string) => {
    const known = [fallback, ...chosen, ...usual].flatMap((name) => name?.id ?? []);
    const meant = known.find((one) => one.endsWith(`/${id}`)) ?? nearest(id, known);
    const detail = `must be one that GET /v1/models lists, as provider/name${didYouMean(meant)}`;
    return refused('/model', detail, 'There is no such model.');
  };

  return {
    /** Throws `invalid_request` for a name that no model can have. Only the provider knows whether the model exists. */
    async check(id: string): Promise<void> {
      if ((await find(id)) === undefined) throw unknown(id);
    },

    /**
     * The models in `CODEBOX_MODELS`, otherwise those that the providers list; the default one first. Without any key:
     * the usual ones, for which a request may bring a key.
     */
    list: (signal: AbortSignal): Promise<Model[]> => orAborted(listAll(), signal),

    /** Returns the settings to make when no model is configured, null otherwise. */
    hint: (): string | null => (ready.length > 0 ? null : howToConfigure),

    /**
     * Returns the model of that name, or the default one. A `key` is used for this model object alone and never kept. Rejects
     * with `invalid_request` for an unknown model, and when a key is missing; that is not `unauthorized`, as the caller
     * is known to the agent.
     */
    async open(id: string | null, key?: string): Promise<LanguageModel> {
      const name = await find(id);
      if (name === undefined && id === null) throw refused('/model', 'needs a configured model', howToConfigure);
      if (name === undefined) throw unknown(id ?? '');
      if (key !== undefined) return build(name, key);
      if (needsKey(name.provider)) {
        const variable = keyVariables[name.provider];
        const text = `${name.id} needs a key: set ${variable}, or send one as X-Model-Key.`;
        throw refused('/headers/X-Model-Key', `is required for ${name.id}`, text);
      }
      const model = opened.get(name.id) ?? build(name, settings[name.provider]?.key);
      // Names that no provider listed come from requests, so the cache is bounded.
      if (opened.size > 1000) opened.clear();
      opened.set(name.id, model);
      return model;
    },
  };
};

export type Catalog = ReturnType<typeof createCatalog>;

const refused = (pointer: string, detail: string, text: string) =>
  new CodeBoxError('invalid_request', text, { errors: [{ pointer, detail }] });
