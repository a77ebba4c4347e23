import { z } from 'zod';
import { pageSchema } from '../values/page.ts';
import { foreignText, plainText } from '../values/text.ts';
import { ticketParameter } from './tickets.ts';

/** The id of a terminal. */
export const terminalIdSchema = z.string().regex(/^term-[a-z2-7]{26}$/);

const dimension = z.int().min(1).max(1000);
const queryDimension = z.coerce.number().pipe(dimension).optional();

export const terminalSchema = z
  .object({
    id: z.string(),
    box: z.string(),
    cwd: z.string().meta({
      description:
        'The folder where it was started, relative to /mnt/data; "" is /mnt/data itself, and a folder outside of it is absolute.',
    }),
    pid: z.int().min(1).meta({ description: 'The process id of its shell inside the box.' }),
    cols: dimension,
    rows: dimension,
    clients: z.int().min(0).meta({ description: 'How many clients are attached now.' }),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: 'Terminal' });

export type Terminal = z.infer<typeof terminalSchema>;

export const terminalPageSchema = pageSchema('TerminalPage', terminalSchema);

/** Query of the WebSocket: without `terminal` a new shell is started. */
export const terminalQuerySchema = z
  .strictObject({
    terminal: z.string().max(64).optional().meta({ description: 'Attach to this terminal instead of a new one.' }),
    cols: queryDimension.meta({ description: 'Default 80. Without it, a running terminal keeps its size.' }),
    rows: queryDimension.meta({ description: 'Default 24.' }),
    cwd: plainText().max(4096).optional().meta({ description: 'Relative to /mnt/data, or absolute.' }),
    ticket: ticketParameter,
  })
  .refine((query) => query.terminal === undefined || query.cwd === undefined, {
    path: ['cwd'],
    message: 'must be left out with terminal, which has its own',
  })
  .refine((query) => (query.cols === undefined) === (query.rows === undefined), {
    path: ['rows'],
    message: 'must be given together with cols, or neither',
  });

export type TerminalQuery = z.infer<typeof terminalQuerySchema>;

/** A text frame of the client. Binary frames of the client are keystrokes. */
export const terminalControlSchema = z
  .strictObject({ type: z.literal('resize'), cols: dimension, rows: dimension })
  .meta({ id: 'TerminalControl' });

/** A message of a box about a terminal. */
export const terminalNewsSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('ready'),
    cols: dimension,
    rows: dimension,
    replayedBytes: z.int().min(0).max(1_048_576),
  }),
  z.object({
    type: z.literal('exit'),
    exitCode: z.int().min(-0x8000_0000).max(0x7fff_ffff).nullable(),
    signal: foreignText(32).nullable(),
  }),
  z.object({ type: z.literal('error'), code: foreignText(64), detail: foreignText(2000) }),
]);

export type TerminalNews = z.infer<typeof terminalNewsSchema>;

/**
 * A text frame of the server. `ready` is the first; the next `replayedBytes` bytes are a replay of earlier output.
 * `exit` is the last. Binary frames are output.
 */
export type TerminalMessage =
  | (Extract<TerminalNews, { type: 'ready' }> & { terminal: string })
  | Extract<TerminalNews, { type: 'exit' }>
  | (Extract<TerminalNews, { type: 'error' }> & { errors?: { pointer: string; detail: string }[] });
