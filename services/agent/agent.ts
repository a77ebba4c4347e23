import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import { createClient } from '#contract';
import { openBlobs } from '../blobs/open-blobs.ts';
import { type HttpServer, listen } from '../http/server.ts';
import { startEmbeddedPostgres } from '../postgres/embedded.ts';
import { newId } from '../postgres/id.ts';
import { createBackground } from '../waiting/background.ts';
import { readApiKey } from './api-key.ts';
import { createChatBoxes } from './box/chat-boxes.ts';
import { createCells } from './chats/cells.ts';
import { createChats } from './chats/chats.ts';
import { createFiles } from './chats/files.ts';
import { createKept } from './chats/kept.ts';
import { createLinks } from './chats/links.ts';
import { createSeal } from './chats/seal.ts';
import { createTerminals } from './chats/terminals.ts';
import type { Config } from './config.ts';
import { createApp } from './http/app.ts';
import { createMetrics } from './http/metrics.ts';
import { createOwners } from './http/owner.ts';
import { servePage } from './http/page.ts';
import { openStore } from './store/store.ts';

/** Parts that a caller brings instead of those that the configuration names. */
export interface Overrides {
  log?: Logger;
}

/** What a stopping agent has to answer those that it cannot wait for. */
const leaveMs = 1000;
const sweepMs = 5000;

/**
 * Builds the whole agent from its configuration; nothing listens until `start`. Waits for the API key where that is still to be written.
 * Disposing it stops in order: no new requests, running ones get time, streams end with a reason, then the database is closed.
 */
export const createAgent = async (config: Config, overrides: Overrides = {}) => {
  const log = overrides.log ?? pino({ level: config.logLevel, base: { service: 'agent' } });
  await using stack = new AsyncDisposableStack();
  const apiKey = await readApiKey(config);
  const clientFor = (key = apiKey) => createClient({ url: config.gatewayUrl, key, retries: 2 });

  const onRestart = (event: string, err: unknown) =>
    log.warn({ err, event }, 'the embedded PostgreSQL ended by itself');
  const embedded =
    config.databaseUrl === undefined
      ? await startEmbeddedPostgres(join(config.dataDir, 'postgres'), onRestart)
      : undefined;
  if (embedded) stack.defer(embedded.stop);
  const onBroken = (err: Error) => log.warn({ err }, 'a database connection broke');
  const store = await openStore(config.databaseUrl ?? embedded?.url ?? '', onBroken);
  stack.defer(store.close);
  const seal = createSeal(await store.secrets.get('links', randomBytes(32).toString('hex')));
  const deployment = await store.secrets.get('deployment', newId('agent'));
  const blobs = await openBlobs(config.blobs, deployment);

  const background = createBackground((what, err) => log.error({ err }, `could not ${what}`));
  const stopping = new AbortController();
  const leaving = new AbortController();
  stack.defer(() => background.drain(config.stopMs));

  const metrics = createMetrics();
  const links = createLinks(seal, config.linkSeconds);
  const kept = createKept(blobs, store.blobs);
  const boxes = createChatBoxes(store.chats);
  const sweep = background.oneAtATime('sweep', async () => {
    while (!(await kept.sweep(background.signal)));
  });
  const chats = createChats({ store: store.chats, boxes, stop: async () => {}, onRemove: sweep });
  const owners = createOwners({ clientFor, isOpen: config.isOpen, hosts: config.hosts });

  const { app, endpoints } = createApp({
    log,
    owners,
    metrics,
    chats,
    files: createFiles({ chats, store: store.chats, boxes, kept, links, clientFor }),
    cells: createCells(chats, boxes),
    terminals: createTerminals({ chats, boxes, seal, gatewayUrl: config.gatewayUrl }),
    checkReady: async () => {
      await store.secrets.ping();
      await clientFor().caller({ deadlineSeconds: 5 });
    },
    info: async () => {
      const { value: template } = await clientFor().templates.list().next();
      const languages = template?.languages ?? [];
      return { name: 'codebox-agent', isOpen: config.isOpen, hasModel: false, hint: null, languages };
    },
    stopping: stopping.signal,
    leaving: leaving.signal,
  });
  if (config.pageDir !== undefined) await servePage(app, config.pageDir, owners.greet);

  const owned = stack.move();
  let server: HttpServer | undefined;
  return {
    app,
    endpoints,
    log,
    /** Listens. Answers the port. */
    async start(): Promise<number> {
      const timer = setInterval(sweep, sweepMs);
      owned.defer(async () => clearInterval(timer));
      server = await listen(app, config.host, config.port);
      return server.port;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      stopping.abort();
      const leave = setTimeout(() => leaving.abort(), config.stopMs - Math.min(leaveMs, config.stopMs / 2));
      await server?.close(config.stopMs);
      clearTimeout(leave);
      await owned.disposeAsync();
    },
  };
};

export type Agent = Awaited<ReturnType<typeof createAgent>>;
