// A file tree that stays up to date: listed once, then updated from a watch.
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create();

const tree = new Set<string>();
for await (const event of client.files.watch(box.id)) {
  // `reset` means that changes are missing, so the files are listed again.
  if (event.type === 'ready' || event.type === 'reset') {
    tree.clear();
    for await (const { path } of client.files.list(box.id, '', { recursive: true })) tree.add(path);
  }
  if (event.type === 'ready')
    await client.commands.start(box.id, { command: 'touch first; mv first second; touch last' });
  if (event.type === 'rename') tree.delete(event.from);
  if (event.type === 'remove') tree.delete(event.path);
  else if ('path' in event) tree.add(event.path);
  if (tree.has('second') && tree.has('last')) break;
}
console.log([...tree].sort().join(' '));
// → last second

await client.boxes.delete(box.id);
