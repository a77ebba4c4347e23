import { CodeBoxError, type CommandEvent, type TemplateBuild } from '#contract';
import type { Vault } from '../../../vault/vault.ts';
import type { Background } from '../../../waiting/background.ts';
import { createGate } from '../../../waiting/gate.ts';
import type { Build, BuildStore } from '../../store/templates/builds.ts';
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

/** The purpose for which what is asked for is encrypted. */
export const sealed = 'template build';
/** Builds of one gateway at once; further ones wait. */
const buildsAtOnce = 8;
const mostAttempts = 3;
const takenAtOnce = 4;
/** Time of the box beyond that of its build, in case its gateway dies. */
const slackSeconds = 600;

/** A step of a build that failed; its message is for the tenant. */
class BuildFailed extends Error {}

/**
 * Builds versions of templates: in a box of the tenant, with all limits and quotas of one, whose saved files become the version. A
 * build whose gateway dies is begun again by another.
 */
export const createBuilder = (options: BuilderOptions) => {
  const { builds, access, creation, endings, rest, commands, packages, vault, background, stopping } = options;
  const gate = createGate(buildsAtOnce);

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

  /** Does everything that a build asks for in its box. */
  const setUp = async (ref: BoxRef, build: TemplateBuild, log: BuildLog, signal: AbortSignal): Promise<void> => {
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
    for (const command of build.commands ?? []) {
      log.step(command);
      const { events } = await commands.start(ref, { command, timeoutSeconds }, signal);
      await watch(`The command ${JSON.stringify(command.slice(0, 200))}`, events, log);
    }
  };

  const createBox = async ({ version, tenant, name }: Build, build: TemplateBuild): Promise<BoxRef> => {
    const { limits, network } = version.settings;
    const source = 'box' in build.from ? await rest.checkpoint({ tenant, box: build.from.box }) : undefined;
    const template = 'template' in build.from ? build.from.template : (source?.base ?? source?.template);
    const seconds = build.buildSeconds + slackSeconds;
    const ask = {
      template,
      limits,
      network: build.buildNetwork ?? network,
      env: build.env,
      metadata: { 'codebox.build': `${name}:${version.number}` },
      idleSeconds: seconds,
      maxLifetimeSeconds: seconds,
    };
    const onAccepted = async ({ id }: { id: string }) => {
      if (!(await builds.useBox(version.id, id))) throw new BuildFailed('The template was deleted.');
    };
    return refOf((await creation.create(tenant, ask, { from: source, onAccepted })).box);
  };

  const perform = async (work: Build, build: TemplateBuild, log: BuildLog, signal: AbortSignal): Promise<void> => {
    const { version, tenant } = work;
    // A gateway that died has left its box.
    if (version.boxId !== null) await endings.delete({ tenant, box: version.boxId }).catch(() => {});
    log.step('box' in build.from ? `copy ${build.from.box}` : `start ${build.from.template}`);
    const ref = await createBox(work, build);
    try {
      await setUp(ref, build, log, signal);
      signal.throwIfAborted();
      log.step('save the files');
      const { id, checkpointId, storageBytes } = await rest.hibernate(ref);
      await log.flush();
      await builds.succeed(version.id, { box: id, blob: checkpointId ?? '', bytes: storageBytes });
    } finally {
      await background.attempt('end the box of a build', () => endings.delete(ref));
    }
  };

  const run = async (work: Build): Promise<void> => {
    const { id } = work.version;
    const asked = vault.open(sealed, work.version.build ?? '');
    if (asked === undefined) return await builds.fail(id, 'What it is built from cannot be read.');
    const build: TemplateBuild = JSON.parse(asked);
    const log = createBuildLog(builds, id);
    const late = AbortSignal.timeout(build.buildSeconds * 1000);
    try {
      await perform(work, build, log, AbortSignal.any([stopping, late]));
    } catch (error) {
      // Another gateway begins again.
      if (stopping.aborted) return;
      await log.flush();
      await builds.fail(id, late.aborted ? `The build took longer than ${build.buildSeconds} s.` : causeOf(error));
      if (!(error instanceof BuildFailed || error instanceof CodeBoxError || late.aborted)) throw error;
    }
  };

  const start = (work: Build): void =>
    background.run('build a template', () => gate(stopping, () => run(work)).catch(ignoreStop));
  const ignoreStop = (error: unknown) => {
    if (!stopping.aborted) throw error;
  };

  return {
    /** Builds a version in the background. */
    start,

    /** Goes on with builds whose gateway has died. */
    sweep: background.oneAtATime('take over builds', async () => {
      for (const work of await builds.takeOver(mostAttempts, takenAtOnce)) start(work);
    }),
  };
};

export type Builder = ReturnType<typeof createBuilder>;

const causeOf = (error: unknown): string => {
  if (error instanceof BuildFailed) return error.message;
  if (!(error instanceof CodeBoxError) || error.code === 'internal') return 'The gateway failed to build it.';
  return [error.message, ...(error.errors ?? []).map(({ pointer, detail }) => `${pointer} ${detail}`)].join(' ');
};
