// Errors, deadlines and leaving: what an app has to handle.
import { CodeBoxError, createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create();

// Code that fails is an answer with a status.
const failed = await client.executions.run(box.id, { code: '1 / 0' });
console.log(failed.status, failed.error?.name);
// → error ZeroDivisionError

// A refusal is a CodeBoxError, with a pointer to each fault of the input.
try {
  await client.executions.run(box.id, { code: 'x', timeoutSeconds: -1 });
} catch (error) {
  if (!(error instanceof CodeBoxError)) throw error;
  console.log(error.code, error.status, error.errors[0]?.pointer);
}
// → invalid_request 400 /timeoutSeconds

// Leaving ends the call, not the run: it can be waited for later, here or in another process.
const started = await client.executions.start(box.id, { code: 'import time; time.sleep(1); "late"' });
await client.executions
  .wait(box.id, started.id, { signal: AbortSignal.timeout(100) })
  .catch((error: Error) => console.log('left:', error.name));
// → left: TimeoutError
console.log((await client.executions.wait(box.id, started.id)).text);
// → 'late'

await client.boxes.delete(box.id);
