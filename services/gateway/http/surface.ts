import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import type { CodeBoxError } from '#contract';
import type { Admits } from './admission/admission.ts';
import type { Env } from './env.ts';
import type { TargetReader } from './ports/target.ts';

/**
 * One API that the gateway serves, with its own paths or hosts, credentials, error format and ids. The shell in front of all surfaces
 * provides each of them with request ids, logs, metrics, request limits and graceful shutdown.
 */
export interface Surface extends Admits {
  /** The requests that belong to the surface: those below a path, or those it recognises by host or headers, whatever their path. */
  claims: { prefix: string } | { request: (incoming: IncomingMessage) => boolean };
  /** Renders an error in the format of this surface. */
  respond: (c: Context<Env>, error: CodeBoxError) => Response;
  /** Whether pages of any origin may use the routes of the surface. They still need a credential. */
  isForPages?: boolean;
  /** Maps the text at `{box}` in one of its paths to the id of a box of the tenant; returns undefined for text that names no box. */
  toBox?: (text: string, tenant: string) => string | undefined | Promise<string | undefined>;
  /** The same for `{volume}`. */
  toVolume?: (text: string, tenant: string) => Promise<string>;
  /**
   * Recognises requests for ports of boxes among those the surface claims. A request with a target goes to the server in the box and
   * needs the scope `run`; every other request goes to the routes, so a surface can serve a port itself.
   */
  readTarget?: TargetReader;
}
