// A Node server: started as `node counter.mjs PORT`. Returns the number of bytes and of the connection of each request, and keeps connections.
import { createServer } from 'node:http';

const connections = new Map();
createServer(async (request, response) => {
  const { socket } = request;
  if (!connections.has(socket)) connections.set(socket, connections.size + 1);
  let bytes = 0;
  for await (const chunk of request) bytes += chunk.length;
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify({ bytes, connection: connections.get(socket), url: request.url }));
}).listen(Number(process.argv[2]), '::1');
