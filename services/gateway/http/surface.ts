import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import type { CodeBoxError } from '#contract';
import type { Admits } from './admission/admission.ts';
import type { Env } from './env.ts';
import type { TargetReader } from './ports/target.ts';

/**
 * One wire that the gateway speaks: its own paths or hosts, credentials, words of refusals, and ids. The shell in front of all surfaces
 * gives each of them request ids, logs, metrics, limits of requests and an orderly end.
 */
export interface Surface extends Admits {
  /** Which requests are its own: those below a path, or those that it knows by their host or headers, whatever their path. */
  claims: { prefix: string } | { request: (incoming: IncomingMessage) => boolean };
  /** A refusal in its words. */
  respond: (c: Context<Env>, error: CodeBoxError) => Response;
  /** The id of the box that `{box}` in one of its paths stands for; undefined for text that stands for none. */
  toBox?: (text: string) => string | undefined;
  /**
   * The ports of boxes under hosts or headers that it claims: what this reads goes to the server in the box, with the scope `run`, and
   * everything else to its routes. So a surface can answer for a port itself.
   */
  readTarget?: TargetReader;
}
