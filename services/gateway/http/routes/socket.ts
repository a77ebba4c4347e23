import { z } from 'zod';
import { socketMessageSchema, socketQuerySchema, socketRequestSchema } from '#contract';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Lifecycle } from '../../boxes/life/lifecycle.ts';
import type { Executions } from '../../boxes/runs/executions.ts';
import type { Endpoints } from '../endpoint.ts';
import { serveSession } from '../sockets/socket-session.ts';
import type { WebSockets } from '../sockets/websocket.ts';
import { boxParams } from './boxes.ts';

export interface SocketParts {
  lifecycle: Lifecycle;
  executions: Executions;
  webSockets: WebSockets;
}

const maxMessageBytes = largeJson.bytes;

/** `/v1/boxes/{box}/ws`: one WebSocket for executions, input, interrupts and events. */
export const addSocketRoute = (endpoints: Endpoints, { lifecycle, executions, webSockets }: SocketParts): void => {
  endpoints.add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/ws',
      scope: 'run',
      summary: 'WebSocket: run code, answer and stop it, follow its events, many at once',
      tag: 'Executions',
      params: boxParams,
      query: socketQuerySchema,
      responses: {
        101: {
          description:
            'Text frames are JSON: SocketRequest from the client, SocketMessage from the server. Closing it stops nothing: `attach` on ' +
            'another connection, or read over HTTP. Closed with 1008 when more than 1000 messages in a minute are pings or make no sense.',
          types: { 'application/json': z.union([socketRequestSchema, socketMessageSchema]) },
        },
      },
    },
    async ({ c, tenant, params: { box } }) => {
      webSockets.expect(c);
      const release = await lifecycle.hold({ tenant, box });
      const requestId = c.get('requestId');
      const log = c.get('log');
      try {
        // A connection on which nothing happens would not learn that its box has ended. Asking is no use of it: it may rest.
        const check = async () => {
          const ended = await lifecycle.ended({ tenant, box });
          if (ended) throw ended;
        };
        return webSockets.accept(c, { maxMessageBytes, check }, (peer) => {
          peer.closed.addEventListener('abort', release, { once: true });
          const count = () => webSockets.countMessage(c);
          serveSession(peer, { executions, tenant, box, requestId, log, count });
        });
      } catch (error) {
        release();
        throw error;
      }
    },
  );
};
