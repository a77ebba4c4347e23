import { readConfig } from './config.ts';
import { ensureDevKey } from './dev-key.ts';
import { createGateway } from './gateway.ts';

const config = readConfig(process.env);
const gateway = await createGateway(config);

let isStopping = false;
const stop = async (signal: string) => {
  if (isStopping) return;
  isStopping = true;
  gateway.log.info({ signal }, 'stopping; boxes stay and are there again at the next start');
  await gateway[Symbol.asyncDispose]();
  process.exit(0);
};
process.on('SIGTERM', stop);
process.on('SIGINT', stop);

const keyFile = await ensureDevKey(gateway.store.keys, config.dataDir);
const port = await gateway.start().catch(async (error: unknown) => {
  await gateway[Symbol.asyncDispose]();
  throw error;
});
const url = `http://localhost:${port}`;
gateway.log.info({ url, driver: gateway.driver.name, dataDir: config.dataDir }, 'serving');
if (keyFile) {
  // The line works as pasted and still keeps the key out of whatever collects this output.
  process.stdout.write(`
CodeBox serves at ${url}   (${gateway.driver.name} driver, docs at ${url}/docs)
The key of the first tenant is in ${keyFile}

Try it:
  curl -s ${url}/v1/run -H "Authorization: Bearer $(cat '${keyFile}')" -d '{"language":"python","code":"1+1"}'

`);
}
