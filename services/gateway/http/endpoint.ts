import { createHash } from 'node:crypto';
import type { Context } from 'hono';
import { z } from 'zod';
import {
  type Input as BareInput,
  type EndpointsOptions as BareOptions,
  type RawInput as BareRawInput,
  type RawSpec as BareRawSpec,
  type EndpointSpec as BareSpec,
  checkInput,
  createEndpoints as createBareEndpoints,
} from '../../http/endpoint.ts';
import { type RouteScope, requireScope } from './admission/admission.ts';
import { type Env, noteBox } from './env.ts';
import { answerOnce } from './idempotency/idempotency.ts';
import type { KeyClaims } from './idempotency/key-claims.ts';

export interface EndpointSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends BareSpec<P, Q, B> {
  scope: RouteScope;
  /**
   * Takes an Idempotency-Key. `replay` answers again for something that was started and can be read at `location`;
   * `keepsAnswer` keeps the whole answer too, for as long as keys are kept; `onlyAbandoned` is for what is not joined while it is
   * made. What was abandoned and `cameToNothing` is done anew.
   */
  idempotent?:
    | true
    | {
        replay: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, location: string) => Promise<Response>;
        keepsAnswer?: true;
        onlyAbandoned?: true;
        cameToNothing?: (tenant: string, location: string) => Promise<boolean>;
      };
}

export type RawSpec<P extends z.ZodType> = BareRawSpec<P> & { scope: RouteScope };

export interface RawInput<P> extends BareRawInput<Env, P> {
  tenant: string;
}

export interface Input<P, Q, B> extends BareInput<Env, P, Q, B> {
  tenant: string;
}

type NoInput = z.ZodObject<Record<string, never>>;
const idempotencyKeySchema = z.string().min(1).max(255);
const headers = z.object({ 'Idempotency-Key': idempotencyKeySchema.optional() });

export interface EndpointsOptions extends BareOptions<Env> {
  claims: KeyClaims;
  /** Lets a request in that has this scope; throws what refuses it. */
  letIn?: (c: Context<Env>, scope: RouteScope) => void | Promise<void>;
}

/** The routes of one surface: those that are not public ask for its credential, and some take an Idempotency-Key. */
export const createEndpoints = ({ claims, letIn = requireScope, ...options }: EndpointsOptions) => {
  const { app, registry, routes, ...bare } = createBareEndpoints<Env>(options);

  const admissionOf = (spec: { scope: RouteScope; idempotent?: unknown }) => ({
    security: securityOf(spec.scope),
    admit: (c: Context<Env>) => letIn(c, spec.scope),
    ...(spec.idempotent !== undefined && { headers }),
  });

  /** The input of a handler, once the caller is let in. */
  const forTenant = <I extends { c: Context<Env>; params: unknown }>(input: I): I & { tenant: string } => {
    const { box } = input.params as { box?: string };
    if (box !== undefined) noteBox(input.c, box);
    return { ...input, tenant: input.c.get('tenant') };
  };

  return {
    app,
    registry,
    routes,

    /** Only describes an endpoint, for what is served otherwise. */
    document: <P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType>(spec: EndpointSpec<P, Q, B>): void =>
      bare.document(spec, admissionOf(spec)),

    /** Serves one endpoint: path, query and body are checked against their schemas, then the handler runs. */
    add<P extends z.ZodType = NoInput, Q extends z.ZodType = NoInput, B extends z.ZodType = NoInput>(
      spec: EndpointSpec<P, Q, B>,
      handler: (input: Input<z.output<P>, z.output<Q>, z.output<B>>) => Response | Promise<Response>,
    ): void {
      bare.add(spec, admissionOf(spec), async (bareInput) => {
        const { c, bytes } = bareInput;
        const input = forTenant(bareInput);
        const answer = async () => handler(input);
        const key = spec.idempotent ? c.req.header('idempotency-key') : undefined;
        if (key === undefined) return await answer();
        checkInput(idempotencyKeySchema, key, '/headers/Idempotency-Key');
        const hash = createHash('sha256').update(`${c.req.method} ${c.req.path}\n`).update(bytes).digest('hex');
        const again = typeof spec.idempotent === 'object' ? spec.idempotent : undefined;
        const replay = again && {
          join: (_: Context<Env>, location: string) => again.replay(input, location),
          keepsAnswer: again.keepsAnswer ?? false,
          onlyAbandoned: again.onlyAbandoned ?? false,
          cameToNothing: async (at: string) => (await again.cameToNothing?.(input.tenant, at)) ?? false,
        };
        return await answerOnce({ c, claims, key, hash, answer, replay });
      });
    },

    /** Serves one endpoint whose handler reads query and body by itself. */
    addRaw: <P extends z.ZodType = NoInput>(
      spec: RawSpec<P>,
      handler: (input: RawInput<z.output<P>>) => Response | Promise<Response>,
    ): void => bare.addRaw(spec, admissionOf(spec), (input) => handler(forTenant(input))),
  };
};

export type Endpoints = ReturnType<typeof createEndpoints>;

/** The keys that let a request in, for the OpenAPI document, by the names of `openapi.ts`. */
const securityOf = (scope: RouteScope): Record<string, string[]>[] => {
  if (scope === 'public') return [];
  if (scope === 'admin') return [{ adminKey: [] }];
  const needed = scope === 'any' ? [] : [scope];
  return [{ apiKey: needed }, { apiKeyHeader: needed }];
};
