import { CodeBoxError, type CommandEvent, commandEventSchema, hasCode } from '#contract';
import { newId } from '../../../postgres/id.ts';
import { brokenProtocol } from '../../box-server/broken-protocol.ts';
import type { BoxServerClient } from '../../box-server/client.ts';

/** What installing has at the creation of a box, beside the time of its start. */
export const initialPackagesMs = 300_000;
/** What a box may take beside that to end an installer and tell so. */
const endMs = 30_000;
const lastWords = 1500;

/**
 * Installs Python packages into a box that is being made. Throws `invalid_request` at `/packages`, with the installer's last
 * words, when that fails or the box can get them from nowhere; `unavailable` when the box never tells how it ended.
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
      if ('text' in event.data) text = (text + event.data.text).slice(-lastWords);
      if (event.data.type === 'done') done = event.data;
    }
  } catch (error) {
    if (hasCode(error, 'conflict')) throw failed(error.message);
    if (over.aborted) throw new CodeBoxError('unavailable', 'The box has not told how the installation ended.');
    throw error;
  }
  if (done?.type !== 'done') throw new CodeBoxError('unavailable', 'The box broke off the installation.');
  if (done.status !== 'ok') throw failed(`could not be installed (${done.status}): ${text.trim()}`);
};

const failed = (detail: string) =>
  new CodeBoxError('invalid_request', 'The packages could not be installed.', {
    errors: [{ pointer: '/packages', detail: detail.toWellFormed() }],
  });
