// The steps of a chat app: a box per user, streamed output, figures, files. Run it with the project's Node:
//   CODEBOX_KEY=$(cat .codebox/dev-key) node_modules/node/bin/node examples/node/assistant.ts
import { createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key, retries: 3 });

const box = await client.boxes.create({ user: 'linus', reuse: true });
await client.files.write(box.id, 'sales.csv', 'month,sold\nJan,3\nFeb,5\nMar,8\n');

const code = `
import pandas as pd, matplotlib.pyplot as plt
table = pd.read_csv("sales.csv")
print("rows:", len(table))
table.plot.bar(x="month", y="sold")
plt.savefig("sales.png")
table.sold.sum()
`;
for await (const event of await client.executions.stream(box.id, { code, timeoutSeconds: 120 })) {
  if (event.type === 'stdout') console.log('printed', event.text.trim());
  if (event.type === 'display') console.log('shown as', Object.keys(event.mime).join(', '));
  if (event.type === 'result') console.log('result', event.mime['text/plain']);
  if (event.type === 'done') console.log('ended', event.status, 'and made', event.files?.created.join(', '));
}
// → printed rows: 3
// → result
// → shown as
// → ended ok and made sales.png

const png = await client.files.read(box.id, 'sales.png');
console.log('downloaded', new TextDecoder().decode(png.slice(1, 4)), 'of', png.length > 1000 ? 'some' : 'few', 'kB');
// → downloaded PNG of some kB

await client.boxes.delete(box.id);
