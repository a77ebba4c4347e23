import { z } from 'zod';
import { terminalPageSchema, terminalQuerySchema } from '#contract';
import type { Terminals } from '../../../boxes/reach/terminals.ts';
import type { Endpoints } from '../../endpoint.ts';
import { bridgeTerminal } from '../../sockets/terminal-bridge.ts';
import type { WebSockets } from '../../sockets/websocket.ts';
import { boxParams } from './boxes.ts';

const params = boxParams.extend({ terminal: z.string().max(64) });
const tag = 'Terminals';
const maxMessageBytes = 1024 * 1024;

/** `/v1/boxes/{box}/terminal` and `/v1/boxes/{box}/terminals`: interactive shells over WebSockets. */
export const addTerminalRoutes = ({ add }: Endpoints, terminals: Terminals, webSockets: WebSockets): void => {
  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/terminal',
      scope: 'run',
      summary: 'WebSocket: a new terminal, or a running one',
      tag,
      params: boxParams,
      query: terminalQuerySchema,
      responses: {
        101: {
          description:
            'Binary frames are bytes of the terminal, both ways. Text frames are JSON: `{"type":"resize","cols","rows"}` from the client; ' +
            '`{"type":"ready","terminal","cols","rows","replayedBytes"}`, `{"type":"exit","exitCode","signal"}` and ' +
            '`{"type":"error","code","detail"}` from the server. It is closed with 1012 when the gateway restarts and with 1013 when the client ' +
            'reads too slowly, or a message finds no memory: connect again with `?terminal=`. It is closed with 1008 after more than 1000 invalid ' +
            'text frames in a minute, and for a message that takes too long to arrive.',
        },
      },
    },
    async ({ c, tenant, params, query }) => {
      webSockets.expect(c);
      const attached = await terminals.attach({ tenant, box: params.box }, query);
      const log = c.get('log').child({ terminal: attached.id });
      try {
        return webSockets.accept(c, { maxMessageBytes }, (client) =>
          bridgeTerminal(client, attached, (err) => log.warn({ err }, 'a terminal broke')),
        );
      } catch (error) {
        await attached.abandon();
        throw error;
      }
    },
  );

  add(
    {
      method: 'get',
      path: '/v1/boxes/{box}/terminals',
      scope: 'boxes:read',
      summary: 'List the running terminals, the oldest first',
      tag,
      params: boxParams,
      responses: { 200: { description: 'All running terminals of the box.', schema: terminalPageSchema } },
    },
    async ({ c, tenant, params }) =>
      c.json({ items: await terminals.list({ tenant, box: params.box }), nextCursor: null }),
  );

  add(
    {
      method: 'delete',
      path: '/v1/boxes/{box}/terminals/{terminal}',
      scope: 'run',
      summary: 'End a terminal with everything that runs in it',
      tag,
      params,
      responses: { 204: { description: 'The session and all processes that belong to it have ended.' } },
    },
    async ({ c, tenant, params }) => {
      await terminals.end({ tenant, box: params.box }, params.terminal);
      return c.body(null, 204);
    },
  );
};
