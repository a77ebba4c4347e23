// A terminal: a shell over a WebSocket, disconnected and resumed, as when a page is reloaded.
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create();

const first = await client.terminals.open(box.id, { cols: 100, rows: 30 });
first.write('name=Ada; stty size\r');
let screen = '';
for await (const event of first) {
  if (event.type === 'output') screen += new TextDecoder().decode(event.bytes);
  if (/^30 100/m.test(screen)) break;
}
console.log('the size is 30 x 100');
// → the size is 30 x 100

// Leaving the loop closed the connection. The shell continues, and the next connection replays its screen.
const second = await client.terminals.open(box.id, { terminal: first.id });
console.log('the screen is replayed:', second.replayedBytes > 0);
// → the screen is replayed: true
second.write('echo "Hello $name"; exit 3\r');
screen = '';
for await (const event of second) {
  if (event.type === 'output') screen += new TextDecoder().decode(event.bytes);
  if (event.type === 'exit') console.log(/^Hello Ada/m.test(screen), 'and it ended with', event.exitCode);
}
// → true and it ended with 3

await client.boxes.delete(box.id);
