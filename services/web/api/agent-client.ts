import { agentInfoSchema, createTransport, modelListSchema } from '#contract';
import { createAnswers } from './answers.ts';
import { createCells } from './cells.ts';
import { createChats } from './chats.ts';
import { createFiles } from './files.ts';
import { createTerminals } from './terminals.ts';

/**
 * The agent that serves this page. Without a key, the agent identifies its visitor by a cookie that scripts cannot
 * read.
 */
export const createAgentClient = (key: string | null, doFetch: typeof fetch) => {
  const transport = createTransport({ url: '', retries: 2, fetch: doFetch, ...(key !== null && { key }) });
  return {
    info: () => transport.json(agentInfoSchema, { path: '/v1/info' }),
    models: () => transport.json(modelListSchema, { path: '/v1/models' }),
    chats: createChats(transport),
    answers: createAnswers(transport),
    cells: createCells(transport),
    files: createFiles(transport, key),
    terminals: createTerminals(transport),
  };
};

export type AgentClient = ReturnType<typeof createAgentClient>;
