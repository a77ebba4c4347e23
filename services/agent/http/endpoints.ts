import type { Context } from 'hono';
import type { z } from 'zod';
import type { CodeBoxError } from '#contract';
import {
  type Input as BareInput,
  createEndpoints as createBareEndpoints,
  type EndpointSpec,
  type ResponseSpec,
} from '../../http/endpoints/endpoint.ts';
import { problemResponse } from '../../http/problems/problem.ts';
import type { Owner } from '../chats/owner.ts';
import type { Env } from './env.ts';

export interface Input<P, Q, B> extends BareInput<Env, P, Q, B> {
  owner: Owner;
}

export interface Spec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends EndpointSpec<P, Q, B> {
  /** The endpoint has no owner, or its path contains a token: the handler gets no owner. */
  isPublic?: true;
}

/** Another API, whose errors have a form of their own. */
export interface Surface {
  /** Whether a path is its own. */
  claims: (path: string) => boolean;
  respond: (c: Context<Env>, error: CodeBoxError) => Response;
  /** That form, for the OpenAPI document. */
  refusal: ResponseSpec;
}

type NoInput = z.ZodObject<Record<string, never>>;
const anyone: Record<string, string[]>[] = [];
const owners: Record<string, string[]>[] = [{ apiKey: [] }, { apiKeyHeader: [] }, { visitor: [] }];

/** The routes of the agent: those that are not public belong to the owner of the request. */
export const createEndpoints = () => {
  const { app, registry, routes, add } = createBareEndpoints<Env>();
  const surfaces: Surface[] = [];

  const addTo =
    (surface?: Surface) =>
    <P extends z.ZodType = NoInput, Q extends z.ZodType = NoInput, B extends z.ZodType = NoInput>(
      spec: Spec<P, Q, B>,
      handler: (input: Input<z.output<P>, z.output<Q>, z.output<B>>) => Response | Promise<Response>,
    ): void =>
      add(
        { ...spec, ...(surface && { refusal: surface.refusal }) },
        { security: spec.isPublic ? anyone : owners },
        (input) => handler({ ...input, owner: input.c.get('owner') }),
      );

  return {
    app,
    registry,
    routes,

    /** Adds one endpoint: path, query and body are checked against their schemas, then the handler runs. */
    add: addTo(),

    /** Adds endpoints of another API in the same way. */
    mount(surface: Surface): { add: ReturnType<typeof addTo> } {
      surfaces.push(surface);
      return { add: addTo(surface) };
    },

    /** Formats an error as the API that a request is for does. */
    respond(c: Context<Env>, error: CodeBoxError): Response {
      const found = surfaces.find(({ claims }) => claims(c.req.path));
      return (found?.respond ?? problemResponse)(c, error);
    },
  };
};

export type Endpoints = ReturnType<typeof createEndpoints>;
