import { Gauge, type Registry } from 'prom-client';
import { withinScrape } from './scrape.ts';

/** Checks of the database that the metrics need. */
export interface DatabaseState {
  /** Rejects while the database does not respond. */
  ping: () => Promise<void>;
  /** Connections of this gateway, and statements that wait for a connection. */
  connections: () => { used: number; idle: number; waiting: number };
}

/** Adds the series of the database as this gateway sees it. Each scrape pings the database. */
export const addDatabaseMetrics = (registry: Registry, { ping, connections }: DatabaseState): void => {
  const registers = [registry];
  new Gauge({
    name: 'codebox_database_up',
    help: 'Whether the database responds to this gateway.',
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
