import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

/** An API call of an app. */
interface Call {
  method: string;
  args: Record<string, string>;
}

/** A fake Slack for apps of its Events API: it sends signed events and serves the methods that the app calls. */
export const startSlack = async (secret: string) => {
  const calls: Call[] = [];
  const uploaded = new Map<string, Buffer>();
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    const path = request.url ?? '/';
    if (path.startsWith('/upload/')) {
      uploaded.set(path.slice('/upload/'.length), body);
      return void response.end('OK');
    }
    if (path.startsWith('/files/')) {
      const isAllowed = request.headers.authorization === 'Bearer xoxb-test';
      return void response.writeHead(isAllowed ? 200 : 403).end('a,b\n1,2\n');
    }
    const method = path.slice('/api/'.length);
    const args = Object.fromEntries(new URLSearchParams(body.toString()));
    calls.push({ method, args });
    const id = `F${calls.length}`;
    const upload = method === 'files.getUploadURLExternal' ? { file_id: id, upload_url: `${url()}/upload/${id}` } : {};
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ ok: true, ...upload }));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const url = () => {
    const address = server.address();
    return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`;
  };

  return {
    url: url(),
    api: `${url()}/api`,
    calls,
    uploaded,

    /** Sends a signed event to the app. */
    send(app: string, body: unknown, { signedWith = secret, time = Math.floor(Date.now() / 1000) } = {}) {
      const text = JSON.stringify(body);
      const signature = `v0=${createHmac('sha256', signedWith).update(`v0:${time}:${text}`).digest('hex')}`;
      const headers = { 'X-Slack-Request-Timestamp': String(time), 'X-Slack-Signature': signature };
      return fetch(app, { method: 'POST', body: text, headers });
    },

    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
};
