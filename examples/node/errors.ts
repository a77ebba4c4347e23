// Errors, deadlines and aborted waits, which an app has to handle.
import { CodeBoxError, createClient } from '#contract';

const { CODEBOX_URL: url = 'http://localhost:8080', CODEBOX_KEY: key = '' } = process.env;
const client = createClient({ url, key });
const box = await client.boxes.create();

// Failing code is a result with a status.
const failed = await client.executions.run(box.id, { code: '1 / 0' });
console.log(failed.status, failed.error?.name);
// → error ZeroDivisionError

// A refused request throws a CodeBoxError, with a pointer to each invalid field.
try {
  await client.executions.run(box.id, { code: 'x', timeoutSeconds: -1 });
} catch (error) {
  if (!(error instanceof CodeBoxError)) throw error;
  console.log(error.code, error.status, error.errors[0]?.pointer);
}
// → invalid_request 400 /timeoutSeconds

// Aborting a call does not end the run, which can be awaited later, also in another process.
const started = await client.executions.start(box.id, { code: 'import time; time.sleep(1); "late"' });
await client.executions
  .wait(box.id, started.id, { signal: AbortSignal.timeout(100) })
  .catch((error: Error) => console.log('aborted:', error.name));
// → aborted: TimeoutError
console.log((await client.executions.wait(box.id, started.id)).text);
// → 'late'

await client.boxes.delete(box.id);
