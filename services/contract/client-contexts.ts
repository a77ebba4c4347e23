import { type CallOptions, type CreateOptions, pathOf, type Transport } from './client-transport.ts';
import { type Context, type CreateContext, contextPageSchema, contextSchema, variablePageSchema } from './contexts.ts';

/** The kernels of a box. */
export const createContexts = (transport: Transport) => ({
  /** Starts a further kernel. */
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

  /** A fresh kernel under the same id; its variables are gone. */
  restart: (box: string, context: string, options?: CallOptions): Promise<Context> =>
    transport.json(contextSchema, {
      method: 'POST',
      path: pathOf('boxes', box, 'contexts', context, 'restart'),
      options,
    }),

  /** What a run in it would find, by name. Refused as `conflict` while something runs there. */
  variables: (box: string, context: string, options?: CallOptions) =>
    transport.items(variablePageSchema, { path: pathOf('boxes', box, 'contexts', context, 'variables'), options }),

  /** What runs in it ends as killed. */
  delete: (box: string, context: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('boxes', box, 'contexts', context), options }),
});
