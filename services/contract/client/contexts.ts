import {
  type Context,
  type CreateContext,
  contextPageSchema,
  contextSchema,
  variablePageSchema,
} from '../runs/contexts.ts';
import { type CallOptions, type CreateOptions, pathOf, type Transport } from './transport.ts';

/** The kernels of a box. */
export const createContexts = (transport: Transport) => ({
  /** Starts another kernel. */
  create: (box: string, body: CreateContext, options?: CreateOptions): Promise<Context> =>
    transport.json(contextSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'contexts'),
      json: body,
      creates: true,
      options,
    }),

  list: (box: string, options?: CallOptions) =>
    transport.items(contextPageSchema, { path: pathOf('boxes', box, 'contexts'), options }),

  /** Starts a fresh kernel under the same id; the variables are lost. */
  restart: (box: string, context: string, options?: CallOptions): Promise<Context> =>
    transport.json(contextSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'contexts', context, 'restart'),
      options,
    }),

  /**
   * The variables that the next run would find, by name. Rejects with `conflict` while something runs in the context.
   */
  variables: (box: string, context: string, options?: CallOptions) =>
    transport.items(variablePageSchema, { path: pathOf('boxes', box, 'contexts', context, 'variables'), options }),

  /** Deletes the context; what runs in it ends as `killed`. */
  delete: (box: string, context: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box, 'contexts', context), options }),
});
