// Charts as data: prints a matplotlib chart as text.
import { chartMime, chartSchema, createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create();

const code = 'import matplotlib.pyplot as plt\n_ = plt.bar(["tea", "coffee"], [3, 5])';
const { outputs } = await client.executions.run(box.id, { code, timeoutSeconds: 120 });
for (const output of outputs ?? []) {
  if (output.type !== 'display') continue;
  // The data comes from code in a box, so it is validated.
  for (const { x, series } of chartSchema.parse(output.mime[chartMime]).axes) {
    for (const bars of series) {
      if (bars.type !== 'bar') continue;
      bars.value.forEach((value, index) => {
        console.log(`${x.ticks?.[index]?.label}: ${'#'.repeat(value ?? 0)}`);
      });
    }
  }
}
// → tea: ###
// → coffee: #####

await client.boxes.delete(box.id);
