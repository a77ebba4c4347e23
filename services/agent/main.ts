import { createAgent } from './agent.ts';
import { readConfig } from './config.ts';

const config = readConfig(process.env);
const agent = await createAgent(config);

let isStopping = false;
const stop = async (signal: string) => {
  if (isStopping) return;
  isStopping = true;
  agent.log.info({ signal }, 'stopping; chats are there again at the next start');
  await agent[Symbol.asyncDispose]();
  process.exit(0);
};
process.on('SIGTERM', stop);
process.on('SIGINT', stop);

const port = await agent.start().catch(async (error: unknown) => {
  await agent[Symbol.asyncDispose]();
  throw error;
});
agent.log.info({ url: `http://localhost:${port}`, gateway: config.gatewayUrl }, 'serving');
