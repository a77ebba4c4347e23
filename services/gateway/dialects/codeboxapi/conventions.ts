import type { CodeBoxError, InputFault } from '#contract';
import { bearerKey } from '../../../http/endpoints/given-key.ts';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import type { Surface } from '../../http/surface.ts';

const places: Record<string, string> = { path: 'path', query: 'query', headers: 'header' };

/** A fault in the form of FastAPI, with which the reference server is built: `/headers/X` becomes `["header", "X"]`. */
const toDetail = ({ pointer, detail }: InputFault) => {
  const [, first = '', ...more] = pointer.split('/');
  const place = places[first];
  const loc = place === undefined ? ['body', ...pointer.split('/').slice(1)] : [place, ...more];
  return { loc, msg: detail, type: 'value_error' };
};

const statusOf = ({ code }: CodeBoxError) => (code === 'invalid_request' ? 422 : problemKinds[code].status);

/** Shared by all surfaces of the dialect: an API key as Bearer, and errors as `{"detail": …}`. */
export const conventions: Omit<Surface, 'claims'> = {
  credentialOf(c) {
    const key = bearerKey(c);
    return key === undefined ? undefined : { key };
  },
  needed: () => 'Set CODEBOX_API_KEY to a valid API key: cbx_…',
  respond(c, error) {
    c.header('Connection', 'close');
    if (error.code === 'unauthorized') c.header('WWW-Authenticate', 'Bearer');
    setRetryAfter(c, error);
    const faults = error.errors.map(toDetail);
    return c.json({ detail: faults.length > 0 ? faults : error.message }, statusOf(error));
  },
};
