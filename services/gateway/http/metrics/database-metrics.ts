import { Gauge, type Registry } from 'prom-client';
import { withinScrape } from './scrape.ts';

/** What can be asked of the database. */
export interface DatabaseState {
  /** Rejects while it does not answer. */
  ping: () => Promise<void>;
  /** Connections of this gateway, and statements that wait for one. */
  connections: () => { used: number; idle: number; waiting: number };
}

/** Series of the database as this gateway sees it. A scrape asks it for a sign of life. */
export const addDatabaseMetrics = (registry: Registry, { ping, connections }: DatabaseState): void => {
  const registers = [registry];
  new Gauge({
    name: 'codebox_database_up',
    help: 'Whether the database answers this gateway.',
    registers,
    async collect() {
      const isUp = await withinScrape(ping()).then(
        () => true,
        () => false,
      );
      this.set(isUp ? 1 : 0);
    },
  });
  new Gauge({
    name: 'codebox_database_connections',
    help: 'Connections of this gateway to the database, by state.',
    labelNames: ['state'],
    registers,
    collect() {
      const { used, idle } = connections();
      this.set({ state: 'used' }, used);
      this.set({ state: 'idle' }, idle);
    },
  });
  new Gauge({
    name: 'codebox_database_waiting',
    help: 'Statements of this gateway that wait for a connection.',
    registers,
    collect() {
      this.set(connections().waiting);
    },
  });
};
