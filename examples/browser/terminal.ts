// A terminal in a web page. This is the server of the app: it keeps the key, and creates tickets for its page.
//   CODEBOX_KEY=$(cat .codebox/dev-key) node_modules/node/bin/node examples/browser/terminal.ts
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '', PORT: port = '8090' } = process.env;
const client = createClient({ url, key });
const modules = join(import.meta.dirname, '../../node_modules/@xterm');
const types: Record<string, string> = { '.html': 'text/html', '.css': 'text/css', '.mjs': 'text/javascript' };
const files: Record<string, string> = {
  '/': join(import.meta.dirname, 'terminal.html'),
  '/xterm/css/xterm.css': join(modules, 'xterm/css/xterm.css'),
  '/xterm/lib/xterm.mjs': join(modules, 'xterm/lib/xterm.mjs'),
  '/addon-fit/lib/addon-fit.mjs': join(modules, 'addon-fit/lib/addon-fit.mjs'),
};

/** Returns a URL to the terminal of the user's box, which is valid once, within a minute. */
const connect = async (): Promise<{ url: string }> => {
  const box = await client.boxes.create({ user: 'terminal', reuse: true });
  const { ticket } = await client.tickets.create(box.id);
  return { url: `${url.replace('http', 'ws')}/v1/boxes/${box.id}/terminal?ticket=${ticket}` };
};

const server = createServer(async (request, response) => {
  try {
    const file = files[request.url ?? ''];
    if (file) response.setHeader('Content-Type', types[extname(file)] ?? '').end(await readFile(file));
    else if (request.url === '/connect' && request.method === 'POST') response.end(JSON.stringify(await connect()));
    else response.writeHead(404).end();
  } catch (error) {
    response.writeHead(502).end(String(error));
  }
});
server.listen(Number(port), '127.0.0.1', () => {
  const address = server.address();
  console.log(`http://127.0.0.1:${typeof address === 'object' ? address?.port : port}`);
});
