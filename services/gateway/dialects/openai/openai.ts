import type { IncomingMessage } from 'node:http';
import { CodeBoxError } from '#contract';
import { bearerKey } from '../../../http/endpoints/given-key.ts';
import { openAiErrorResponse } from '../../../openai/openai-error.ts';
import type { Dialect } from '../../http/app.ts';
import type { Surface } from '../../http/surface.ts';
import { addContainerFileRoutes } from './container-files.ts';
import { addContainerRoutes, toBoxId } from './containers.ts';

const paths = /^\/v1\/containers(?:[/?]|$)/;

const surface: Surface = {
  // Claimed by request rather than by prefix, because `/v1` is the prefix of the native surface.
  claims: { request: ({ url = '' }: IncomingMessage) => paths.test(url) },
  credentialOf(c) {
    const key = bearerKey(c);
    return key === undefined ? undefined : { key };
  },
  needed: () => 'Incorrect API key provided. Set OPENAI_API_KEY to a key of CodeBox: cbx_…',
  respond(c, error) {
    const isGone = error.code === 'gone';
    return openAiErrorResponse(c, isGone ? new CodeBoxError('not_found', 'The container has expired.') : error);
  },
  toBox: toBoxId,
};

/** OpenAI's containers: `/v1/containers` beside the paths of the native surface. */
export const openai: readonly Dialect[] = [
  {
    surface,
    addRoutes(endpoints, parts) {
      addContainerRoutes(endpoints, parts);
      addContainerFileRoutes(endpoints, parts);
    },
  },
];
