import { CodeBoxError } from '#contract';
import type { Conversation } from './conversation.ts';
import { describeRan, headAndTail, withoutAnsi } from './outputs.ts';
import type { RunCode, Task } from './tools.ts';
import type { Ran } from './workspace.ts';

/** Refusals of the gateway from which a model can recover. */
const recoverable = new Set<string>([
  'invalid_request',
  'not_found',
  'conflict',
  'precondition_failed',
  'too_large',
  'unsupported_media_type',
  'disk_full',
  'quota_exceeded',
  'timeout',
]);

const isRecoverable = (error: unknown): error is CodeBoxError =>
  error instanceof CodeBoxError && recoverable.has(error.code);

/** A completed task: the result for the model, and the error of its code if there was one. */
export interface Done {
  result: string;
  error: Ran['error'];
  /** A failure other than an error of code: the box refused the task, or ended it. */
  fault: string | null;
  /**
   * Whether a missing package was installed after part of the code had run: that is not a mistake, and the code must
   * not run again.
   */
  wasInstalling: boolean;
}

const resultOf = (result: string): Done => ({ result, error: null, fault: null, wasInstalling: false });

type Runner = Pick<Conversation, 'workspace' | 'onEvent' | 'approve' | 'limits' | 'signal'>;

const outputFolder = '.codebox/outputs';

const fileNameOf = (call: string): string => `${outputFolder}/${call.replace(/[^\w.-]/g, '_').slice(0, 100)}.txt`;

const describe = async (
  call: string,
  { ran, installed }: Run,
  { workspace, limits, signal }: Runner,
): Promise<string> => {
  const isLong = withoutAnsi(ran.text).trimEnd().length > limits.outputCharacters;
  const savedAs = isLong ? fileNameOf(call) : undefined;
  const isSaved = savedAs !== undefined && (await save(savedAs, ran.text, workspace, signal));
  return describeRan(ran, { budget: limits.outputCharacters, savedAs: isSaved ? savedAs : undefined, installed });
};

/** Resolves with whether the text could be saved: a full disk must not keep the result from the model. */
const save = (path: string, text: string, workspace: Runner['workspace'], signal: AbortSignal): Promise<boolean> =>
  workspace.write(path, text.toWellFormed(), signal).then(
    () => true,
    (error: unknown) => {
      if (isRecoverable(error)) return false;
      throw error;
    },
  );

interface Run {
  ran: Ran;
  /** States which packages were installed because the code lacked them. */
  installed: string | undefined;
}

/**
 * Runs the code. While only imports have run, the gateway installs a missing package and runs the code again. A package
 * that is missing later is installed here, and the model continues: code before that import has run and must not run
 * twice.
 */
const runInstalling = async (
  call: string,
  code: RunCode['arguments'] & { language: string },
  runner: Runner,
): Promise<Run> => {
  const { workspace, onEvent, signal } = runner;
  let wasInstalling = false;
  const ran = await workspace.run(
    code,
    async (event) => {
      if (event.type === 'install') {
        wasInstalling = true;
        const names = event.packages.map(({ name, version }) => `${name} ${version}`).join(', ');
        if (event.exitCode === 0) await onEvent({ type: 'notice', kind: 'installed', text: `Installed ${names}.` });
      }
      await onEvent({ type: 'output', call, event });
    },
    signal,
  );
  const hint = ran.error?.hint;
  if (hint?.code !== 'install_package' || wasInstalling || signal.aborted) return { ran, installed: undefined };
  const { ok, text } = await workspace.install([hint.package], hint.manager, signal);
  if (!ok) return { ran, installed: undefined };
  await onEvent({ type: 'notice', kind: 'installed', text });
  return { ran, installed: text };
};

type CodeState = 'waiting' | 'running' | 'declined' | 'stopped' | 'done';
type Code = { language: string; code: string };

const reporting = (call: string, code: Code, { onEvent }: Runner) => ({
  reportState: (state: CodeState) => onEvent({ type: 'code', call, ...code, state }),
});

/** Waits for approval where it is required. Returns the text for the model when the reader declines. */
const askReader = async (call: string, code: Code, runner: Runner): Promise<string | undefined> => {
  const { approve, signal } = runner;
  if (!approve) return undefined;
  const { reportState } = reporting(call, code, runner);
  await reportState('waiting');
  const { approved, reason } = await approve(call, signal).catch(async (error: unknown) => {
    await reportState('stopped');
    throw error;
  });
  if (approved) return undefined;
  await reportState('declined');
  return `The reader declined this${reason ? `: ${reason}` : '.'}\nDo not do it in other words: ask, or do it differently.`;
};

const runCode = async (call: string, { arguments: given }: RunCode, runner: Runner): Promise<Done> => {
  const { onEvent, signal } = runner;
  const code = { code: given.code, language: given.language ?? '' };
  const { reportState } = reporting(call, code, runner);
  const declined = await askReader(call, code, runner);
  if (declined !== undefined) return resultOf(declined);
  await reportState('running');
  let run: Run;
  try {
    run = await runInstalling(call, code, runner);
  } catch (error) {
    await reportState(signal.aborted ? 'stopped' : 'done');
    throw error;
  }
  await reportState(signal.aborted ? 'stopped' : 'done');
  const { ran, installed } = run;
  await onEvent({ type: 'ran', call, status: ran.status, durationMs: ran.durationMs, files: ran.files });
  if (signal.aborted) return resultOf('The reader stopped it. Variables are kept.');
  const fault = ran.error === null && ran.status !== 'ok' ? ran.status : null;
  const result = await describe(call, run, runner);
  if (installed !== undefined) return { ...resultOf(result), wasInstalling: true };
  return { ...resultOf(result), error: ran.error, fault };
};

type FileTask = Exclude<Task, RunCode>;

/**
 * Describes a change of the box as code, for approval: an installer runs the packages' code, and a file may be a
 * module.
 */
const asCode = (task: FileTask): Code | undefined => {
  if (task.name === 'install_packages') {
    const { manager, packages } = task.arguments;
    return { language: 'bash', code: `${manager} install ${packages.join(' ')}` };
  }
  if (task.name !== 'write_file') return undefined;
  const { path, content } = task.arguments;
  return { language: 'text', code: `Write /mnt/data/${path}:\n\n${content}` };
};

const useTool = async (call: string, task: FileTask, runner: Runner): Promise<Done> => {
  const code = runner.approve && asCode(task);
  const declined = code && (await askReader(call, code, runner));
  if (declined !== undefined) return resultOf(declined);
  const { reportState } = code ? reporting(call, code, runner) : { reportState: (_: CodeState) => {} };
  await reportState('running');
  const result = await handleFiles(task, runner).finally(() => reportState(runner.signal.aborted ? 'stopped' : 'done'));
  await runner.onEvent({ type: 'tool', call, name: task.name, arguments: task.arguments, result, ok: true });
  return resultOf(result);
};

const handleFiles = async (task: FileTask, { workspace, limits, signal }: Runner): Promise<string> => {
  switch (task.name) {
    case 'install_packages': {
      const { ok, text } = await workspace.install(task.arguments.packages, task.arguments.manager, signal);
      if (!ok)
        throw new CodeBoxError(
          'conflict',
          `They could not be installed: ${headAndTail(text, limits.outputCharacters)}`,
        );
      return text;
    }
    case 'list_files': {
      const entries = await workspace.list(task.arguments.path, signal);
      const lines = entries.map(({ path, type, sizeBytes }) =>
        type === 'file' ? `${path} (${sizeBytes} bytes)` : `${path}/`,
      );
      return lines.join('\n') || 'It is empty.';
    }
    case 'read_file': {
      const { text, isWhole, sizeBytes } = await workspace.read(task.arguments.path, limits.outputCharacters, signal);
      return isWhole
        ? text || 'It is empty.'
        : `${text}\n[… the first part of ${sizeBytes} bytes: read more with code …]`;
    }
    case 'write_file':
      await workspace.write(task.arguments.path, task.arguments.content, signal);
      return `Written: /mnt/data/${task.arguments.path}`;
  }
};

/** Carries out a task. Rejects when the box cannot be used at all, or when the task was stopped before it began. */
export const carryOut = async (call: string, task: Task, runner: Runner): Promise<Done> => {
  try {
    if (task.name === 'run_code') return await runCode(call, task, runner);
    return await useTool(call, task, runner);
  } catch (error) {
    if (runner.signal.aborted || !isRecoverable(error)) throw error;
    const details = error.errors.map(({ detail }) => detail);
    const result = [error.message, ...details].join(' ');
    if (task.name !== 'run_code')
      await runner.onEvent({ type: 'tool', call, name: task.name, arguments: task.arguments, result, ok: false });
    return { ...resultOf(`It failed: ${result}`), fault: result };
  }
};
