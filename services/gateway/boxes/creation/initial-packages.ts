import { CodeBoxError, type CommandEvent, commandEventSchema, hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import type { BoxServerClient } from '../../box-server/client.ts';
import { brokenProtocol } from '../../box-server/protocol/broken-protocol.ts';

/** How long the installation of packages may take when a box is created, beside its start. */
export const initialPackagesMs = 300_000;
/** How long the box may take beyond that to end an installer and report it. */
const endMs = 30_000;
const maxOutputTail = 1500;

/**
 * Installs Python packages into a new box. Throws `invalid_request` at `/packages`, with the end of the installer's output, when the
 * installation fails or no package index is reachable; `unavailable` when the box never reports how it ended.
 */
export const installInitialPackages = async (
  server: BoxServerClient,
  packages: readonly string[],
  cpuLimitMs: number | undefined,
): Promise<void> => {
  if (packages.length === 0) return;
  const request = {
    manager: 'pip' as const,
    packages: [...packages],
    timeoutMs: initialPackagesMs,
    ...(cpuLimitMs !== undefined && { cpuLimitMs }),
  };
  const over = AbortSignal.timeout(initialPackagesMs + endMs);
  let text = '';
  let done: CommandEvent | undefined;
  try {
    for await (const value of await server.install(newId('cmd'), request, over)) {
      const event = commandEventSchema.safeParse(value);
      if (!event.success) throw brokenProtocol('The box sent an event that makes no sense.', event.error);
      if ('text' in event.data) text = (text + event.data.text).slice(-maxOutputTail);
      if (event.data.type === 'done') done = event.data;
    }
  } catch (error) {
    if (hasCode(error, 'conflict')) throw failed(error.message);
    if (over.aborted) throw new CodeBoxError('unavailable', 'The box did not report how the installation ended.');
    throw error;
  }
  if (done?.type !== 'done')
    throw new CodeBoxError('unavailable', 'The box closed the connection during the installation.');
  if (done.status === 'ok') return;
  const advice = done.hint ? ` ${done.hint.detail}` : '';
  throw failed(`could not be installed (${done.status}): ${text.trim()}${advice}`);
};

const failed = (detail: string) =>
  new CodeBoxError('invalid_request', 'The packages could not be installed.', {
    errors: [{ pointer: '/packages', detail: detail.toWellFormed() }],
  });
