import { z } from 'zod';
import { portSchema } from '#contract';
import type { Endpoints } from '../../endpoint.ts';
import { portRoute } from '../../ports/proxy.ts';
import { boxParams } from './boxes.ts';

const params = boxParams.extend({ port: portSchema, path: z.string() });
const anything = { '*/*': z.string().meta({ format: 'binary' }) };
const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** Documents the ports of boxes. A middleware serves them, because requests and responses are up to the servers in boxes. */
export const addPortRoutes = ({ document }: Endpoints): void => {
  for (const method of methods) {
    document({
      method,
      path: portRoute,
      scope: 'run',
      summary: 'Send a request to a server inside the box: HTTP, streams and WebSocket, any method',
      tag: 'Ports',
      params,
      ...(method !== 'get' && { rawBody: anything }),
      responses: {
        200: { description: 'The response of the server, with its own status.', types: anything },
        502: { description: 'Nothing listens on that port, or the server does not speak HTTP.' },
        504: { description: 'The server did not respond in time.' },
      },
    });
  }
};
