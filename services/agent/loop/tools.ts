import { z } from 'zod';
import type { ToolCall, ToolSpec } from '../models/model.ts';
import { readArguments } from './arguments.ts';
import type { Facts } from './workspace.ts';

const path = z.string().max(4096).describe('Relative to /mnt/data.');
const packages = z.union([
  z
    .string()
    .min(1)
    .transform((name) => [name]),
  z.array(z.string().min(1)).min(1).max(50),
]);

const schemas = {
  run_code: z.object({ code: z.string().min(1).max(1_048_576), language: z.string().optional() }),
  install_packages: z.object({ packages, manager: z.enum(['pip', 'npm']).default('pip') }),
  list_files: z.object({ path: path.default('') }),
  read_file: z.object({ path: path.min(1) }),
  write_file: z.object({ path: path.min(1), content: z.string() }),
};

type ToolName = keyof typeof schemas;

/** A call with valid arguments. */
export type Task = { [N in ToolName]: { name: N; arguments: z.output<(typeof schemas)[N]> } }[ToolName];

export type RunCode = Extract<Task, { name: 'run_code' }>;

/** The parameter that bare text is meant for. */
const rawNames: Partial<Record<ToolName, string>> = {
  run_code: 'code',
  install_packages: 'packages',
  read_file: 'path',
};

/** Names that models use for the same tools, with the language that each implies. */
const aliases = new Map<string, { name: ToolName; language?: string }>(
  Object.entries({
    execute_code: { name: 'run_code' },
    code_interpreter: { name: 'run_code' },
    exec_code: { name: 'run_code' },
    execute: { name: 'run_code' },
    python: { name: 'run_code', language: 'python' },
    python_exec: { name: 'run_code', language: 'python' },
    run_python: { name: 'run_code', language: 'python' },
    ipython: { name: 'run_code', language: 'python' },
    javascript: { name: 'run_code', language: 'javascript' },
    typescript: { name: 'run_code', language: 'typescript' },
    bash: { name: 'run_code', language: 'bash' },
    shell: { name: 'run_code', language: 'bash' },
    run_bash: { name: 'run_code', language: 'bash' },
    install: { name: 'install_packages' },
    install_package: { name: 'install_packages' },
    pip_install: { name: 'install_packages' },
    list_dir: { name: 'list_files' },
    ls: { name: 'list_files' },
    open_file: { name: 'read_file' },
    create_file: { name: 'write_file' },
  } satisfies Record<string, { name: ToolName; language?: string }>),
);

const argumentAliases = new Map(
  Object.entries({
    command: 'code',
    cmd: 'code',
    script: 'code',
    source: 'code',
    input: 'code',
    lang: 'language',
    package: 'packages',
    package_name: 'packages',
    file: 'path',
    filename: 'path',
    file_path: 'path',
    text: 'content',
  }),
);

const languageAliases = new Map(
  Object.entries({
    py: 'python',
    python3: 'python',
    ipython: 'python',
    js: 'javascript',
    node: 'javascript',
    ts: 'typescript',
    sh: 'bash',
    shell: 'bash',
  }),
);

/** The language that a name means, if the box has it. */
const languageOf = (name: string, languages: readonly string[]): string | undefined => {
  const wanted = name.trim().toLowerCase();
  return [wanted, languageAliases.get(wanted)].find((known) => known !== undefined && languages.includes(known));
};

const jsonSchema = (schema: z.ZodType): Record<string, unknown> => {
  const { $schema, ...parameters } = z.toJSONSchema(schema, { io: 'input' });
  return parameters;
};

/** The tools of a box, according to what it can do. */
export const toolsOf = ({ languages, hasNetwork, executionSeconds }: Facts): ToolSpec[] => [
  {
    name: 'run_code',
    description:
      'Runs code in the computer of this chat and returns what it printed, its last value, its error and the files that it created. ' +
      'Variables, imports and files stay for the next call of the same language. Figures are shown to the reader by themselves. ' +
      `A run may take ${executionSeconds} seconds.`,
    parameters: jsonSchema(
      z.object({
        language: z.enum(languages).describe(`Default: ${languages[0]}.`).optional(),
        code: z.string().describe('The whole code to run, plain, without Markdown fences.'),
      }),
    ),
  },
  {
    name: 'install_packages',
    description: `Installs packages into the computer. Missing modules are installed by themselves when code imports them.${
      hasNetwork ? '' : ' The computer has no network, so this works for few packages or none.'
    }`,
    parameters: jsonSchema(
      z.object({
        packages: z.array(z.string()).describe('Such as ["cowsay", "pandas>=2"].'),
        manager: z.enum(['pip', 'npm']).optional(),
      }),
    ),
  },
  {
    name: 'list_files',
    description: 'Lists a folder below /mnt/data.',
    parameters: jsonSchema(z.object({ path: path.optional() })),
  },
  { name: 'read_file', description: 'Reads the start of a text file.', parameters: jsonSchema(z.object({ path })) },
  {
    name: 'write_file',
    description: 'Writes a text file, whole.',
    parameters: jsonSchema(z.object({ path, content: z.string() })),
  },
];

const isToolName = (name: string): name is ToolName => Object.hasOwn(schemas, name);

const rename = (value: unknown, schema: z.ZodObject): unknown => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const renamed = Object.entries(value).map(([name, one]) => {
    const known = argumentAliases.get(name);
    return known !== undefined && known in schema.shape && !(known in value) ? [known, one] : [name, one];
  });
  return Object.fromEntries(renamed);
};

/** Reads a call with the names and languages of this box; returns a fault that the model can correct. */
export const readTask = (
  { name: called, arguments: text }: ToolCall,
  languages: readonly string[],
): { task: Task; isRepaired: boolean } | { fault: string } => {
  const plain = called.trim().replace(/^(functions|tools)\./, '');
  const alias = aliases.get(plain.toLowerCase());
  const name = isToolName(plain) ? plain : alias?.name;
  if (name === undefined)
    return { fault: `There is no tool ${plain.slice(0, 100)}: use ${Object.keys(schemas).join(', ')}.` };
  const schema = schemas[name];
  const read = readArguments(
    z.preprocess((value) => rename(value, schema), schema),
    text,
    rawNames[name],
  );
  if ('fault' in read) return { fault: `The arguments of ${name} cannot be read. ${read.fault}` };
  const task = { name, arguments: read.value } as Task;
  if (task.name !== 'run_code') return { task, isRepaired: read.isRepaired };
  const wanted = task.arguments.language ?? alias?.language ?? languages[0] ?? '';
  const language = languageOf(wanted, languages);
  if (language === undefined)
    return { fault: `The computer does not run ${wanted.slice(0, 32)}: use ${languages.join(', ')}.` };
  return { task: { name: 'run_code', arguments: { ...task.arguments, language } }, isRepaired: read.isRepaired };
};
