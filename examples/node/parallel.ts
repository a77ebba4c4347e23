// Concurrent contexts: three kernels in one box, each with its own variables, sharing the files.
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create();

const contexts = await Promise.all([1, 2, 3].map(() => client.contexts.create(box.id, { language: 'python' })));
const runs = contexts.map(({ id }, index) =>
  client.executions.run(box.id, { context: id, code: `n = ${index}; open(f"part{n}", "w").write(str(n)); n * n` }),
);
console.log((await Promise.all(runs)).map(({ text }) => text).join(' '));
// → 0 1 4
for await (const { path, sizeBytes } of client.files.list(box.id)) console.log(path, sizeBytes);
// → part0 1
// → part1 1
// → part2 1

await client.boxes.delete(box.id);
