import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import { createClient } from '#contract';
import { openBlobs } from '../blobs/open-blobs.ts';
import { type HttpServer, listen } from '../http/server/server.ts';
import { onceThere } from '../postgres/away.ts';
import { startEmbeddedPostgres } from '../postgres/embedded.ts';
import { errorSerializers } from '../postgres/error-log.ts';
import { newId } from '../postgres/id.ts';
import { createVault } from '../vault/vault.ts';
import { createBackground } from '../waiting/background.ts';
import { readApiKey } from './api-key.ts';
import { createChatBoxes } from './box/chat-boxes.ts';
import { createDefaultTemplate } from './box/default-template.ts';
import { createFacts } from './box/facts.ts';
import { createLanguages } from './box/languages.ts';
import { createAnswers } from './chats/answers/answers.ts';
import { createFollowing } from './chats/answers/following.ts';
import { createGeneration } from './chats/answers/generation.ts';
import { createCallers } from './chats/callers.ts';
import { createChats } from './chats/chats.ts';
import { createCells } from './chats/console/cells.ts';
import { createTerminals } from './chats/console/terminals.ts';
import { createFiles } from './chats/files/files.ts';
import { createForget } from './chats/files/forget.ts';
import { createKept } from './chats/files/kept.ts';
import { createLinks } from './chats/files/links.ts';
import { createUploads } from './chats/files/uploads.ts';
import { createPresenter } from './chats/messages/presenter.ts';
import type { Config } from './config.ts';
import { gatewayFetch } from './gateway-fetch.ts';
import { createApp } from './http/app.ts';
import { createMetrics } from './http/metrics.ts';
import { createOwners } from './http/owner.ts';
import { servePage } from './http/page.ts';
import type { Limits } from './loop/conversation.ts';
import { createCatalog } from './models/catalog.ts';
import { openStore } from './store/store.ts';

/** Parts that a caller provides instead of those that the configuration describes. */
export interface Overrides {
  log?: Logger;
}

/** Time for a stopping agent to finish the responses that it cannot wait for. */
const leaveMs = 1000;
const sweepMs = 5000;
const chatsPerSweep = 100;
const renewMs = 2000;
const leaseSeconds = 15;
/** How many files an owner can store outside chats. */
const mostUploads = 10_000;

/** Limits of one answer. */
const limits: Limits = { rounds: 12, sameMistake: 3, outputCharacters: 8000, historyTokens: 60_000 };

/**
 * Builds the whole agent from its configuration; nothing listens until `start`. Waits for the API key when the gateway
 * has yet to write it. Disposal runs in order: no new requests, a grace period for running ones, streams end with a
 * reason, then the database is closed.
 */
export const createAgent = async (config: Config, overrides: Overrides = {}) => {
  const log =
    overrides.log ?? pino({ level: config.logLevel, base: { service: 'agent' }, serializers: errorSerializers });
  await using stack = new AsyncDisposableStack();
  const apiKey = await readApiKey(config);
  const clientFor = (key = apiKey) => createClient({ url: config.gatewayUrl, key, retries: 2, fetch: gatewayFetch });

  const callers = createCallers(clientFor);

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
  const secret = (name: string, fresh: string) => onceThere(() => store.secrets.get(name, fresh));
  const seal = createVault(await secret('links', randomBytes(32).toString('hex')));
  const deployment = await secret('deployment', newId('agent'));
  const blobs = await openBlobs(config.blobs, deployment);

  const background = createBackground((what, err) => log.error({ err }, `could not ${what}`));
  const stopping = new AbortController();
  const leaving = new AbortController();
  stack.defer(() => background.drain(config.stopMs));

  const metrics = createMetrics();
  const links = createLinks(seal, config.linkSeconds);
  const kept = createKept(blobs, store.blobs, config.kept);
  const uploads = createUploads(blobs, store.uploads, { files: mostUploads, bytes: config.kept.ownerBytes });
  const boxes = createChatBoxes({
    chats: store.chats,
    defaultTemplate: createDefaultTemplate(clientFor()),
    network: config.chatNetwork,
  });
  const forget = createForget(store.messages, background);
  let awayAt = Number.NEGATIVE_INFINITY;
  const endLost = async () => {
    try {
      // While the database was away, no agent could renew its leases, so neither our answers nor those of other living
      // agents are lost.
      await generation.renew();
      if (performance.now() - awayAt < leaseSeconds * 1000) return;
      const lost = await store.messages.endLost();
      if (lost > 0) log.warn({ count: lost }, 'answers were lost with the agents that were generating them');
    } catch (error) {
      awayAt = performance.now();
      throw error;
    }
  };
  const sweep = background.oneAtATime('sweep', async () => {
    await endLost();
    while ((await store.chats.removeDue(chatsPerSweep)) === chatsPerSweep);
    while (!(await kept.sweep(background.signal)));
    while (!(await uploads.sweep(background.signal)));
  });
  // A new id at each start: answers of a previous process count as lost.
  const agent = newId('agt');
  const generation = createGeneration({
    agent,
    leaseSeconds,
    limits,
    store: store.messages,
    boxes,
    facts: createFacts(),
    kept,
    forget,
    background,
    log,
    onBegin: () => metrics.running.inc(),
    onEnd: ({ status, rounds }) => {
      metrics.running.dec();
      metrics.answers.inc({ status });
      metrics.rounds.inc(rounds);
    },
  });
  stack.defer(generation.stopAll);
  const chats = createChats({
    store: store.chats,
    boxes,
    stop: async ({ running }) => {
      if (running === null) return;
      if (!generation.stop(running)) return await store.messages.askToStop(running);
      await generation.ended(running);
    },
    onRemove: sweep,
  });
  const presenter = createPresenter(links);
  const catalog = createCatalog(config.models);
  const languages = createLanguages(clientFor());
  const owners = createOwners({ clientFor, callers, isOpen: config.isOpen, hosts: config.hosts });

  const { app, endpoints } = createApp({
    log,
    owners,
    metrics,
    metricsPort: config.metricsPort,
    chats,
    catalog,
    linkSeconds: config.linkSeconds,
    answers: createAnswers({
      agent,
      leaseSeconds,
      chats,
      store: store.messages,
      catalog,
      generation,
      presenter,
      following: createFollowing({ store: store.messages, liveLog: generation.log, presenter }),
    }),
    files: createFiles({ chats, store: store.chats, boxes, kept, forget, links, clientFor, callers }),
    uploads,
    cells: createCells({ chats, boxes, forget, background, stopping: stopping.signal }),
    terminals: createTerminals({ chats, boxes, seal, gatewayUrl: config.gatewayUrl }),
    checkReady: async () => {
      await store.secrets.ping();
      await clientFor().caller({ deadlineSeconds: 5 });
    },
    info: async () => ({
      name: 'codebox-agent',
      isOpen: config.isOpen,
      hasModel: catalog.hint() === null,
      hint: catalog.hint(),
      languages: await languages(),
    }),
    stopping: stopping.signal,
    leaving: leaving.signal,
  });
  if (config.pageDir !== undefined) await servePage(app, config.pageDir, owners.greet);

  const owned = stack.move();
  const servers: HttpServer[] = [];
  return {
    app,
    endpoints,
    log,
    /** The settings to make when no model is configured; null otherwise. Notebooks, files and terminals need no model. */
    hint: catalog.hint,
    /** Starts to listen and resolves with the port. */
    async start(): Promise<number> {
      sweep();
      const renew = background.oneAtATime('renew the leases of answers', generation.renew);
      const timers = [setInterval(sweep, sweepMs), setInterval(renew, renewMs)];
      owned.defer(async () => timers.forEach(clearInterval));
      if (config.metricsPort !== undefined) servers.push(await listen(app, config.host, config.metricsPort));
      const server = await listen(app, config.host, config.port);
      servers.push(server);
      return server.port;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      stopping.abort();
      const stopAnswers = setTimeout(generation.stopAll, config.stopMs / 2);
      const leave = setTimeout(() => leaving.abort(), config.stopMs - Math.min(leaveMs, config.stopMs / 2));
      await Promise.all(servers.map((server) => server.close(config.stopMs)));
      clearTimeout(leave);
      clearTimeout(stopAnswers);
      await owned.disposeAsync();
    },
  };
};
