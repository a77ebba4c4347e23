import {
  type Cause,
  CodeBoxError,
  type Environment,
  type Terminal,
  type TerminalQuery,
  terminalIdSchema,
} from '#contract';
import { newId } from '../../../postgres/id.ts';
import { closeCodes, type Peer } from '../../../websockets/peer.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { BoxTerminal } from '../../box-server/protocol/schemas.ts';
import type { ScreenSize } from '../../box-server/transport/terminal-socket.ts';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { Activity } from '../life/activity.ts';
import type { Endings } from '../life/endings.ts';
import { shownFolder } from '../life/working-folder.ts';
import type { TenantQuotas } from '../usage/quotas.ts';

export interface TerminalsOptions {
  access: Pick<Access, 'use'>;
  endings: Pick<Endings, 'causeOfLoss'>;
  activity: Activity;
  quotas: Pick<TenantQuotas, 'cpuLeftMs'>;
}

/** The terminal that a caller attaches to; a new one can have variables of its own. */
export type TerminalRequest = Omit<TerminalQuery, 'ticket'> & { env?: Environment | undefined };

/** One client's connection to a terminal. The box is in use while it is open. */
export interface AttachedTerminal {
  id: string;
  /** The process id of a shell that was started for this client. */
  pid: number | undefined;
  peer: Peer;
  /** Leaves the terminal, and ends one that was started for this client, because its client never got the id. */
  abandon: () => Promise<void>;
  /** Resolves with why the box is gone; undefined while it is not. */
  causeOfLoss: () => Promise<Cause | undefined>;
}

const defaultSize = { cols: 80, rows: 24 };

/** Terminals: shells that a box runs on pseudo terminals, with or without a client. They end with their shell or with the box. */
export const createTerminals = ({ access, endings, activity, quotas }: TerminalsOptions) => {
  const useOne = async (ref: BoxRef, id: string): Promise<BoxConnection> => {
    const { server } = await access.use(ref);
    if (!terminalIdSchema.safeParse(id).success) throw new CodeBoxError('not_found', 'There is no such terminal.');
    return server;
  };

  const start = async (server: BoxConnection, size: ScreenSize, { cwd, env }: TerminalRequest) => {
    const id = newId('term');
    const { pid } = await server.startTerminal(id, { ...size, ...(cwd !== undefined && { cwd }), ...(env && { env }) });
    try {
      return { id, pid, peer: await server.attachTerminal(id) };
    } catch (error) {
      // No client knows its id.
      await server.endTerminal(id).catch(() => {});
      throw error;
    }
  };

  return {
    async list(ref: BoxRef): Promise<Terminal[]> {
      const { server } = await access.use(ref);
      return (await server.terminals()).map((terminal) => toTerminal(ref.box, terminal));
    },

    /** Ends a terminal with its shell and everything started there, and waits for that. */
    async end(ref: BoxRef, id: string): Promise<void> {
      await (await useOne(ref, id)).endTerminal(id);
    },

    /** Types into a terminal. Throws `not_found`, or `too_many_requests` when nothing reads its input. */
    async write(ref: BoxRef, id: string, keys: Uint8Array): Promise<void> {
      await (await useOne(ref, id)).changeTerminal(id, { base64: Buffer.from(keys).toString('base64') });
    },

    async resize(ref: BoxRef, id: string, size: ScreenSize): Promise<void> {
      await (await useOne(ref, id)).changeTerminal(id, size);
    },

    /** Starts a terminal, or attaches to a running one. Throws `not_found`, `too_many_requests` for a box with too many, or `quota_exceeded`. */
    async attach(ref: BoxRef, ask: TerminalRequest): Promise<AttachedTerminal> {
      const { terminal, cols, rows } = ask;
      const size = cols === undefined || rows === undefined ? undefined : { cols, rows };
      const isNew = terminal === undefined;
      const server = isNew ? (await access.use(ref)).server : await useOne(ref, terminal);
      // Without CPU time left, running shells go on but no new one starts.
      if (isNew) await quotas.cpuLeftMs(ref.tenant);
      const { id, pid, peer } = isNew
        ? await start(server, size ?? defaultSize, ask)
        : { id: terminal, pid: undefined, peer: await server.attachTerminal(terminal, size) };
      const release = activity.hold(ref.box);
      peer.closed.addEventListener('abort', release, { once: true });
      return {
        id,
        pid,
        peer,
        abandon: async () => {
          peer.close(closeCodes.normal, '');
          if (isNew) await server.endTerminal(id);
        },
        causeOfLoss: () => endings.causeOfLoss(ref),
      };
    },
  };
};

export type Terminals = ReturnType<typeof createTerminals>;

const toTerminal = (box: string, { id, cwd, pid, cols, rows, clients, createdAt }: BoxTerminal): Terminal => ({
  id,
  box,
  cwd: shownFolder(cwd),
  pid,
  cols,
  rows,
  clients,
  createdAt,
});
