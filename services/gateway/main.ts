import { giveUpIfWrong } from '../configuration-error.ts';
import { onceThere } from '../postgres/away.ts';
import { readConfig } from './config.ts';
import { ensureFirstKey } from './first-key.ts';
import { createGateway } from './gateway.ts';

const build = async () => {
  const config = readConfig(process.env);
  return { config, gateway: await createGateway(config) };
};
const { config, gateway } = await build().catch(giveUpIfWrong);

let isStopping = false;
const stop = async (signal: string) => {
  if (isStopping) return;
  isStopping = true;
  gateway.log.info({ signal }, 'stopping; boxes keep running and are available after the next start');
  await gateway[Symbol.asyncDispose]();
  process.exit(0);
};
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
// A gateway that was started by a supervisor stops with it.
process.once('disconnect', () => stop('disconnect'));

void gateway.displaced.then(async (error) => {
  await gateway[Symbol.asyncDispose]();
  giveUpIfWrong(error);
});

const keyFile = await onceThere(() => ensureFirstKey(gateway.store.keys, config));
const port = await gateway.start().catch(async (error: unknown) => {
  await gateway[Symbol.asyncDispose]();
  return giveUpIfWrong(error);
});
const url = `http://localhost:${port}`;
gateway.log.info({ url, driver: gateway.driver.kind, dataDir: config.dataDir }, 'serving');
if (keyFile) {
  // The command works as pasted, and the key itself does not appear in logs that collect this output.
  process.stdout.write(`
CodeBox serves at ${url}   (${gateway.driver.kind} driver, docs at ${url}/docs)
The key of the first tenant is in ${keyFile}

Try it:
  curl -s ${url}/v1/run -H "Authorization: Bearer $(cat '${keyFile}')" -d '{"language":"python","code":"1+1"}'

`);
}
// A supervisor starts the agent now.
process.send?.('serving');
