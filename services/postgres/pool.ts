import pg from 'pg';
import { CodeBoxError } from '#contract';
import { isAway } from './away.ts';

/** Bounds of one statement; the server's own is met first, so that it does not go on with what nobody waits for. */
const connectMs = 4000;
const statementMs = 8000;
const answerMs = 10_000;
/** A process that vanishes in the middle of a transaction keeps its locks from the others for no longer. */
const betweenStatementsMs = 10_000;
const maxClients = 16;

const away = (cause: unknown): CodeBoxError =>
  new CodeBoxError('unavailable', 'The database does not answer.', { cause, retryAfterSeconds: 2 });

export interface PoolOptions {
  /** Told of connections that break while nobody uses them. */
  onError: (error: Error) => void;
  /** Sends a statement, with whatever is to be done before and after it. */
  around?: <T>(statement: unknown, send: () => Promise<T>) => Promise<T>;
  /** What an error of a statement means to the caller; undefined for any that is passed on as it is. */
  translate?: (error: unknown) => Error | undefined;
}

/**
 * A pool on PostgreSQL in which nothing waits for ever: for a connection or a place in the pool 4 s, for an answer 10 s. What
 * fails for the database being away throws `unavailable`, and its connection is not used again: somebody may still be writing an
 * answer to it.
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
    // While it is lent out the pool does not listen, and a connection that breaks then would end the process too.
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
      // Whatever it says: no caller of ours can mend it.
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
 * A client that goes back to the pool once, however often it is released, and by itself when its connection ends: a transaction
 * that could not begin is never released by drizzle, and with each of them the pool would have room for one less.
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
