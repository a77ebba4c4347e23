import { givenKey, keyMistake } from '../../http/given-key.ts';
import { problemResponse } from '../../http/problem.ts';
import { keyNeeded } from './admission/admission.ts';
import type { Surface } from './surface.ts';

const boxPath = /^\/v1\/boxes\/([^/]+)\//;

/**
 * The API of `openapi.yaml`: an API key in `Authorization: Bearer` or `X-API-Key`. A WebSocket may have `?ticket=` instead, because a
 * browser cannot set its headers; pages elsewhere have neither, so their origin does not matter.
 */
export const v1: Surface = {
  claims: { prefix: '/v1' },
  credentialOf(c) {
    const key = givenKey(c);
    if (key !== undefined) return { key };
    const ticket = c.env?.upgrade ? c.req.query('ticket') : undefined;
    return ticket === undefined ? undefined : { ticket, box: boxPath.exec(c.req.path)?.[1] ?? '' };
  },
  needed: (c) => `${keyNeeded}${keyMistake(c)}`,
  respond: problemResponse,
};

/** The part of that API which belongs to the operator, who has a key of its own. */
export const v1Admin: Surface = {
  claims: { prefix: '/v1/admin' },
  credentialOf: (c) => ({ operatorKey: givenKey(c) ?? '' }),
  needed: (c) => `The admin key is needed: Authorization: Bearer …${keyMistake(c)}`,
  respond: problemResponse,
};
