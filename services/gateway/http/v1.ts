import { givenKey, keyMistake } from '../../http/endpoints/given-key.ts';
import { problemResponse } from '../../http/problems/problem.ts';
import type { Directory } from '../boxes/life/directory.ts';
import type { Links } from '../boxes/reach/links.ts';
import type { TenantVolumes } from '../boxes/volumes/volumes.ts';
import { keyNeeded } from './admission/admission.ts';
import { decodeSegment } from './segment.ts';
import type { Surface } from './surface.ts';

const boxPath = /^\/v1\/boxes\/([^/]+)\//;

/**
 * The API of `openapi.yaml`, with an API key in `Authorization: Bearer` or `X-API-Key`. A WebSocket may pass `?ticket=` instead, because
 * browsers cannot set its headers. Pages of other origins have neither a key nor a ticket, so the origin needs no check.
 */
export const createV1 = (boxes: Pick<Directory, 'idOf'>, volumes: Pick<TenantVolumes, 'idOf'>): Surface => ({
  claims: { prefix: '/v1' },
  credentialOf(c) {
    const key = givenKey(c);
    if (key !== undefined) return { key };
    const ticket = c.env?.upgrade ? c.req.query('ticket') : undefined;
    return ticket === undefined ? undefined : { ticket, box: decodeSegment(boxPath.exec(c.req.path)?.[1] ?? '') ?? '' };
  },
  needed: (c) => `${keyNeeded}${keyMistake(c)}`,
  respond: problemResponse,
  toBox: (text, tenant) => boxes.idOf(tenant, text),
  toVolume: (text, tenant) => volumes.idOf(tenant, text),
});

/** Files of boxes for whoever has a link. It is the credential, so pages of any origin may use it. */
export const createFileLinks = ({ callerOf }: Pick<Links, 'callerOf'>): Surface => ({
  claims: { prefix: '/v1/links' },
  credentialOf: (c) => ({ find: () => callerOf(c.req.path.split('/')[3] ?? '') }),
  needed: () => 'The link is not valid: it was revoked, or it expired long ago. Ask its creator for another one.',
  respond: problemResponse,
  isForPages: true,
});

/** The operator's part of that API, which needs the admin key. */
export const v1Admin: Surface = {
  claims: { prefix: '/v1/admin' },
  credentialOf: (c) => ({ operatorKey: givenKey(c) ?? '' }),
  needed: (c) => `The admin key is needed: Authorization: Bearer …${keyMistake(c)}`,
  respond: problemResponse,
};
