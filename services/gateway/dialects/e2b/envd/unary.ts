import type { z } from 'zod';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { RouteScope } from '../../../http/admission/admission.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import type { Running } from '../running.ts';

interface Service {
  /** The name of the service with its package, such as `process.Process`. */
  name: string;
  scope: RouteScope;
  tag: string;
}

/** Creates the function that adds the calls of a service whose request and response are one JSON message each. */
export const createUnaryCalls =
  ({ add }: Endpoints, running: Running, { name, scope, tag }: Service) =>
  <B extends z.ZodType>(
    method: string,
    summary: string,
    body: B,
    call: (ref: BoxRef, message: z.output<B>) => Promise<object>,
  ): void =>
    add(
      { method: 'post', path: `/${name}/${method}`, scope, summary, tag, body, responses: {} },
      async ({ c, body: message }) => c.json(await call(await running.of(c), message)),
    );
