import { z } from 'zod';

/** Who serves models; the first part of a model's name. `compatible`: any server that speaks OpenAI's chat completions. */
export const providers = ['openai', 'azure', 'anthropic', 'compatible'] as const;

export type Provider = (typeof providers)[number];

const webAddress = z.url({ protocol: /^https?$/ }).transform((url) => url.replace(/\/+$/, ''));
const listOf = z.string().transform((text) => [
  ...new Set(
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  ),
]);
const modelName = z.string().regex(new RegExp(`^(${providers.join('|')})/.{1,200}$`), {
  error: `must be provider/name, of ${providers.join(', ')}`,
});

/** Variables of language models; those of OpenAI, Azure and Anthropic are the ones that their own libraries read. */
export const modelVariables = {
  OPENAI_API_KEY: z.string().min(1).optional(),
  OPENAI_BASE_URL: webAddress.optional(),
  AZURE_OPENAI_API_KEY: z.string().min(1).optional(),
  AZURE_OPENAI_ENDPOINT: webAddress.optional(),
  OPENAI_API_VERSION: z.string().min(1).default('2024-10-21'),
  AZURE_OPENAI_DEPLOYMENTS: listOf.default([]),
  ANTHROPIC_API_KEY: z.string().min(1).optional(),
  ANTHROPIC_BASE_URL: webAddress.optional(),
  CODEBOX_MODEL_URL: webAddress.optional(),
  CODEBOX_MODEL_KEY: z.string().min(1).optional(),
  CODEBOX_MODELS: listOf.pipe(z.array(modelName)).default([]),
  CODEBOX_MODEL: modelName.optional(),
  CODEBOX_MODEL_SILENCE_SECONDS: z.coerce.number().min(1).max(3600).default(60),
};

type Variables = z.infer<z.ZodObject<typeof modelVariables>>;

/** Which models there are, and how they are reached. */
export interface ModelSettings {
  openai: { key: string | undefined; url: string | undefined };
  anthropic: { key: string | undefined; url: string | undefined };
  azure: { key: string | undefined; endpoint: string; apiVersion: string; deployments: readonly string[] } | undefined;
  compatible: { url: string; key: string | undefined } | undefined;
  /** provider/name, with `:no-tools` behind those that take none; all that providers list when it is empty. */
  models: readonly string[];
  defaultModel: string | undefined;
  /** How long a model may say nothing. */
  silenceSeconds: number;
}

export const toModelSettings = (variables: Variables): ModelSettings => ({
  openai: { key: variables.OPENAI_API_KEY, url: variables.OPENAI_BASE_URL },
  anthropic: { key: variables.ANTHROPIC_API_KEY, url: variables.ANTHROPIC_BASE_URL },
  azure:
    variables.AZURE_OPENAI_ENDPOINT === undefined
      ? undefined
      : {
          key: variables.AZURE_OPENAI_API_KEY,
          endpoint: variables.AZURE_OPENAI_ENDPOINT,
          apiVersion: variables.OPENAI_API_VERSION,
          deployments: variables.AZURE_OPENAI_DEPLOYMENTS,
        },
  compatible:
    variables.CODEBOX_MODEL_URL === undefined
      ? undefined
      : { url: variables.CODEBOX_MODEL_URL, key: variables.CODEBOX_MODEL_KEY },
  models: variables.CODEBOX_MODELS,
  defaultModel: variables.CODEBOX_MODEL,
  silenceSeconds: variables.CODEBOX_MODEL_SILENCE_SECONDS,
});
