import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { WebSocketServer } from 'ws';

/** A message that a bot has sent to a channel. */
export interface Sent {
  channel: string;
  content: string;
  files: { name: string; bytes: Buffer }[];
}

const bot = { id: '1000', username: 'helper', discriminator: '0', global_name: null, avatar: null, bot: true };
const time = '2030-01-01T00:00:00.000Z';

/** A fake Discord for bots that receive messages: its REST API, its gateway, and its files. */
export const startDiscord = async () => {
  const sent: Sent[] = [];
  const typing: string[] = [];
  const files = new Map<string, Buffer>();
  let dispatch: ((type: string, data: unknown) => void) | undefined;
  let lastId = 5000;

  const toMessage = (channel: string, author: object, content: string, more: object = {}) => ({
    id: String(++lastId),
    channel_id: channel,
    author,
    content,
    timestamp: time,
    edited_timestamp: null,
    tts: false,
    mention_everyone: false,
    mentions: [],
    mention_roles: [],
    attachments: [],
    embeds: [],
    pinned: false,
    type: 0,
    ...more,
  });

  const readSent = async (channel: string, body: Buffer, type: string): Promise<Sent> => {
    if (!type.startsWith('multipart/'))
      return { channel, content: JSON.parse(body.toString()).content ?? '', files: [] };
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': type } }).formData();
    const parts: Sent['files'] = [];
    for (const [, value] of form) {
      if (typeof value !== 'string') parts.push({ name: value.name, bytes: Buffer.from(await value.arrayBuffer()) });
    }
    return { channel, content: JSON.parse(String(form.get('payload_json') ?? '{}')).content ?? '', files: parts };
  };

  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const { pathname } = new URL(request.url ?? '/', 'http://discord.test');
    const json = (value: unknown) => response.setHeader('content-type', 'application/json').end(JSON.stringify(value));
    const [, channel = '', what] = /^\/api\/v10\/channels\/(\d+)\/(\w+)$/.exec(pathname) ?? [];
    if (pathname.startsWith('/files/')) return void response.end(files.get(pathname));
    if (pathname === '/api/v10/gateway/bot') {
      const limit = { total: 1000, remaining: 1000, reset_after: 0, max_concurrency: 1 };
      return void json({ url: `ws://127.0.0.1:${port()}`, shards: 1, session_start_limit: limit });
    }
    if (what === 'typing') {
      typing.push(channel);
      return void response.writeHead(204).end();
    }
    if (what !== 'messages') return void response.writeHead(404).end('{}');
    const message = await readSent(channel, body, request.headers['content-type'] ?? '');
    sent.push(message);
    json(toMessage(channel, bot, message.content));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const port = () => {
    const address = server.address();
    return typeof address === 'object' && address ? address.port : 0;
  };

  const gateway = new WebSocketServer({ server });
  gateway.on('connection', (socket) => {
    let sequence = 0;
    const sendFrame = (op: number, d: unknown, more: object = {}) =>
      socket.send(JSON.stringify({ op, d, s: null, ...more }));
    sendFrame(10, { heartbeat_interval: 45_000 });
    socket.on('message', (data) => {
      const { op } = JSON.parse(String(data));
      if (op === 1) sendFrame(11, null);
      if (op !== 2) return;
      dispatch = (t, d) => sendFrame(0, d, { t, s: ++sequence });
      const application = { id: bot.id, flags: 0 };
      const session = { session_id: 's', resume_gateway_url: `ws://127.0.0.1:${port()}` };
      dispatch('READY', { v: 10, user: bot, guilds: [], application, shard: [0, 1], ...session });
    });
  });

  return {
    api: `http://127.0.0.1:${port()}/api`,
    sent,
    typing,
    isJoined: () => dispatch !== undefined,

    /** Sends a direct message of a user to the bot. */
    write(user: string, channel: string, content: string, attached: Record<string, string> = {}): void {
      const attachments = Object.entries(attached).map(([filename, text], at) => {
        const path = `/files/${channel}/${filename}`;
        files.set(path, Buffer.from(text));
        const url = `http://127.0.0.1:${port()}${path}`;
        return { id: String(9000 + at), filename, size: text.length, url, proxy_url: url };
      });
      const author = { id: user, username: `user${user}`, discriminator: '0', global_name: null, avatar: null };
      dispatch?.('MESSAGE_CREATE', toMessage(channel, author, content, { attachments, channel_type: 1 }));
    },

    async close(): Promise<void> {
      for (const socket of gateway.clients) socket.terminate();
      gateway.close();
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
};
