import { z } from 'zod';

/** Providers of models; the first part of a model's name. `compatible`: any server with OpenAI's chat completions. */
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

/**
 * Environment variables of language models; those of OpenAI, Azure and Anthropic have the names that their own
 * libraries use.
 */
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

/** The configured models and how to reach them. */
export interface ModelSettings {
  openai: { key: string | undefined; url: string | undefined };
  anthropic: { key: string | undefined; url: string | undefined };
  azure: { key: string | undefined; endpoint: string; apiVersion: string; deployments: readonly string[] } | undefined;
  compatible: { url: string; key: string | undefined } | undefined;
  /** As provider/name, with `:no-tools` after models that take none; empty for all models that the providers list. */
  models: readonly string[];
  defaultModel: string | undefined;
  /** How long a model may stay silent. */
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
