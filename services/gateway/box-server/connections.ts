import { createAbilities } from './abilities.ts';
import { type BoxServerClient, createBoxServerClient } from './client.ts';
import { createJupyterClient, type JupyterClient } from './jupyter.ts';
import type { BoxServerFailure } from './protocol/response.ts';
import { createTokens, type Endpoint } from './transport/endpoint.ts';
import { createTunnels, type Tunnels } from './transport/tunnel.ts';

export interface BoxConnection extends BoxServerClient {
  jupyter: JupyterClient;
  tunnels: Tunnels;
  /** Returns the languages that the box runs. They are read once, so this rarely takes a request. */
  languages: () => Promise<readonly string[]>;
  /** Whether its code cannot create sockets and named pipes in its volumes. */
  isConfined: () => Promise<boolean>;
}

/** At least the most boxes that a deployment may have, so that no connection in use is closed. */
const maxConnections = 10_000;

export interface BoxConnectionsOptions {
  /** The secret of the deployment, from which the tokens of its instances are derived. */
  secret: string;
  /** Called for each failed call. */
  onFailure?: (failure: BoxServerFailure) => void;
}

/** The clients of the boxes in use, by instance. When there are too many, the least recently used one is closed. */
export const createBoxConnections = ({ secret, onFailure }: BoxConnectionsOptions) => {
  const open = new Map<string, BoxConnection>();
  const tokenOf = createTokens(secret);
  const endpointOf = (instance: string, address: string): Endpoint => ({ instance, address, token: tokenOf(instance) });

  const drop = (instance: string) => {
    const connection = open.get(instance);
    open.delete(instance);
    // Pending requests fail with `unavailable`: the box is gone or was not used for long.
    void connection?.close();
  };

  return {
    /** Returns the token with which an instance is started, and which it requires in every request. */
    tokenOf,
    endpointOf,

    to(instance: string, address: string): BoxConnection {
      const known = open.get(instance);
      if (known) {
        open.delete(instance);
        open.set(instance, known);
        return known;
      }
      const endpoint = endpointOf(instance, address);
      const client = createBoxServerClient(endpoint, onFailure);
      const { health, languages, isConfined, sharesRuns, need, has, only } = createAbilities(client.health);
      const tunnels = createTunnels(endpoint, () => need('ports'));
      const close = async () => {
        tunnels.close();
        await client.close();
      };
      const offered: Partial<BoxServerClient> = {
        health,
        execute: async (id, { outputBytes, unattended, ...body }, leave) => {
          if (body.message) await need('jupyter');
          if (body.cwd !== undefined) await need('folder');
          const keepsMore = outputBytes !== undefined && (await has('output'));
          const refusesInput = unattended === true && (await has('unattended'));
          // A box that does not report its abilities in time gets a request.
          const mayShare = await sharesRuns().catch(() => false);
          const more = { ...(keepsMore && { outputBytes }), ...(refusesInput && { unattended }) };
          return await client.execute(id, { ...body, ...more }, leave, mayShare);
        },
        connect: only('network', client.connect),
        createContext: async (body) => {
          if (body.python !== undefined) await need('python');
          return await client.createContext(body);
        },
        contents: only('contents', client.contents),
        sessionExecutions: only('jupyter', client.sessionExecutions),
        install: only('packages', client.install),
        packages: only('packages', client.packages),
        runNotebook: only('notebooks', client.runNotebook),
        notebook: only('notebooks', client.notebook),
        checkpoint: only('checkpoint', client.checkpoint),
        restore: only('checkpoint', client.restore),
        seal: only('seal', client.seal),
        search: only('search', client.search),
        watch: only('watch', client.watch),
        changes: only('changes', client.changes),
        stop: only('stop', client.stop),
        saveVariables: only('variables', client.saveVariables),
        adoptVariables: only('variables', client.adoptVariables),
        dropVariables: only('variables', client.dropVariables),
        terminals: only('terminals', client.terminals),
        startTerminal: only('terminals', client.startTerminal),
        attachTerminal: only('terminals', client.attachTerminal),
        changeTerminal: only('keys', client.changeTerminal),
      };
      const connection = {
        ...client,
        ...offered,
        jupyter: createJupyterClient(client.agent, endpoint),
        tunnels,
        languages,
        isConfined,
        close,
      };
      open.set(instance, connection);
      const oldest = open.size > maxConnections ? open.keys().next().value : undefined;
      if (oldest !== undefined) drop(oldest);
      return connection;
    },
    drop,
    close: async () => {
      await Promise.all([...open.values()].map((connection) => connection.close()));
      open.clear();
    },
  };
};

export type BoxConnections = ReturnType<typeof createBoxConnections>;
