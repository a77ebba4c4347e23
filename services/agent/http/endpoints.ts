import type { z } from 'zod';
import {
  type Input as BareInput,
  createEndpoints as createBareEndpoints,
  type EndpointSpec,
} from '../../http/endpoint.ts';
import type { Owner } from '../chats/owner.ts';
import { isOpenAiPath, openAiErrorSchema } from '../dialects/openai/openai-error.ts';
import type { Env } from './env.ts';

export interface Input<P, Q, B> extends BareInput<Env, P, Q, B> {
  owner: Owner;
}

export interface Spec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends EndpointSpec<P, Q, B> {
  /** The endpoint has no owner, or its path contains a token: the handler gets no owner. */
  isPublic?: true;
}

const inOpenAiWords = { description: "What went wrong, in OpenAI's words.", schema: openAiErrorSchema };

type NoInput = z.ZodObject<Record<string, never>>;
const anyone: Record<string, string[]>[] = [];
const owners: Record<string, string[]>[] = [{ apiKey: [] }, { apiKeyHeader: [] }, { visitor: [] }];

/** The routes of the agent: those that are not public belong to the owner of the request. */
export const createEndpoints = () => {
  const { app, registry, routes, add } = createBareEndpoints<Env>();
  return {
    app,
    registry,
    routes,

    /** Adds one endpoint: path, query and body are checked against their schemas, then the handler runs. */
    add<P extends z.ZodType = NoInput, Q extends z.ZodType = NoInput, B extends z.ZodType = NoInput>(
      spec: Spec<P, Q, B>,
      handler: (input: Input<z.output<P>, z.output<Q>, z.output<B>>) => Response | Promise<Response>,
    ): void {
      const refusal = isOpenAiPath(spec.path) && { refusal: inOpenAiWords };
      add({ ...spec, ...refusal }, { security: spec.isPublic ? anyone : owners }, (input) =>
        handler({ ...input, owner: input.c.get('owner') }),
      );
    },
  };
};

export type Endpoints = ReturnType<typeof createEndpoints>;
