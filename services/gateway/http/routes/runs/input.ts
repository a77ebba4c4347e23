import type { z } from 'zod';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { Endpoints, Input } from '../../endpoint.ts';

export interface InputRoute<P extends z.ZodType, B extends z.ZodType> {
  path: string;
  summary: string;
  tag: string;
  params: P;
  body: B;
  write: (input: Input<z.output<P>, unknown, z.output<B>>) => Promise<void>;
}

/** Adds the route that writes to the stdin of a run. */
export const addInputRoute = <P extends z.ZodType, B extends z.ZodType>(
  { add }: Endpoints,
  { write, ...route }: InputRoute<P, B>,
): void => {
  const responses = { 204: { description: 'The input was written.' } };
  add({ ...route, method: 'post', scope: 'run', bounds: largeJson, responses }, async (input) => {
    await write(input);
    return input.c.body(null, 204);
  });
};
