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
} from '../../http/endpoints/endpoint.ts';
import type { Reference } from '../store/reference.ts';
import { type RouteScope, requireScope } from './admission/admission.ts';
import { type Env, noteBox } from './env.ts';
import { respondOnce } from './idempotency/idempotency.ts';
import type { KeyClaims } from './idempotency/key-claims.ts';
import { createLargeResponses } from './idempotency/large-responses.ts';

export interface EndpointSpec<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType> extends BareSpec<P, Q, B> {
  scope: RouteScope;
  /** Whether the path itself is the credential, for the OpenAPI document. */
  isCapability?: true;
  /**
   * Accepts an Idempotency-Key. `replay` responds to a repeated request with what the first one created or started;
   * `storesResponse` also stores the whole response for as long as keys are kept; `onlyAbandoned` joins only work whose gateway
   * abandoned it. Work that failed or was abandoned is done again if `leftNothing` returns true.
   */
  idempotent?:
    | true
    | {
        replay: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, reference: Reference) => Promise<Response>;
        storesResponse?: true;
        onlyAbandoned?: true;
        leftNothing?: (input: Input<z.output<P>, z.output<Q>, z.output<B>>, reference: Reference) => Promise<boolean>;
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
  /** Admits a request that has this scope; throws otherwise. */
  admit?: (c: Context<Env>, scope: RouteScope) => void | Promise<void>;
}

/** The routes of one surface: those that are not public need its credential, and some accept an Idempotency-Key. */
export const createEndpoints = ({ claims, admit = requireScope, ...options }: EndpointsOptions) => {
  const { app, registry, routes, ...bare } = createBareEndpoints<Env>(options);

  const sendLarge = createLargeResponses();
  const admissionOf = (spec: { scope: RouteScope; isCapability?: true; idempotent?: unknown }) => ({
    security: spec.isCapability ? [] : securityOf(spec.scope),
    admit: (c: Context<Env>) => admit(c, spec.scope),
    ...(spec.idempotent !== undefined && { headers }),
  });

  /** Extends the input of a handler after the caller is admitted. */
  const forTenant = <I extends { c: Context<Env>; params: unknown }>(input: I): I & { tenant: string } => {
    const { box } = input.params as { box?: string };
    if (box !== undefined) noteBox(input.c, box);
    return { ...input, tenant: input.c.get('tenant') };
  };

  return {
    app,
    registry,
    routes,

    /** Only documents an endpoint that is served elsewhere. */
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
        const respond = async () => handler(input);
        const key = spec.idempotent ? c.req.header('idempotency-key') : undefined;
        if (key === undefined) return await respond();
        checkInput(idempotencyKeySchema, key, '/headers/Idempotency-Key');
        const hash = createHash('sha256').update(`${c.req.method} ${c.req.path}\n`).update(bytes).digest('hex');
        const options = typeof spec.idempotent === 'object' ? spec.idempotent : undefined;
        const replay = options && {
          join: (reference: Reference) => options.replay(input, reference),
          storesResponse: options.storesResponse ?? false,
          onlyAbandoned: options.onlyAbandoned ?? false,
          leftNothing: async (reference: Reference) => (await options.leftNothing?.(input, reference)) ?? false,
        };
        return await respondOnce({ c, claims, sendLarge, key, hash, respond, replay });
      });
    },

    /** Serves one endpoint whose handler reads the query and the body itself. */
    addRaw: <P extends z.ZodType = NoInput>(
      spec: RawSpec<P>,
      handler: (input: RawInput<z.output<P>>) => Response | Promise<Response>,
    ): void => bare.addRaw(spec, admissionOf(spec), (input) => handler(forTenant(input))),
  };
};

export type Endpoints = ReturnType<typeof createEndpoints>;

/** The security requirements of a scope in the OpenAPI document, by the scheme names of `openapi.ts`. */
const securityOf = (scope: RouteScope): Record<string, string[]>[] => {
  if (scope === 'public') return [];
  if (scope === 'admin') return [{ adminKey: [] }];
  const needed = scope === 'any' ? [] : [scope];
  return [{ apiKey: needed }, { apiKeyHeader: needed }];
};
