import {
  CodeBoxError,
  type CommandEvent,
  type CreateCommand,
  encodePath,
  hasCode,
  type TemplateBuild,
} from '#contract';
import type { Vault } from '../../../vault/vault.ts';
import type { Background } from '../../../waiting/background.ts';
import { createGate } from '../../../waiting/gate.ts';
import type { SavedVariables } from '../../box-server/protocol/schemas.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { Build, BuildStore } from '../../store/templates/builds.ts';
import { tooManyBuilds } from '../../store/templates/templates.ts';
import { type BoxRef, refOf } from '../box-ref.ts';
import type { Creation } from '../creation/creation.ts';
import { writeInlineFiles } from '../creation/inline-files.ts';
import type { Access } from '../life/access.ts';
import type { Endings } from '../life/endings.ts';
import type { Rest } from '../rest/rest.ts';
import type { Commands } from '../runs/commands.ts';
import type { Packages } from '../runs/packages.ts';
import { type BuildLog, createBuildLog } from './build-log.ts';

export interface BuilderOptions {
  site: string;
  builds: BuildStore;
  access: Pick<Access, 'use'>;
  creation: Pick<Creation, 'create'>;
  endings: Pick<Endings, 'delete'>;
  rest: Pick<Rest, 'checkpoint' | 'hibernate'>;
  commands: Pick<Commands, 'start'>;
  packages: Pick<Packages, 'install'>;
  vault: Vault;
  background: Background;
  /** Aborted when the gateway begins to stop: another one then builds again. */
  stopping: AbortSignal;
}

/** A file of another box of the tenant that a build begins with. */
export interface CopiedFile {
  box: string;
  from: string;
  to: string;
}

/** A command of a build that its log shows in other words. */
export interface PlannedCommand extends Pick<CreateCommand, 'cwd' | 'env'> {
  command: string;
  shown: string;
}

/** The box that a template is built from. */
type CopiedBox = Extract<TemplateBuild['from'], { box: string }>;

/** What a build does, as it is stored: also what dialects need and `/v1` has not. */
export interface BuildPlan extends Omit<TemplateBuild, 'commands'> {
  copies?: CopiedFile[] | undefined;
  commands?: (string | PlannedCommand)[] | undefined;
}

/** The step of a log in which files of another box are copied. */
export const copyStep = 'receive files';

/** The purpose for which what is asked for is encrypted. */
export const sealed = 'template build';
/** Builds of one gateway at once; further ones wait. */
const buildsAtOnce = 8;
/** Unfinished builds of one tenant. */
export const buildsPerTenant = 4;
const mostAttempts = 3;
const takenAtOnce = 4;
const pageSize = 500;
/** Time of the box beyond that of its build, in case its gateway dies. */
const slackSeconds = 600;

/** A step of a build that failed; its message is for the tenant. */
class BuildFailed extends Error {}

/** A build that this gateway performs, or that waits here for its turn. */
interface Work {
  tenant: string;
  /** False until its row is known to be written. */
  isStored: boolean;
  /** Aborted when the build no longer belongs to this gateway: its template was deleted, or another gateway has taken it over. */
  gone: AbortController;
}

/**
 * Builds versions of templates: in a box of the tenant, with all limits and quotas of one, whose saved files become the version. A
 * build whose gateway dies is begun again by another gateway of its site.
 */
export const createBuilder = (options: BuilderOptions) => {
  const { site, builds, access, creation, endings, rest, commands, packages, vault, background, stopping } = options;
  const gate = createGate(buildsAtOnce);
  const working = new Map<string, Work>();

  /** Logs what a process prints. Throws unless it succeeds. */
  const watch = async (what: string, events: AsyncIterable<CommandEvent> | undefined, log: BuildLog) => {
    let done: CommandEvent | undefined;
    for await (const event of events ?? []) {
      if (event.type === 'stdout' || event.type === 'stderr') log.output(event.text);
      done = event;
    }
    if (done?.type === 'done' && done.status === 'ok') return;
    const { status = 'lost', exitCode = null, cause } = done?.type === 'done' ? done : {};
    const how = exitCode === null ? status : `${status}, exit code ${exitCode}`;
    throw new BuildFailed(`${what} failed (${how})${cause ? `: ${cause.detail}` : ''}`);
  };

  const copyFile = async (ref: BoxRef, { box, from, to }: CopiedFile, signal: AbortSignal): Promise<void> => {
    const gone = () => new BuildFailed('Files that were uploaded for this build are not there any more.');
    const source = await access
      .use({ tenant: ref.tenant, box })
      .then(({ server }) => server.file('GET', encodePath(from), {}))
      .catch((error: unknown) => {
        throw hasCode(error, 'not_found') || hasCode(error, 'gone') ? gone() : error;
      });
    try {
      const { server } = await access.use(ref);
      const written = await server.file('PUT', encodePath(to), {}, source.body, signal);
      written.body.destroy();
    } finally {
      source.body.destroy();
    }
  };

  /** Does everything that a build asks for in its box. */
  const setUp = async (ref: BoxRef, build: BuildPlan, log: BuildLog, signal: AbortSignal): Promise<void> => {
    const timeoutSeconds = build.buildSeconds;
    if (build.files?.length) {
      log.step(`write ${build.files.length} files`);
      await writeInlineFiles((await access.use(ref)).server, build.files, signal);
    }
    for (const manager of ['pip', 'npm'] as const) {
      const asked = build.packages?.[manager];
      if (!asked) continue;
      log.step(`${manager} install ${asked.join(' ')}`);
      const { events } = await packages.install(ref, { manager, packages: asked, timeoutSeconds }, signal);
      await watch(`${manager} install`, events, log);
    }
    if (build.copies?.length) {
      log.step(copyStep);
      for (const copied of build.copies) await copyFile(ref, copied, signal);
    }
    for (const asked of build.commands ?? []) {
      const { shown, ...run } = typeof asked === 'string' ? { command: asked, shown: asked } : asked;
      log.step(shown);
      const { events } = await commands.start(ref, { ...run, timeoutSeconds }, signal);
      await watch(`The command ${JSON.stringify(shown.slice(0, 200))}`, events, log);
    }
  };

  /** Saves the files of the box that a template is built from, and with `variables` these beside them. */
  const copy = async (
    { id, tenant }: Build,
    { box, variables }: CopiedBox,
    log: BuildLog,
    signal: AbortSignal,
  ): Promise<BoxRow> => {
    const ref = { tenant, box };
    if (!variables) return await rest.checkpoint(ref);
    const { server } = await access.use(ref);
    try {
      logFaults(await server.saveVariables(id, signal), log);
      return await rest.checkpoint(ref);
    } finally {
      await background.attempt('remove the saved variables of a box', () => server.dropVariables(id));
    }
  };

  /** Has boxes of the template begin with the variables that were copied, as far as they can be loaded in the box of the build. */
  const keepVariables = async (ref: BoxRef, log: BuildLog, signal: AbortSignal): Promise<void> => {
    log.step('keep the variables');
    const saved = await (await access.use(ref)).server.adoptVariables(signal);
    logFaults(saved, log);
    log.output(`${saved.kept} variables are kept.\n`);
  };

  const createBox = async (work: Build, build: BuildPlan, log: BuildLog, signal: AbortSignal): Promise<BoxRef> => {
    const { tenant, settings } = work;
    const { limits, network } = settings;
    const source = 'box' in build.from ? await copy(work, build.from, log, signal) : undefined;
    const template = 'template' in build.from ? build.from.template : (source?.base ?? source?.template);
    const seconds = build.buildSeconds + slackSeconds;
    const ask = {
      template,
      limits,
      network: build.buildNetwork ?? network,
      env: build.env,
      metadata: { 'codebox.build': `${work.name}:${work.number}` },
      idleSeconds: seconds,
      maxLifetimeSeconds: seconds,
    };
    const onAccepted = async ({ id }: { id: string }) => {
      if (!(await builds.useBox(work.id, id))) throw new BuildFailed('The template was deleted.');
    };
    return refOf((await creation.create(tenant, ask, { from: source, onAccepted })).box);
  };

  const perform = async (work: Build, build: BuildPlan, log: BuildLog, signal: AbortSignal): Promise<void> => {
    const { id: version, tenant, boxId } = work;
    // A gateway that died has left its box.
    if (boxId !== null) await endings.delete({ tenant, box: boxId }).catch(() => {});
    log.step('box' in build.from ? `copy ${build.from.box}` : `start ${build.from.template}`);
    const ref = await createBox(work, build, log, signal);
    try {
      await setUp(ref, build, log, signal);
      if ('box' in build.from && build.from.variables) await keepVariables(ref, log, signal);
      signal.throwIfAborted();
      log.step('save the files');
      const { id, checkpointId, storageBytes } = await rest.hibernate(ref);
      await log.flush();
      await builds.succeed(version, { box: id, blob: checkpointId ?? '', bytes: storageBytes });
    } finally {
      await background.attempt('end the box of a build', () => endings.delete(ref));
    }
  };

  const run = async (id: string, gone: AbortSignal): Promise<void> => {
    const work = await builds.begin(id);
    if (!work) return;
    const request = vault.open(sealed, work.request ?? '');
    if (request === undefined) return await builds.fail(id, 'The stored build request cannot be decrypted.');
    const build: BuildPlan = JSON.parse(request);
    const log = createBuildLog(builds, id);
    const late = AbortSignal.timeout(build.buildSeconds * 1000);
    try {
      await perform(work, build, log, AbortSignal.any([stopping, gone, late]));
    } catch (error) {
      if (gone.aborted) return;
      // Another gateway begins again.
      if (stopping.aborted) return await builds.withdraw(id);
      await log.flush().catch(() => {});
      await builds.fail(id, late.aborted ? `The build took longer than ${build.buildSeconds} s.` : causeOf(error));
      if (!(error instanceof BuildFailed || error instanceof CodeBoxError || late.aborted)) throw error;
    }
  };

  const start = (id: string, { gone: { signal: gone } }: Work): void =>
    background.run('build a template', async () => {
      const ended = AbortSignal.any([stopping, gone]);
      try {
        await gate(ended, () => run(id, gone));
      } catch (error) {
        if (!ended.aborted) throw error;
      } finally {
        working.delete(id);
      }
    });

  /** Aborts builds that no longer belong to this gateway, and fails those that it has given up without being able to write that. */
  const check = async (): Promise<void> => {
    const stored = [...working].filter(([, { isStored }]) => isStored);
    const mine = new Set<string>();
    for (let page: string[] | undefined; page === undefined || page.length === pageSize; ) {
      page = await builds.mine(page?.at(-1) ?? '', pageSize);
      for (const id of page) {
        mine.add(id);
        if (!working.has(id)) await builds.fail(id, unforeseen);
      }
    }
    for (const [id, { gone }] of stored) if (!mine.has(id)) gone.abort();
  };

  return {
    /**
     * Writes the row of a build, and builds in the background. What to build is read from the row when its turn comes. Throws `conflict` while
     * this gateway has too many builds of the tenant, those whose templates were deleted included until they have ended.
     */
    async begin<T>(id: string, tenant: string, write: () => Promise<T>): Promise<T> {
      const ofTenant = [...working.values()].filter((other) => other.tenant === tenant);
      if (ofTenant.length >= buildsPerTenant) throw tooManyBuilds(buildsPerTenant);
      const work = { tenant, isStored: false, gone: new AbortController() };
      // Before the row is written: a row of this gateway without its work is one that was given up.
      working.set(id, work);
      try {
        const row = await write();
        work.isStored = true;
        start(id, work);
        return row;
      } catch (error) {
        working.delete(id);
        throw error;
      }
    },

    /** Whether this gateway works on a build, whose template may have been deleted. */
    isBusy: (): boolean => working.size > 0,

    /** Ends builds of deleted templates, and goes on with builds whose gateway has died. */
    sweep: background.oneAtATime('look after the builds', async () => {
      if (stopping.aborted) return;
      await check();
      for (const { id, tenant } of await builds.takeOver(site, mostAttempts, takenAtOnce)) {
        const work = { tenant, isStored: true, gone: new AbortController() };
        working.set(id, work);
        start(id, work);
      }
    }),
  };
};

export type Builder = ReturnType<typeof createBuilder>;

const logFaults = ({ faults, more }: SavedVariables, log: BuildLog): void => {
  for (const { name, detail } of faults) log.output(`The variable ${name} is not kept: ${detail}\n`);
  if (more > 0) log.output(`${more} more variables are not kept.\n`);
};

const unforeseen = 'The gateway failed to build it.';

const causeOf = (error: unknown): string => {
  if (error instanceof BuildFailed) return error.message;
  if (!(error instanceof CodeBoxError) || error.code === 'internal') return unforeseen;
  return [error.message, ...(error.errors ?? []).map(({ pointer, detail }) => `${pointer} ${detail}`)].join(' ');
};
