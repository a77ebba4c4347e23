import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

/**
 * The baseline of a file server in Node: `floor-server.ts <folder> <port>` writes the body of a PUT to a file of the folder and
 * sends it on GET. Like the gateway, it is a process of its own.
 */
const [, , folder = '', port = ''] = process.argv;

createServer(async (incoming, outgoing) => {
  const file = join(folder, 'file');
  if (incoming.method === 'PUT') {
    await pipeline(incoming, createWriteStream(file));
    outgoing.writeHead(201).end();
    return;
  }
  outgoing.writeHead(200, { 'content-length': (await stat(file)).size });
  await pipeline(createReadStream(file, { highWaterMark: 256 * 1024 }), outgoing);
}).listen(Number(port), '127.0.0.1');
