// Many runs over one WebSocket, as a notebook or chat page uses it. A page opens it with a ticket from the server of its app.
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const server = createClient({ url, key });
const box = await server.boxes.create();

const page = createClient({ url, ticket: async (id) => (await server.tickets.create(id)).ticket });
const session = await page.session(box.id);

const run = await session.execute({ code: 'print("Hello", input("Who? "))' });
for await (const event of run) {
  if (event.type === 'input_request') await session.input(run.id, 'Ada');
  if (event.type === 'stdout') console.log(event.text.trim());
}
// → Hello Ada

const cells = await Promise.all(['1 + 1', '2 + 2', '3 + 3'].map((code) => session.execute({ code })));
for (const cell of cells)
  for await (const event of cell) if (event.type === 'result') console.log(event.mime['text/plain']);
// → 2
// → 4
// → 6

session.close();
await server.boxes.delete(box.id);
