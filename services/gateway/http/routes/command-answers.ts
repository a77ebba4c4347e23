import type { Context } from 'hono';
import { type CommandEvent, commandEventSchema, commandSchema } from '#contract';
import { streamEvents, streamFormat } from '../../../http/stream.ts';
import { type CommandStart, type Commands, type OnAccepted, toCommand } from '../../boxes/runs/commands.ts';
import type { Env } from '../env.ts';

/** The bodies that the start of a command may have, by Accept. */
export const commandTypes = {
  'application/json': commandSchema,
  'text/event-stream': commandEventSchema,
  'application/x-ndjson': commandEventSchema,
};

interface Where {
  c: Context<Env>;
  tenant: string;
  box: string;
}

interface Started extends Where {
  id: string;
  events: AsyncGenerator<CommandEvent>;
  leave: AbortController;
}

interface Begun {
  id: string;
  /** None of a detached one. */
  events: AsyncGenerator<CommandEvent> | undefined;
  ask?: CommandStart;
}

/** How the start of a process is answered: whole once it has ended, as a stream, or at once when it is detached. */
export const createCommandAnswers = (commands: Commands, stopping: AbortSignal) => {
  const respond = async (
    { c, box, id, events, leave }: Started,
    ask: () => Promise<CommandStart> | CommandStart,
  ): Promise<Response> => {
    const format = streamFormat(c);
    if (format) return streamEvents(c, { format, events, leave, stopping, onError: toLog(c, leave) });
    const started = await ask();
    const all: CommandEvent[] = [];
    for await (const event of events) all.push(event);
    return c.json(toCommand(id, box, started, all));
  };

  const accepted = async ({ c, tenant, box }: Where, id: string): Promise<Response> => {
    c.header('Location', `/v1/boxes/${box}/commands/${id}/events`);
    return c.json(await commands.read({ tenant, box }, id), 202);
  };

  return {
    /** Starts a process by `begin`, which tells its id and its events, and answers as asked. */
    async start(
      where: Where,
      begin: (leave: AbortSignal, onAccepted: OnAccepted) => Promise<Begun>,
    ): Promise<Response> {
      const { c, tenant, box } = where;
      const leave = new AbortController();
      const progress = c.get('progress');
      const locationOf = (id: string) => `/v1/boxes/${box}/commands/${id}`;
      const { id, events, ask } = await begin(leave.signal, async (id) => progress?.mayStart(locationOf(id)));
      await progress?.hasStarted();
      c.header('Content-Location', locationOf(id));
      if (!events) return await accepted(where, id);
      return await respond({ ...where, id, events, leave }, () => ask ?? commands.read({ tenant, box }, id));
    },

    /** Answers again for the process that an earlier request started. */
    async replay(
      { c, tenant }: Omit<Where, 'box'>,
      isDetached: boolean | undefined,
      location: string,
    ): Promise<Response> {
      const [, , , box = '', , id = ''] = location.split('/');
      if (isDetached) return await accepted({ c, tenant, box }, id);
      const leave = new AbortController();
      // Before a stream begins: what the box does not know any more is a 404.
      const ask = await commands.read({ tenant, box }, id);
      const events = commands.events({ tenant, box }, id, 0, leave.signal);
      return await respond({ c, tenant, box, id, events, leave }, () => ask);
    },
  };
};

export type CommandAnswers = ReturnType<typeof createCommandAnswers>;

/** A reader that leaves breaks its stream: that is nothing to warn of. */
export const toLog = (c: Context<Env>, leave: AbortController) => (error: unknown) =>
  c.get('log')[leave.signal.aborted ? 'debug' : 'warn']({ err: error }, 'a stream broke');
