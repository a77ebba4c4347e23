import { z } from 'zod';
import { portSchema } from '#contract';
import type { Endpoints } from '../endpoint.ts';
import { portRoute } from '../ports/proxy.ts';
import { boxParams } from './boxes.ts';

const params = boxParams.extend({ port: portSchema, path: z.string() });
const anything = { '*/*': z.string().meta({ format: 'binary' }) };
const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

/** Describes the ports of boxes: what they take and answer is their servers' matter, so no router serves them. */
export const addPortRoutes = ({ document }: Endpoints): void => {
  for (const method of methods) {
    document({
      method,
      path: portRoute,
      scope: 'run',
      summary: 'Talk to a server that listens inside the box: HTTP, streams and WebSocket, any method',
      tag: 'Ports',
      params,
      ...(method !== 'get' && { rawBody: anything }),
      responses: {
        200: { description: 'Whatever the server answers, with its own status.', types: anything },
        502: { description: 'Nothing listens on that port, or what listens does not speak HTTP.' },
        504: { description: 'The server did not answer in time.' },
      },
    });
  }
};
