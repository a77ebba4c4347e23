import { z } from 'zod';
import { CodeBoxError, hasCode, maxLifetimeSeconds } from '#contract';
import type { BoxRef } from '../../../boxes/box-ref.ts';
import type { BoxRow } from '../../../boxes/life/directory.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints, Input } from '../../../http/endpoint.ts';
import { type AccessOptions, accessTo, toSandbox } from './access.ts';
import { ofSnapshots, toTemplate } from './marks.ts';
import { readMetadata } from './metadata-filter.ts';
import { networkSchema, newSandboxSchema, timeoutSchema, toCreateBox, wantsInternet } from './new-sandbox.ts';
import { boxStates, isPaused, pausesItself, requireSandbox, toEnvironment, toListed } from './sandbox.ts';
import { copyOf, createFindSnapshot } from './snapshots.ts';

const described = { tag: 'Sandboxes', responses: {} };
const params = z.object({ box: z.string() });
/** The timeout of a request that has none, and that of the first version of the path. */
const [defaultSeconds, oldDefaultSeconds] = [300, 15];

const states = z
  .string()
  .transform((text) => text.split(','))
  .pipe(z.array(z.enum(['running', 'paused'])));
const listSchema = z.object({
  metadata: z.string().max(8192).optional(),
  state: states.optional(),
  template: z.string().max(64).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  startedAfter: z.iso.datetime({ offset: true }).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(100),
  nextToken: z.string().max(1024).optional(),
});

interface Connecting {
  /** The timeout of the sandbox from now on. */
  seconds: number;
  /** Whether the sandbox has to be paused. */
  isNeeded?: boolean;
  /** Whether a paused sandbox starts again with its files only. */
  restarts?: boolean;
}

type In<B = unknown> = Input<{ box: string }, unknown, B>;

/** E2B's calls on sandboxes. */
export const addSandboxRoutes = (
  { add }: Endpoints,
  {
    catalog,
    creation,
    directory,
    endings,
    rest,
  }: Pick<RouteParts, 'catalog' | 'creation' | 'directory' | 'endings' | 'rest'>,
  options: AccessOptions,
): void => {
  const findSnapshot = createFindSnapshot({ catalog, directory });
  const find = async (ref: BoxRef): Promise<BoxRow> => requireSandbox(await directory.find(ref));

  /** Moves the end of a sandbox, or the time after which it pauses itself. */
  const setTimeout = async (ref: BoxRef, row: BoxRow, seconds: number, extendsOnly: boolean): Promise<BoxRow> => {
    if (!pausesItself(row)) return await directory.endIn(ref, seconds, { extendsOnly });
    await directory.update(ref, { idleSeconds: Math.max(1, seconds, extendsOnly ? row.idleSeconds : 0) });
    return await directory.keepalive(ref);
  };

  for (const [version, seconds] of [
    ['', oldDefaultSeconds],
    ['/v2', defaultSeconds],
  ] as const) {
    add(
      {
        ...described,
        method: 'post',
        path: `${version}/sandboxes`,
        scope: 'boxes:write',
        summary: 'Create a sandbox',
        body: newSandboxSchema,
      },
      async (input) => {
        const { c, tenant, body } = input;
        const from = await findSnapshot(tenant, body.templateID);
        const defaults = { seconds, offersInternet: catalog.offersNetwork('internet'), keyId: c.get('keyId') };
        const ask = { ...toCreateBox(body, defaults), ...(from && copyOf(from)) };
        const { box } = await creation.create(tenant, ask, { from, envOf: toEnvironment });
        return c.json(toSandbox(c, box, options), 201);
      },
    );

    add(
      {
        ...described,
        method: 'get',
        path: `${version}/sandboxes`,
        scope: 'boxes:read',
        summary: 'List sandboxes',
        query: listSchema,
      },
      async ({ c, tenant, query }) => {
        // The first version of the path lists running sandboxes only.
        const { state = version === '' ? ['running' as const] : ['running' as const, 'paused' as const] } = query;
        const { items, nextCursor } = await directory.list(tenant, {
          limit: query.limit,
          cursor: query.nextToken,
          states: state.flatMap((one) => boxStates[one]),
          template: query.template === undefined ? undefined : toTemplate(query.template),
          order: query.order,
          createdAfter: query.startedAfter === undefined ? undefined : new Date(query.startedAfter),
          metadata: query.metadata === undefined ? undefined : readMetadata(query.metadata),
          except: ofSnapshots,
        });
        if (nextCursor !== null) c.header('X-Next-Token', nextCursor);
        return c.json(items.map(toListed));
      },
    );

    add(
      {
        ...described,
        method: 'post',
        path: `${version}/sandboxes/{box}/connect`,
        scope: 'boxes:write',
        summary: 'Connect to a sandbox, and resume it if it is paused',
        params,
        body: z.object({ timeout: timeoutSchema.nullish(), memory: z.boolean().nullish() }),
      },
      async (input) =>
        await connect(input, {
          seconds: input.body.timeout ?? defaultSeconds,
          restarts: input.body.memory === false,
        }),
    );
  }

  const connect = async (input: In, { seconds, isNeeded = false, restarts = false }: Connecting): Promise<Response> => {
    const ref = { tenant: input.tenant, box: input.params.box };
    const row = await find(ref);
    if (!isPaused(row) && isNeeded) throw new CodeBoxError('conflict', 'The sandbox is not paused.');
    if (restarts && row.state === 'paused') await pause(ref, false);
    if (isPaused(row)) await rest.resume(ref);
    const now = await setTimeout(ref, row, seconds, !isPaused(row));
    return input.c.json(toSandbox(input.c, now, options), isPaused(row) ? 201 : 200);
  };

  add(
    {
      ...described,
      method: 'post',
      path: '/sandboxes/{box}/resume',
      scope: 'boxes:write',
      summary: 'Resume a paused sandbox',
      params,
      body: z.object({ timeout: timeoutSchema.nullish() }),
    },
    async (input) => await connect(input, { seconds: input.body.timeout ?? oldDefaultSeconds, isNeeded: true }),
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/sandboxes/{box}',
      scope: 'boxes:read',
      summary: 'Read a sandbox',
      params,
    },
    async (input) => {
      const row = await find({ tenant: input.tenant, box: input.params.box });
      return input.c.json({
        ...toListed(row),
        ...accessTo(input.c, row, options),
        allowInternetAccess: row.network === 'internet',
        lifecycle: { onTimeout: pausesItself(row) ? 'pause' : 'kill', autoResume: pausesItself(row) },
      });
    },
  );

  add(
    {
      ...described,
      method: 'delete',
      path: '/sandboxes/{box}',
      scope: 'boxes:write',
      summary: 'End a sandbox',
      params,
    },
    async ({ c, tenant, params: { box } }) => {
      await find({ tenant, box });
      await endings.delete({ tenant, box });
      return c.body(null, 204);
    },
  );

  for (const { path, field, extendsOnly } of [
    { path: 'timeout', field: 'timeout', extendsOnly: false },
    { path: 'refreshes', field: 'duration', extendsOnly: true },
  ] as const) {
    add(
      {
        ...described,
        method: 'post',
        path: `/sandboxes/{box}/${path}`,
        scope: 'boxes:write',
        summary: 'Move the end of a sandbox',
        params,
        body: z.object({ timeout: timeoutSchema.nullish(), duration: timeoutSchema.nullish() }),
      },
      async ({ c, tenant, params: { box }, body }) => {
        const ref = { tenant, box };
        await setTimeout(ref, await find(ref), body[field] ?? oldDefaultSeconds, extendsOnly);
        return c.body(null, 204);
      },
    );
  }

  add(
    {
      ...described,
      method: 'put',
      path: '/sandboxes/{box}/network',
      scope: 'boxes:write',
      summary: 'Confirm the network of a sandbox, which is fixed when it is created',
      params,
      body: networkSchema,
    },
    async ({ c, tenant, params: { box }, body }) => {
      const allows = wantsInternet(body);
      const row = await find({ tenant, box });
      // Clients without a wish mean the usual network, which is the internet at E2B and that of the template here.
      const usual = row.network === 'internet' ? row.network : catalog.of(row)?.network;
      const wanted = allows ? 'internet' : allows === false ? 'none' : usual;
      if (wanted === row.network) return c.body(null, 204);
      throw new CodeBoxError('invalid_request', 'The network of a sandbox is fixed when it is created.');
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/sandboxes/{box}/pause',
      scope: 'boxes:write',
      summary: 'Pause a sandbox: with its memory where boxes can be frozen, else with its files',
      params,
      body: z.object({ memory: z.boolean().nullish() }),
    },
    async ({ c, tenant, params: { box }, body }) => {
      const ref = { tenant, box };
      if (isPaused(await find(ref))) throw new CodeBoxError('conflict', 'The sandbox is already paused.');
      await pause(ref, body.memory !== false);
      // A paused sandbox has no timeout: it is kept for as long as a box can be.
      await directory.endIn(ref, maxLifetimeSeconds);
      return c.body(null, 204);
    },
  );

  /** Clients understand a 409 as "already paused", so a sandbox that is busy is unavailable instead. */
  const pause = async (ref: BoxRef, keepsMemory: boolean): Promise<void> => {
    try {
      const frozen = keepsMemory && (await rest.pause(ref).catch(orCannot));
      if (!frozen) await rest.hibernate(ref);
    } catch (cause) {
      if (!hasCode(cause, 'conflict')) throw cause;
      const isBusy: boolean = hasCode(cause, 'conflict', 'code_running');
      const message = isBusy ? 'Code runs in the sandbox, which can be paused when that has ended.' : cause.message;
      throw new CodeBoxError('unavailable', message, { cause, retryAfterSeconds: 1 });
    }
  };
};

/** Returns undefined where boxes cannot be frozen; throws any other error. */
const orCannot = (error: unknown): undefined => {
  if (!hasCode(error, 'invalid_request')) throw error;
};
