import type { Context } from 'hono';
import { z } from 'zod';
import type { Dialect } from '../../http/app.ts';
import type { Env } from '../../http/env.ts';
import type { Surface } from '../../http/surface.ts';
import { addChannelRoute } from './channels.ts';
import { addContentRoutes } from './contents.ts';
import { addKernelRoutes } from './kernels.ts';
import { createPlaces } from './places.ts';
import { respondWithError } from './responses.ts';
import { addTerminalRoutes } from './terminals.ts';

/** The version of Jupyter Server whose API is served. */
const version = '2.21.1';
const described = { method: 'get', tag: 'Jupyter', query: z.looseObject({}), responses: {} } as const;

/** The key in `Authorization: token …` or `Bearer …`, or in `?token=`, for clients that cannot set headers. */
const keyOf = (c: Context<Env>): string | undefined =>
  /^(?:token|Bearer) +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1] ?? c.req.query('token');

const surface: Surface = {
  claims: { prefix: '/jupyter' },
  credentialOf(c) {
    const key = keyOf(c);
    return key === undefined ? undefined : { key };
  },
  needed: () => 'Forbidden: the token must be a valid API key: cbx_…',
  respond: respondWithError,
};

/** The API of Jupyter Server: kernels, sessions, contents, and the messages of kernels. */
export const jupyter: Dialect = {
  surface,
  addRoutes(endpoints, parts) {
    const { add } = endpoints;
    const places = createPlaces(parts);
    const startedAt = new Date().toISOString();

    add({ ...described, path: '/jupyter/{name}/api', scope: 'public', summary: 'The version' }, ({ c }) =>
      c.json({ version }),
    );

    add({ ...described, path: '/jupyter/{name}/api/me', scope: 'any', summary: 'Who calls' }, ({ c, tenant }) => {
      const names = {
        username: tenant,
        name: tenant,
        display_name: tenant,
        initials: null,
        avatar_url: null,
        color: null,
      };
      return c.json({ identity: names, permissions: {} });
    });

    add(
      { ...described, path: '/jupyter/{name}/api/status', scope: 'run', summary: 'The state of the box' },
      async ({ c, tenant }) => {
        const kernels = places.isFresh(c) ? [] : await parts.contexts.list(await places.boxOf(c, tenant));
        const last = kernels
          .map(({ lastActivityAt }) => lastActivityAt)
          .sort()
          .at(-1);
        return c.json({
          started: startedAt,
          last_activity: last ?? startedAt,
          connections: 0,
          kernels: kernels.length,
        });
      },
    );

    addKernelRoutes(endpoints, parts, places);
    addContentRoutes(endpoints, parts, places);
    addChannelRoute(endpoints, parts, places);
    addTerminalRoutes(endpoints, parts, places);
  },
};
