// A server inside a box: start it, wait until it listens, talk to it. The box has no network and needs none.
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create({ network: 'none' });

const source = `
import { createServer } from 'node:http';
createServer((request, response) => response.end('asked for ' + request.url)).listen(3000, () => console.log('ready'));
`;
await client.files.write(box.id, 'server.mjs', source);
const server = await client.commands.stream(box.id, { command: 'node server.mjs', timeoutSeconds: 3600 });
for await (const event of server) if (event.type === 'stdout' && event.text.includes('ready')) break;

const answer = await client.ports.fetch(box.id, 3000, '/some/page?x=1');
console.log(answer.status, await answer.text());
// → 200 asked for /some/page?x=1

await client.commands.delete(box.id, server.id);
console.log((await client.commands.wait(box.id, server.id)).status);
// → killed

await client.boxes.delete(box.id);
