import type { BoxQuery, CreateBox } from '../boxes/boxes.ts';
import type { CreateRun, Run } from '../boxes/run.ts';
import { BoxHandle } from './box-handle.ts';
import { type Client, type ClientOptions, createClient } from './client.ts';
import type { CallOptions, CreateOptions } from './transport.ts';

const createBoxCalls = (client: Client) => ({
  /** Creates a box, or returns the user's own one with `reuse` or `name`. */
  create: async (body: CreateBox = {}, options?: CreateOptions): Promise<BoxHandle> =>
    new BoxHandle(client, await client.boxes.create(body, options)),

  /** Finds a box by its id, including one that has ended. */
  get: async (box: string, options?: CallOptions): Promise<BoxHandle> =>
    new BoxHandle(client, await client.boxes.read(box, options)),

  /** Newest first; boxes that have ended only when `state` asks for them. */
  async *list(
    query: Partial<Omit<BoxQuery, 'cursor'>> = {},
    options?: CallOptions,
  ): AsyncGenerator<BoxHandle, void, undefined> {
    for await (const info of client.boxes.list(query, options)) yield new BoxHandle(client, info);
  },

  /** Deletes a box with its files; deleting it again has no effect. */
  delete: (box: string, options?: CallOptions): Promise<void> => client.boxes.delete(box, options),
});

/**
 * CodeBox, with boxes as objects. Requests that the gateway defers, or that do not reach it, are repeated three times
 * unless `retries` says otherwise. `client` has every call of the API.
 */
export class CodeBox {
  readonly client: Client;
  readonly boxes: ReturnType<typeof createBoxCalls>;
  readonly volumes: Client['volumes'];
  readonly webhooks: Client['webhooks'];
  /** The API of operators, which needs the admin key. */
  readonly admin: Client['admin'];

  constructor(options: ClientOptions) {
    this.client = createClient({ retries: 3, ...options });
    this.boxes = createBoxCalls(this.client);
    this.volumes = this.client.volumes;
    this.webhooks = this.client.webhooks;
    this.admin = this.client.admin;
  }

  /** Runs code once in a fresh box that is deleted afterwards. */
  run(code: string, settings: Omit<CreateRun, 'code'> = {}, options?: CreateOptions): Promise<Run> {
    return this.client.run({ code, ...settings }, options);
  }
}
