import { giveUpIfWrong } from '../configuration-error.ts';
import { createAgent } from './agent.ts';
import { readConfig } from './config.ts';

const build = async () => {
  const config = readConfig(process.env);
  return { config, agent: await createAgent(config) };
};
const { config, agent } = await build().catch(giveUpIfWrong);

let isStopping = false;
const stop = async (signal: string) => {
  if (isStopping) return;
  isStopping = true;
  agent.log.info({ signal }, 'stopping; chats are available again after the next start');
  await agent[Symbol.asyncDispose]();
  process.exit(0);
};
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
// A process that a supervisor started ends with it, however the supervisor ends.
process.once('disconnect', () => stop('disconnect'));

const port = await agent.start().catch(async (error: unknown) => {
  await agent[Symbol.asyncDispose]();
  return giveUpIfWrong(error);
});
const hint = agent.hint();
const url = `http://localhost:${port}`;
agent.log.info({ url, gateway: config.gatewayUrl }, 'serving');
process.stdout.write(`
The agent serves at ${url}   (${config.pageDir === undefined ? 'no page' : 'chats and notebooks in the browser'}, docs at ${url}/docs)
${hint === null ? 'Ask it anything.' : `${hint}\nNotebooks, files and terminals work without one.`}

`);
