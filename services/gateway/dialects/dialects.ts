import type { Dialect } from '../http/app.ts';
import { codeboxapi } from './codeboxapi/codeboxapi.ts';
import { createE2b, type E2bOptions } from './e2b/e2b.ts';
import { jupyter } from './jupyter/jupyter.ts';
import type { Signer } from './librechat/settings.ts';
import type { Issuer } from './mcp/settings.ts';
import { openai } from './openai/openai.ts';
import { openterminal } from './openterminal/openterminal.ts';
import { piston } from './piston/piston.ts';

/** The settings of the gateway that dialects use. */
export interface DialectOptions extends E2bOptions {
  /** Hosts whose pages may call the dialect `mcp`. */
  mcpOrigins: readonly string[];
  /** Whose access tokens the dialect `mcp` accepts besides API keys. */
  mcpIssuer: Issuer | undefined;
  /** Whose tokens the dialect `librechat` accepts besides API keys. */
  librechatSigner: Signer | undefined;
}

/** The dialects that `CODEBOX_DIALECTS` can name. The clients of one product may need several surfaces. */
const dialects = {
  codeboxapi: () => codeboxapi,
  e2b: createE2b,
  jupyter: () => [jupyter],
  // This one and `mcp` are loaded on demand, because of the libraries that they use.
  librechat: async ({ librechatSigner }) => (await import('./librechat/librechat.ts')).createLibrechat(librechatSigner),
  mcp: async ({ seal, mcpOrigins: origins, mcpIssuer: issuer }) =>
    (await import('./mcp/mcp.ts')).createMcp({ seal, origins, issuer }),
  openai: () => openai,
  openterminal: () => openterminal,
  piston: () => piston,
} satisfies Record<string, (options: DialectOptions) => readonly Dialect[] | Promise<readonly Dialect[]>>;

export type DialectName = keyof typeof dialects;

export const dialectNames = Object.keys(dialects) as DialectName[];

/** Resolves with the dialects of these names. */
export const dialectsOf = async (names: readonly DialectName[], options: DialectOptions): Promise<Dialect[]> =>
  (await Promise.all(names.map((name) => dialects[name](options)))).flat();
