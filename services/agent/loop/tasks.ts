import { CodeBoxError } from '#contract';
import type { Conversation } from './conversation.ts';
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
  /** Whether a package that the code lacked was installed after part of it had run: no mistake, and not to be run again. */
  wasInstalling: boolean;
}

const told = (result: string): Done => ({ result, error: null, fault: null, wasInstalling: false });

type Runner = Pick<Conversation, 'workspace' | 'onEvent' | 'approve' | 'limits' | 'signal'>;

const outputFolder = '.codebox/outputs';

const fileNameOf = (call: string): string => `${outputFolder}/${call.replace(/[^\w.-]/g, '_').slice(0, 100)}.txt`;

const tell = async (call: string, { ran, installed }: Run, { workspace, limits, signal }: Runner): Promise<string> => {
  const isLong = withoutAnsi(ran.text).trimEnd().length > limits.outputCharacters;
  const savedAs = isLong ? fileNameOf(call) : undefined;
  const isSaved = savedAs !== undefined && (await save(savedAs, ran.text, workspace, signal));
  return tellRan(ran, { budget: limits.outputCharacters, savedAs: isSaved ? savedAs : undefined, installed });
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

interface Run {
  ran: Ran;
  /** What was installed because the code lacked it, in words. */
  installed: string | undefined;
}

/**
 * Runs the code. The gateway installs what it lacks and runs it again while nothing but imports has run; what is missed later is
 * installed here, and the code is left to the model: what stands before the import has run, and must not run twice.
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
  if (hint === undefined || wasInstalling || signal.aborted) return { ran, installed: undefined };
  const { ok, text } = await workspace.install([hint.package], hint.manager, signal);
  if (!ok) return { ran, installed: undefined };
  await onEvent({ type: 'notice', kind: 'installed', text });
  return { ran, installed: text };
};

type CodeState = 'waiting' | 'running' | 'declined' | 'stopped' | 'done';
type Code = { language: string; code: string };

const telling = (call: string, code: Code, { onEvent }: Runner) => ({
  tell: (state: CodeState) => onEvent({ type: 'code', call, ...code, state }),
});

/** Waits for the reader where nothing is to happen unasked. Answers what the model is told when it is declined. */
const askReader = async (call: string, code: Code, runner: Runner): Promise<string | undefined> => {
  const { approve, signal } = runner;
  if (!approve) return undefined;
  const { tell: tellState } = telling(call, code, runner);
  await tellState('waiting');
  const { approved, reason } = await approve(call, signal).catch(async (error: unknown) => {
    await tellState('stopped');
    throw error;
  });
  if (approved) return undefined;
  await tellState('declined');
  return `The reader declined this${reason ? `: ${reason}` : '.'}\nDo not do it in other words: ask, or do it differently.`;
};

const runCode = async (call: string, { arguments: given }: RunCode, runner: Runner): Promise<Done> => {
  const { onEvent, signal } = runner;
  const code = { code: given.code, language: given.language ?? '' };
  const { tell: tellState } = telling(call, code, runner);
  const declined = await askReader(call, code, runner);
  if (declined !== undefined) return told(declined);
  await tellState('running');
  let run: Run;
  try {
    run = await runInstalling(call, code, runner);
  } catch (error) {
    await tellState(signal.aborted ? 'stopped' : 'done');
    throw error;
  }
  await tellState(signal.aborted ? 'stopped' : 'done');
  const { ran, installed } = run;
  await onEvent({ type: 'ran', call, status: ran.status, durationMs: ran.durationMs, files: ran.files });
  if (signal.aborted) return told('The reader stopped it. Variables are kept.');
  const fault = ran.error === null && ran.status !== 'ok' ? ran.status : null;
  const result = await tell(call, run, runner);
  if (installed !== undefined) return { ...told(result), wasInstalling: true };
  return { ...told(result), error: ran.error, fault };
};

type FileTask = Exclude<Task, RunCode>;

/** What changes the box as code would, in the words of code: an installer runs what it installs, a file may be a module. */
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
  if (declined !== undefined) return told(declined);
  const { tell: tellState } = code ? telling(call, code, runner) : { tell: (_: CodeState) => {} };
  await tellState('running');
  const result = await handleFiles(task, runner).finally(() => tellState(runner.signal.aborted ? 'stopped' : 'done'));
  await runner.onEvent({ type: 'tool', call, name: task.name, arguments: task.arguments, result, ok: true });
  return told(result);
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

/** Carries a task out. Rejects when the box cannot be used at all, or was told to stop before the task has begun. */
export const carryOut = async (call: string, task: Task, runner: Runner): Promise<Done> => {
  try {
    if (task.name === 'run_code') return await runCode(call, task, runner);
    return await useTool(call, task, runner);
  } catch (error) {
    if (runner.signal.aborted || !isMendable(error)) throw error;
    const details = error.errors.map(({ detail }) => detail);
    const result = [error.message, ...details].join(' ');
    if (task.name !== 'run_code')
      await runner.onEvent({ type: 'tool', call, name: task.name, arguments: task.arguments, result, ok: false });
    return { ...told(`It failed: ${result}`), fault: result };
  }
};
