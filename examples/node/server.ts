// A server inside a box without a network: start it, wait until it listens, send it a request.
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create({ network: 'none' });

const source = `
import { createServer } from 'node:http';
createServer((request, response) => response.end('requested ' + request.url)).listen(3000, () => console.log('ready'));
`;
await client.files.write(box.id, 'server.mjs', source);
const server = await client.commands.stream(box.id, { command: 'node server.mjs', timeoutSeconds: 3600 });
for await (const event of server) if (event.type === 'stdout' && event.text.includes('ready')) break;

const response = await client.ports.fetch(box.id, 3000, '/some/page?x=1');
console.log(response.status, await response.text());
// → 200 requested /some/page?x=1

await client.commands.delete(box.id, server.id);
console.log((await client.commands.wait(box.id, server.id)).status);
// → killed

await client.boxes.delete(box.id);
