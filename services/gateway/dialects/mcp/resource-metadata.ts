import { z } from 'zod';
import type { Dialect } from '../../http/app.ts';
import type { Issuer } from './settings.ts';

const prefix = '/.well-known/oauth-protected-resource';

/** The address of the metadata of a resource, whose path follows the well-known name (RFC 9728). */
export const metadataAddress = (resource: string): string => {
  const { origin, pathname } = new URL(resource);
  return `${origin}${prefix}${pathname === '/' ? '' : pathname}`;
};

/** The metadata of the MCP server as an OAuth resource: it tells clients which authorization server to ask. */
export const createResourceMetadata = ({ issuer, resource }: Issuer): Dialect => ({
  surface: {
    claims: { prefix },
    isForPages: true,
    credentialOf: () => undefined,
    needed: () => 'No key is needed here.',
    respond: (c, { code, message }) => c.json({ error: code, error_description: message }, 404),
  },
  addRoutes({ add }) {
    const about = {
      resource,
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
      resource_name: 'CodeBox',
    };
    for (const path of new Set([prefix, `${prefix}/mcp`, new URL(metadataAddress(resource)).pathname]))
      add(
        {
          method: 'get',
          path,
          scope: 'public',
          tag: 'MCP',
          summary: 'Which authorization server issues access tokens',
          query: z.looseObject({}),
          responses: {},
        },
        ({ c }) => c.json(about),
      );
  },
});
