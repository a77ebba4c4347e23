import { z } from 'zod';
import { socketMessageSchema, socketQuerySchema, socketRequestSchema } from '#contract';
import { largeJson } from '../../../../json/json-bounds.ts';
import type { Access } from '../../../boxes/life/access.ts';
import type { Directory } from '../../../boxes/life/directory.ts';
import type { Executions } from '../../../boxes/runs/executions.ts';
import type { Endpoints } from '../../endpoint.ts';
import { serveSession } from '../../sockets/socket-session.ts';
import type { WebSockets } from '../../sockets/websocket.ts';
import { boxParams } from './boxes.ts';

export interface SocketParts {
  directory: Directory;
  access: Access;
  executions: Executions;
  webSockets: WebSockets;
}

const maxMessageBytes = largeJson.bytes;

/** `/v1/boxes/{box}/ws`: one WebSocket for executions, input, interrupts and events. */
export const addSocketRoute = (endpoints: Endpoints, parts: SocketParts): void => {
  const { directory, access, executions, webSockets } = parts;
  endpoints.add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/ws',
      scope: 'run',
      summary: 'WebSocket: run code, send input, interrupt, and follow events of many executions at once',
      tag: 'Executions',
      params: boxParams,
      query: socketQuerySchema,
      responses: {
        101: {
          description:
            'Text frames are JSON: SocketRequest from the client, SocketMessage from the server. Closing it does not stop executions: ' +
            '`attach` on another connection, or read over HTTP. It is closed with 1008 after more than 1000 pings or invalid messages in a minute, ' +
            'and for a message that takes too long to arrive; with 1013 when there is no memory for a message: send it again later.',
          types: { 'application/json': z.union([socketRequestSchema, socketMessageSchema]) },
        },
      },
    },
    async ({ c, tenant, params: { box } }) => {
      webSockets.expect(c);
      const release = await access.hold({ tenant, box });
      const requestId = c.get('requestId');
      const log = c.get('log');
      try {
        // An idle connection would not notice that its box has ended. The check does not count as use, so the box can rest.
        const check = async () => {
          const ended = await directory.endedError({ tenant, box });
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
