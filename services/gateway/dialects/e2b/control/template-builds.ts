import { z } from 'zod';
import { type BuildEvent, CodeBoxError, hasCode } from '#contract';
import { openUpload } from '../../../../http/bodies/uploads.ts';
import { largeJson } from '../../../../json/json-bounds.ts';
import { idOf, newId } from '../../../../postgres/id.ts';
import { copyStep } from '../../../boxes/builds/builder.ts';
import { requireScope } from '../../../http/admission/admission.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Endpoints } from '../../../http/endpoint.ts';
import type { Tokens } from '../tokens.ts';
import { archivePath, createBuildContext, uploadUrl } from './build-context.ts';
import { stepsSchema, toSteps } from './build-steps.ts';
import { toTemplate } from './marks.ts';

const described = { tag: 'Templates', responses: {} };
const namePattern = /^[a-z0-9][a-z0-9-]{0,62}$/;
const nameSchema = z.string().regex(namePattern, 'must be lower-case letters, digits and -');
const hashSchema = z.string().regex(/^[0-9a-f]{64}$/);
/** At most so many entries of a log are sent at once: clients ask again. */
const logPage = 100;
/** E2B's images that stand for the default template. */
const ownImage = /^e2bdev\/(?:base|code-interpreter)(?::|$)/;
const noProcesses = 'is not supported: a template keeps files and variables, but no running processes';
const noTags = 'is not supported: a template has the version that was built last';

const unsupported = z.undefined({ error: 'is not supported' }).nullish();
const noProcess = z.literal('', { error: noProcesses }).nullish();

const newBuildSchema = z.object({
  name: z.string().optional(),
  alias: z.string().optional(),
  tags: z.array(z.literal('default', { error: noTags })).nullish(),
  cpuCount: z.int().min(1).max(64).nullish(),
  memoryMB: z.int().min(128).max(1_048_576).nullish(),
  minFreeDiskMb: unsupported,
});

const startSchema = z
  .object({
    fromImage: z
      .string()
      .regex(ownImage, 'is not supported: images are those of the templates of the gateway, so use fromTemplate')
      .nullish(),
    fromTemplate: z.string().min(1).max(64).nullish(),
    fromImageRegistry: unsupported,
    startCmd: noProcess,
    readyCmd: noProcess,
    steps: stepsSchema,
  })
  .refine(({ fromImage, fromTemplate }) => Boolean(fromImage) !== Boolean(fromTemplate), {
    error: 'must have either fromImage or fromTemplate',
  });

const buildParams = z.object({ name: nameSchema, build: z.string().max(64) });
const buildPattern = /^(\d{1,2})-(\d{1,7})-bld-[a-z2-7]{26}$/;

/** The id of a build has the size of its sandboxes, because nothing is stored before its steps are known. 0 is the size of its base. */
const toBuildId = ({ cpuCount, memoryMB }: z.output<typeof newBuildSchema>): string =>
  `${cpuCount ?? 0}-${memoryMB ?? 0}-${newId('bld')}`;

const readBuildId = (build: string) => {
  const [, cpus, memoryMb] = buildPattern.exec(build) ?? [];
  if (cpus === undefined) throw noBuild();
  return {
    ...(Number(cpus) > 0 && { cpus: Number(cpus) }),
    ...(Number(memoryMb) > 0 && { memoryMb: Number(memoryMb) }),
  };
};

const noBuild = () => new CodeBoxError('not_found', 'There is no such build.');

const versionId = (tenant: string, name: string, build: string): string =>
  idOf('tv', JSON.stringify([tenant, name, build]));

const states = { building: 'building', ready: 'ready', replaced: 'ready', failed: 'error' } as const;

/** The step of a template in which a build failed, by the log of the build. */
const failedStep = (events: readonly BuildEvent[]): string => {
  const begun = events.filter((event) => event.type === 'step' && event.text !== copyStep).length;
  return begun <= 1 ? 'base' : String(begun - 1);
};

/** Builds of templates as E2B's clients describe them. They become builds of `/v1`, whose log and state they have. */
export const addTemplateBuildRoutes = (
  { add, addRaw }: Endpoints,
  { builds, catalog, creation, files }: Pick<RouteParts, 'builds' | 'catalog' | 'creation' | 'files'>,
  tokens: Tokens,
): void => {
  const context = createBuildContext({ creation, files });

  const find = async (tenant: string, name: string, build: string) => {
    readBuildId(build);
    return await builds.find(tenant, name, versionId(tenant, name, build)).catch((error: unknown) => {
      if (hasCode(error, 'not_found')) return undefined;
      throw error;
    });
  };

  add(
    {
      ...described,
      method: 'post',
      path: '/v3/templates',
      scope: 'boxes:write',
      summary: 'Request a build of a template',
      body: newBuildSchema
        .transform(({ name, alias, ...rest }) => ({ ...rest, name: name ?? alias }))
        .pipe(newBuildSchema.extend({ name: nameSchema })),
    },
    async ({ c, body }) => {
      const { name } = body;
      const names = { names: [name], aliases: [name], tags: ['default'] };
      return c.json({ templateID: name, buildID: toBuildId(body), public: false, ...names }, 202);
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/templates/{name}/files/{hash}',
      scope: 'files',
      summary: 'Find out where to upload the files of a step',
      params: z.object({ name: nameSchema, hash: hashSchema }),
    },
    async ({ c, tenant, params: { name, hash } }) => {
      requireScope(c, 'run');
      const present = await context.has(await context.open(tenant), hash);
      return c.json({ present, url: uploadUrl(c, tokens, { template: name, hash }) }, 201);
    },
  );

  addRaw(
    {
      ...described,
      method: 'put',
      path: '/templates/{name}/files/{hash}',
      scope: 'files',
      summary: 'Upload the files of a step',
      params: z.object({ name: nameSchema, hash: hashSchema }),
    },
    async ({ c, tenant, params: { hash } }) => {
      using upload = openUpload(c);
      await files.put(await context.open(tenant), archivePath(hash), upload.body, { signal: upload.signal });
      return c.body(null, 200);
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/v2/templates/{name}/builds/{build}',
      scope: 'boxes:write',
      summary: 'Start a build',
      params: buildParams,
      body: startSchema,
      bounds: largeJson,
    },
    async ({ c, tenant, params: { name, build }, body }) => {
      requireScope(c, 'run');
      const limits = readBuildId(build);
      if (await find(tenant, name, build)) throw new CodeBoxError('conflict', 'This build was started before.');
      const { commands, env, hashes } = toSteps(body.steps);
      if (hashes.length > 0) requireScope(c, 'files');
      const box = hashes.length > 0 ? (await context.open(tenant)).box : '';
      const copies = hashes.map((hash) => ({ box, from: archivePath(hash), to: archivePath(hash) }));
      const plan = {
        from: { template: toTemplate(body.fromTemplate ?? 'base') },
        limits,
        env,
        commands,
        copies,
        // As at E2B: steps may install packages, whatever network the sandboxes have.
        ...(catalog.offersNetwork('internet') && { buildNetwork: 'internet' as const }),
        buildSeconds: 3600,
        warm: 0,
      };
      await builds.begin(tenant, name, plan, versionId(tenant, name, build));
      // Clients parse every body that is not known to be empty.
      return c.json({}, 202);
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/templates/{name}/builds/{build}/status',
      scope: 'boxes:read',
      summary: 'Read the state of a build, and a part of its log',
      params: buildParams,
      query: z.object({
        logsOffset: z.coerce.number().int().min(0).max(999_999_999).default(0),
        limit: z.coerce.number().int().min(1).max(logPage).default(logPage),
      }),
    },
    async ({ c, tenant, params: { name, build }, query: { logsOffset: after, limit } }) => {
      const row = await find(tenant, name, build);
      // Also for one that was never started: clients ask again until a build is over, and its template may be deleted meanwhile.
      if (!row) throw noBuild();
      const logOf = (after: number) => builds.log(tenant, name, { number: row.number, after, live: false });
      const timestamp = new Date().toISOString();
      const logEntries: { timestamp: string; level: 'info'; message: string }[] = [];
      for await (const event of logOf(after)) {
        if (event.type === 'done') break;
        logEntries.push({ timestamp, level: 'info', message: event.text });
        if (logEntries.length === limit) break;
      }
      const reason = row.state === 'failed' && {
        message: row.cause ?? 'It failed.',
        step: failedStep(await Array.fromAsync(logOf(0))),
      };
      return c.json({
        templateID: name,
        buildID: build,
        logs: [],
        status: states[row.state],
        logEntries,
        ...(reason && { reason }),
      });
    },
  );
};
