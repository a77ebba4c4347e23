import { CodeBoxError } from '#contract';
import type { Conversation } from './converse.ts';
import { headAndTail, tellRan, withoutAnsi } from './outputs.ts';
import type { RunCode, Task } from './tools.ts';
import type { Ran } from './workspace.ts';

/** What the gateway refuses for a reason that a model can do something about. */
const mendable = new Set<string>([
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

const isMendable = (error: unknown): error is CodeBoxError => error instanceof CodeBoxError && mendable.has(error.code);

/** A task as it went: what the model is told, and the error of its code if there was one. */
export interface Done {
  result: string;
  error: Ran['error'];
  /** What went wrong without an error of code: the box refused it, or ended it. */
  fault: string | null;
}

type Runner = Pick<Conversation, 'workspace' | 'onEvent' | 'approve' | 'limits' | 'signal'>;

const outputFolder = '.codebox/outputs';

const fileNameOf = (call: string): string => `${outputFolder}/${call.replace(/[^\w.-]/g, '_').slice(0, 100)}.txt`;

const tell = async (call: string, ran: Ran, { workspace, limits, signal }: Runner): Promise<string> => {
  const isLong = withoutAnsi(ran.text).trimEnd().length > limits.outputCharacters;
  const savedAs = isLong ? fileNameOf(call) : undefined;
  const isSaved = savedAs !== undefined && (await save(savedAs, ran.text, workspace, signal));
  return tellRan(ran, { budget: limits.outputCharacters, savedAs: isSaved ? savedAs : undefined });
};

/** Whether it could be saved: a full disk is no reason to tell the model nothing. */
const save = (path: string, text: string, workspace: Runner['workspace'], signal: AbortSignal): Promise<boolean> =>
  workspace.write(path, text.toWellFormed(), signal).then(
    () => true,
    (error: unknown) => {
      if (isMendable(error)) return false;
      throw error;
    },
  );

/** Runs the code, and once more when all that it lacked was a package that could be installed. */
const runInstalling = async (
  call: string,
  code: RunCode['arguments'] & { language: string },
  runner: Runner,
): Promise<Ran> => {
  const { workspace, onEvent, signal } = runner;
  let wasInstalling = false;
  const run = () =>
    workspace.run(
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
  const ran = await run();
  const hint = ran.error?.hint;
  if (hint === undefined || wasInstalling || signal.aborted) return ran;
  const { ok, text } = await workspace.install([hint.package], hint.manager, signal);
  if (!ok) return ran;
  await onEvent({ type: 'notice', kind: 'installed', text });
  return await run();
};

const runCode = async (call: string, { arguments: given }: RunCode, runner: Runner): Promise<Done> => {
  const { onEvent, approve, signal } = runner;
  const code = { code: given.code, language: given.language ?? '' };
  const tellState = (state: 'waiting' | 'running' | 'declined' | 'stopped' | 'done') =>
    onEvent({ type: 'code', call, ...code, state });
  if (approve) {
    await tellState('waiting');
    const { approved, reason } = await approve(call, signal).catch(async (error: unknown) => {
      await tellState('stopped');
      throw error;
    });
    if (!approved) {
      await tellState('declined');
      const result = `The reader declined to run this code${reason ? `: ${reason}` : '.'}\nDo not run it in other words: ask, or do it differently.`;
      return { result, error: null, fault: null };
    }
  }
  await tellState('running');
  let ran: Ran;
  try {
    ran = await runInstalling(call, code, runner);
  } catch (error) {
    await tellState(signal.aborted ? 'stopped' : 'done');
    throw error;
  }
  await tellState(signal.aborted ? 'stopped' : 'done');
  await onEvent({ type: 'ran', call, status: ran.status, durationMs: ran.durationMs, files: ran.files });
  if (signal.aborted) return { result: 'The reader stopped it. Variables are kept.', error: null, fault: null };
  const fault = ran.error === null && ran.status !== 'ok' ? ran.status : null;
  return { result: await tell(call, ran, runner), error: ran.error, fault };
};

const handleFiles = async (task: Exclude<Task, RunCode>, { workspace, limits, signal }: Runner): Promise<string> => {
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

/** Carries a task out. Rejects when the box cannot be used at all, or was told to stop before the task has begun. */
export const carryOut = async (call: string, task: Task, runner: Runner): Promise<Done> => {
  try {
    if (task.name === 'run_code') return await runCode(call, task, runner);
    const result = await handleFiles(task, runner);
    await runner.onEvent({ type: 'tool', call, name: task.name, arguments: task.arguments, result, ok: true });
    return { result, error: null, fault: null };
  } catch (error) {
    if (runner.signal.aborted || !isMendable(error)) throw error;
    const details = error.errors.map(({ detail }) => detail);
    const result = [error.message, ...details].join(' ');
    if (task.name !== 'run_code')
      await runner.onEvent({ type: 'tool', call, name: task.name, arguments: task.arguments, result, ok: false });
    return { result: `It failed: ${result}`, error: null, fault: result };
  }
};
