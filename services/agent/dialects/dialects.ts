import type { Logger } from 'pino';
import type { Cells } from '../chats/console/cells.ts';
import type { Uploads } from '../chats/files/uploads.ts';
import type { Endpoints } from '../http/endpoints.ts';
import type { Catalog } from '../models/catalog.ts';
import { addGenerateRoute } from './generate.ts';
import { addGptCodeUiRoutes } from './gpt-code-ui/routes.ts';
import { addChatCompletionRoute } from './openai/chat-completions.ts';
import { addContainerRoutes } from './openai/containers.ts';
import { addStoredFileRoutes } from './openai/files.ts';
import { openAiSurface } from './openai/openai-error.ts';
import { addResponseRoutes } from './openai/responses.ts';
import { addPlotRoute } from './plot.ts';
import { createTurns, type TurnsOptions } from './turns.ts';

export interface DialectParts extends Omit<TurnsOptions, 'listModels' | 'onError'> {
  uploads: Uploads;
  cells: Cells;
  catalog: Pick<Catalog, 'list'>;
  log: Logger;
  stopping: AbortSignal;
}

const listMs = 10_000;

/** Serves the same chats through other APIs. */
export const addDialects = (endpoints: Endpoints, parts: DialectParts): void => {
  const { chats, files, uploads, cells, catalog, log, stopping } = parts;
  const onError = (err: unknown) => log.error({ err }, 'a dialect could not end what it began');
  const listModels = () => catalog.list(AbortSignal.timeout(listMs));
  const turns = createTurns({ ...parts, listModels, onError });
  const openAi = endpoints.mount(openAiSurface);
  addChatCompletionRoute(openAi, turns, stopping);
  addResponseRoutes(openAi, { turns, uploads, stopping });
  addContainerRoutes(openAi, { chats, files, uploads });
  addStoredFileRoutes(openAi, uploads);
  addGenerateRoute(endpoints, turns, files);
  addPlotRoute(endpoints, turns, files);
  addGptCodeUiRoutes(endpoints, { turns, files, cells, listModels, onError });
};
