import { z } from 'zod';
import { CodeBoxError, portSchema } from '#contract';
import { jsonExcess, longJson } from '../../../json/json-bounds.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import type { Homes } from './homes.ts';

const described = { scope: 'run', tag: 'Open Terminal', responses: {} } as const;
const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;
const proxied = /^(?:https?:\/\/[^/?#]*)?(\/openterminal\/proxy\/[^/?#]+)(.*)$/is;
const listSeconds = 10;
/**
 * A page asks for the ports every few seconds for as long as it is open, and each list is a command in the box. A list is kept for this
 * long, for so many boxes: the oldest one is forgotten first.
 */
const keptMs = 5000;
const maxKept = 500;

/** Prints the TCP ports on which processes of the user listen, with the process of each where it can be found. */
const program = `
import glob, json, os
sockets = {}
for link in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        target = os.readlink(link)
        if target.startswith("socket:["):
            sockets[target[8:-1]] = int(link.split("/")[2])
    except OSError:
        pass
ports = {}
for table in "/proc/net/tcp", "/proc/net/tcp6":
    try:
        lines = open(table).readlines()[1:]
    except OSError:
        continue
    for line in lines:
        parts = line.split()
        pid = sockets.get(parts[9])
        if parts[3] == "0A" and pid is not None:
            ports.setdefault(int(parts[1].rsplit(":", 1)[1], 16), pid)
def name(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return None
print(json.dumps([{"port": port, "pid": pid, "process": name(pid)} for port, pid in sorted(ports.items())[:1000]]))
`;
const argv = ['python3', '-I', '-c', program];
const foundSchema = z
  .array(z.object({ port: portSchema, pid: z.int(), process: z.string().max(64).nullable() }))
  .max(1000);
type Ports = z.output<typeof foundSchema>;

/** Whether a command is the one that lists ports, which no user has started. */
export const listsPorts = (run: { argv?: string[] | null | undefined }): boolean => run.argv?.at(-1) === program;

/** `/ports` and `/proxy/{port}/…`: the servers in the box of a user. */
export const addPortRoutes = ({ add, addRaw }: Endpoints, parts: RouteParts, homes: Homes): void => {
  const { commands, forward } = parts;
  const kept = new Map<string, { ports: Promise<Ports>; until: number }>();

  const list = async (ref: BoxRef): Promise<Ports> => {
    const { events } = await commands.start(ref, { argv, timeoutSeconds: listSeconds });
    let printed = '';
    for await (const event of events ?? []) if (event.type === 'stdout') printed += event.text;
    const ports = foundSchema.safeParse(parseJson(printed));
    // A box without Python, or one that is short of processes.
    if (!ports.success) throw new CodeBoxError('unavailable', 'The ports of the box could not be listed.');
    return ports.data;
  };

  /** Requests that come together wait for one list; a failure is kept too, so that a box without Python is not asked all the time. */
  const listKept = (ref: BoxRef): Promise<Ports> => {
    const found = kept.get(ref.box);
    if (found && found.until > performance.now()) return found.ports;
    kept.delete(ref.box);
    // A map keeps the order of insertion.
    const [oldest] = kept.size >= maxKept ? kept.keys() : [];
    if (oldest !== undefined) kept.delete(oldest);
    const ports = list(ref);
    kept.set(ref.box, { ports, until: performance.now() + keptMs });
    return ports;
  };

  add(
    { ...described, method: 'get', path: '/openterminal/ports', summary: 'List the ports' },
    async ({ c, tenant }) => {
      // Nothing listens in a box that rests, and a page that was left open must not wake it again and again.
      const ref = await homes.lookUpAwake(c, tenant);
      return c.json({ ports: ref ? await listKept(ref) : [] });
    },
  );

  for (const method of methods)
    addRaw(
      {
        ...described,
        method,
        path: '/openterminal/proxy/{port}/{path}',
        summary: 'Send a request to a server in the box',
        params: z.object({ port: portSchema, path: z.string() }),
      },
      async ({ c, tenant, incoming, params: { port } }) => {
        const [, prefix = '', path = '/'] = proxied.exec(incoming.url ?? '') ?? [];
        const { box } = await homes.find(c, tenant);
        return await forward(c, { box, port, path, prefix, isUnslashed: false });
      },
    );
};

const parseJson = (text: string): unknown => {
  try {
    return jsonExcess(Buffer.from(text), longJson) === undefined ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
};
