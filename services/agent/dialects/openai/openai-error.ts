import { CodeBoxError, errorCodes } from '#contract';
import { isBelow } from '../../../http/server/requests.ts';
import { openAiErrorResponse, openAiErrorSchema } from '../../../openai/openai-error.ts';
import type { Surface } from '../../http/endpoints.ts';
import { isStoredFilePath } from './files.ts';

const prefixes = ['/v1/chat/completions', '/v1/responses', '/v1/containers'];

/** The error of a failed answer. A key that the model's provider refuses is not an error of the caller's key. */
export const answerError = ({ code, detail }: { code: string; detail: string }): CodeBoxError => {
  const known = errorCodes.find((each) => each === code) ?? 'internal';
  return new CodeBoxError(known === 'unauthorized' ? 'forbidden' : known, detail);
};

/** OpenAI's API: its paths, and the form of its errors. */
export const openAiSurface: Surface = {
  claims: (path) => isStoredFilePath(path) || prefixes.some((prefix) => isBelow(path, prefix)),
  respond: openAiErrorResponse,
  refusal: { description: "What went wrong, in OpenAI's words.", schema: openAiErrorSchema },
};
