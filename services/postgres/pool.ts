import pg from 'pg';
import { CodeBoxError } from '#contract';
import { isAway } from './away.ts';

/**
 * Deadlines of one statement; the server's own comes first, so that it does not continue statements that nobody waits for.
 */
const connectMs = 4000;
const statementMs = 8000;
const answerMs = 10_000;
/** How long a process that vanishes in a transaction may keep its locks. */
const betweenStatementsMs = 10_000;
const maxClients = 16;

const away = (cause: unknown): CodeBoxError =>
  new CodeBoxError('unavailable', 'The database does not respond.', { cause, retryAfterSeconds: 2 });

export interface PoolOptions {
  /** Called for connections that break while they are idle. */
  onError: (error: Error) => void;
  /** Wraps the sending of each statement. */
  around?: <T>(statement: unknown, send: () => Promise<T>) => Promise<T>;
  /** Translates errors of statements; undefined passes an error on unchanged. */
  translate?: (error: unknown) => Error | undefined;
}

/**
 * A PostgreSQL pool in which nothing waits for ever: 4 s for a connection or a slot in the pool, 10 s for a reply. When
 * the database is unavailable, statements throw `unavailable`, and their connection is not reused: a reply may still
 * arrive on it.
 */
export const createPool = (
  url: string,
  { onError, around = (_, send) => send(), translate = () => undefined }: PoolOptions,
): pg.Pool => {
  const pool = new pg.Pool({
    connectionString: url,
    max: maxClients,
    connectionTimeoutMillis: connectMs,
    idleTimeoutMillis: 60_000,
    statement_timeout: statementMs,
    query_timeout: answerMs,
    idle_in_transaction_session_timeout: betweenStatementsMs,
  });
  // An idle connection that breaks would otherwise end the process; the pool replaces it.
  pool.on('error', onError);
  pool.on('connect', (client) => {
    // The pool does not listen while a connection is in use, and a break would end the process too.
    client.on('error', onError);
    const send = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
    const query = async (...args: unknown[]) => {
      try {
        return await around(args[0], () => send(...args));
      } catch (error) {
        if (!isAway(error)) throw translate(error) ?? error;
        client.release(true);
        throw away(error);
      }
    };
    Object.assign(client, { query });
  });
  const connect = pool.connect.bind(pool) as () => Promise<pg.PoolClient>;
  const lend = async () => {
    try {
      return releasedOnce(await connect());
    } catch (error) {
      // Whatever the cause, no caller can fix it.
      throw away(error);
    }
  };
  const query = async (...args: unknown[]) => {
    const client = await lend();
    try {
      return await (client.query as (...args: unknown[]) => Promise<unknown>)(...args);
    } finally {
      client.release();
    }
  };
  return Object.assign(pool, { connect: lend, query });
};

/**
 * Makes sure that a client returns to the pool exactly once, however often it is released, and also when its connection
 * ends: drizzle never releases a transaction that could not begin, and each one would cost the pool a slot.
 */
const releasedOnce = (client: pg.PoolClient): pg.PoolClient => {
  const giveBack = client.release.bind(client);
  let isLent = true;
  const release = (broken?: boolean | Error) => {
    if (!isLent) return;
    isLent = false;
    client.off('end', discard);
    giveBack(broken);
  };
  const discard = () => release(true);
  client.once('end', discard);
  return Object.assign(client, { release });
};
