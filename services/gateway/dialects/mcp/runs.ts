import type { CallToolResult, ServerContext } from '@modelcontextprotocol/server';
import { z } from 'zod';
import {
  CodeBoxError,
  codeSchema,
  languageNameSchema,
  packageSpecsSchema,
  plainText,
  timeoutSecondsSchema,
} from '#contract';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import { codeFields, commandFields, createOutcome, type RunEvent } from './outcome.ts';
import { createProgress } from './progress.ts';
import type { AddTool, Call } from './tool.ts';

interface Started {
  id: string;
  events: AsyncIterable<RunEvent> | undefined;
  stop: () => Promise<void>;
}

const timeoutSeconds = timeoutSecondsSchema.default(60).describe('The run is ended after this time.');
const output = { code: z.object(codeFields), command: z.object(commandFields) };
const input = {
  code: z.object({
    code: codeSchema.describe('The source code.'),
    language: languageNameSchema.optional().describe('Such as python, javascript, typescript or bash.'),
    timeoutSeconds,
  }),
  command: z.object({
    command: plainText().min(1).max(131_072).describe('The command line.'),
    cwd: plainText().max(4096).optional().describe('The folder to run in; by default /mnt/data.'),
    stdin: plainText().max(1_048_576).optional().describe('The input of the command.'),
    timeoutSeconds,
  }),
  packages: z.object({
    packages: packageSpecsSchema.describe('For example requests, or pandas[excel]>=2.'),
    manager: z.enum(['pip', 'npm']).default('pip'),
  }),
};

/** The tools that run something. */
export const addRunTools = (addTool: AddTool, call: Call, parts: RouteParts): void => {
  const { executions, commands, packages, catalog } = parts;
  const { network, language } = catalog.choose(undefined);
  const annotations = { readOnlyHint: false, destructiveHint: true, idempotentHint: false };
  const openWorldHint = network === 'internet';

  /** Follows a run to its end, and stops it when the call is canceled. */
  const follow = async (
    kind: 'code' | 'command',
    context: ServerContext,
    start: (ref: BoxRef) => Promise<Started>,
  ): Promise<CallToolResult> => {
    using cancelable = call.cancelable?.();
    const canceled = cancelable?.signal ?? context.mcpReq.signal;
    const ref = await call.open();
    if (canceled.aborted) throw new CodeBoxError('conflict', 'The call was canceled.');
    const { id, events, stop } = await start(ref);
    call.onRun({ kind, id });
    const onCanceled = () => {
      // The run may have ended just before.
      stop().catch((err: unknown) => call.log.info({ err }, 'could not stop a run'));
    };
    if (canceled.aborted) onCanceled();
    canceled.addEventListener('abort', onCanceled, { once: true });
    try {
      using progress = createProgress(context);
      const outcome = createOutcome(kind);
      for await (const event of events ?? []) {
        outcome.add(event);
        if (event.type === 'stdout' || event.type === 'stderr') progress.add(event.text);
        // No client can reply to `input()` here.
        if (event.type === 'input_request') onCanceled();
      }
      return outcome.toResult();
    } finally {
      canceled.removeEventListener('abort', onCanceled);
    }
  };

  const toStarted = (ref: BoxRef, { id, events }: { id: string; events?: AsyncIterable<RunEvent> | undefined }) => ({
    id,
    events,
    stop: () => commands.kill(ref, id),
  });

  addTool(
    {
      name: 'run_code',
      title: 'Run code',
      description: `Runs code in a kernel that keeps its variables from call to call, and returns its output, the value of its last expression, figures as images, and links to the files that it wrote. Use it for calculations, data analysis and plots. The default language is ${language}. input() is not supported.`,
      scope: 'run',
      input: input.code,
      output: output.code,
      annotations: { ...annotations, openWorldHint },
    },
    ({ code, language: chosen, timeoutSeconds: seconds }, context) =>
      follow('code', context, async (ref) => {
        const ask = { code, timeoutSeconds: seconds, ...(chosen !== undefined && { language: chosen }) };
        const { row, events } = await executions.start(ref, ask);
        return { id: row.id, events, stop: () => executions.interrupt(ref, row.id) };
      }),
  );

  addTool(
    {
      name: 'run_command',
      title: 'Run a command',
      description: `Runs a command line in bash, as a process of its own beside the kernels, and returns its output and exit code. Use it for command-line programs, scripts and archives.`,
      scope: 'run',
      input: input.command,
      output: output.command,
      annotations: { ...annotations, openWorldHint },
    },
    ({ command, cwd, stdin, timeoutSeconds: seconds }, context) =>
      follow('command', context, async (ref) => {
        const ask = { command, timeoutSeconds: seconds, ...(cwd && { cwd }), ...(stdin !== undefined && { stdin }) };
        return toStarted(ref, await commands.start(ref, ask));
      }),
  );

  addTool(
    {
      name: 'install_packages',
      title: 'Install packages',
      description: 'Installs packages for the code of this sandbox, for Python with pip or for JavaScript with npm.',
      scope: 'run',
      input: input.packages,
      output: output.command,
      annotations: { ...annotations, destructiveHint: false, idempotentHint: true, openWorldHint: true },
    },
    ({ packages: names, manager }, context) =>
      follow('command', context, async (ref) =>
        toStarted(ref, await packages.install(ref, { packages: names, manager })),
      ),
  );
};
