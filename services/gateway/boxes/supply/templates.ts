import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';
import {
  CodeBoxError,
  defaultTemplate,
  fullTemplate,
  type Limits,
  languageNameSchema,
  limitsSchema,
  networkPolicySchema,
} from '#contract';
import { ConfigurationError } from '../../../configuration-error.ts';
import { type Gpus, wholeGpu } from '../../drivers/driver.ts';
import { findLanguage } from './languages.ts';

/** Every image has this language. */
export const defaultLanguage = 'python';

const programSchema = z.strictObject({ file: z.string().min(1), argv: z.array(z.string()).min(1) });

/** The command line of a program, and the name of its main file when a request has only code. */
export type Program = z.infer<typeof programSchema>;

const defaultPrograms: Record<string, Program> = {
  python: { file: 'main.py', argv: ['python3'] },
  javascript: { file: 'main.mjs', argv: ['node'] },
  typescript: {
    file: 'main.mts',
    argv: ['node', '--experimental-transform-types', '--disable-warning=ExperimentalWarning'],
  },
  bash: { file: 'main.sh', argv: ['bash'] },
};

/** A number of whole GPUs, or how many of which kind. */
const gpusSchema = z.preprocess(
  (given) => (typeof given === 'number' ? { count: given } : given),
  z.strictObject({
    count: z.int().min(1).max(64).default(1),
    kind: z
      .string()
      .regex(/^[a-z0-9.-]{1,100}\/[A-Za-z0-9._-]{1,63}$/, 'must be the name of a resource such as nvidia.com/gpu')
      .default(wholeGpu),
  }),
);

const templateSchema = z.strictObject({
  image: z.string().min(1).optional(),
  language: languageNameSchema.default(defaultLanguage),
  programs: z.record(languageNameSchema, programSchema).default({}),
  limits: limitsSchema.partial().default({}),
  maxLimits: limitsSchema.partial().default({}),
  network: networkPolicySchema.default('none'),
  idleSeconds: z.int().min(1).default(900),
  maxLifetimeSeconds: z.int().min(1).default(86_400),
  warm: z.int().min(0).max(1000).default(0),
  parent: z.boolean().default(true),
  gpus: gpusSchema.optional(),
  placement: z.record(z.string(), z.unknown()).optional(),
});

/** The keys of a template in a file. */
export const templateFields: readonly string[] = Object.keys(templateSchema.shape);

const templatesSchema = z.record(z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/), templateSchema);

/** The saved files and environment of a box. */
export interface Archive {
  box: string;
  blob: string;
}

/** Settings that boxes are created from. */
export interface Template {
  /** Identifies its pool: its name, or for one that a tenant has built the id of its row. */
  id: string;
  name: string;
  /** For one that was built: the configured template below it, the number of its version, and the blob with its files. */
  base?: string;
  version?: number;
  archive?: Archive;
  image: string;
  /** Whether the image differs from that of the built-in template. */
  hasOwnImage: boolean;
  /** The language of code that names none. */
  language: string;
  /** By language. A language without an entry runs only in a kernel. */
  programs: Record<string, Program>;
  limits: Limits;
  maxLimits: Limits;
  network: 'none' | 'internet';
  idleSeconds: number;
  maxLifetimeSeconds: number;
  /** The number of warm instances to keep. */
  warm: number;
  /** Whether its box servers may be forked from a process that other boxes are forked from. */
  parent: boolean;
  /** Where its boxes run, in the terms of the driver. */
  placement?: Record<string, unknown> | undefined;
  gpus?: Gpus | undefined;
}

const defaultLimits: Limits = { cpus: 1, memoryMb: 1024, diskMb: 1024, pids: 256 };
const defaultMaxLimits: Limits = { cpus: 4, memoryMb: 8192, diskMb: 16_384, pids: 4096 };

const readYaml = (file: string): unknown => {
  try {
    return parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new ConfigurationError(
      `The templates in ${file} cannot be read: ${error instanceof Error ? error.message : error}`,
    );
  }
};

export interface TemplatesOptions {
  templatesFile: string | undefined;
  boxImage: string;
  fullImage: string | undefined;
  /** The number of warm instances of each built-in template. */
  warmBoxes: number;
}

/**
 * Reads the templates of a YAML file (name → image, limits, …), or returns the built-in ones: `python`, and `full` if there is an
 * image for it. Throws a ConfigurationError that names the file, and the field that is wrong.
 */
export const readTemplates = (options: TemplatesOptions): Map<string, Template> => {
  const { templatesFile: file, boxImage: image, fullImage, warmBoxes: warm } = options;
  const full = fullImage === undefined ? {} : { [fullTemplate]: { image: fullImage, warm } };
  const source = file === undefined ? { [defaultTemplate]: { warm }, ...full } : readYaml(file);
  const parsed = templatesSchema.safeParse(source);
  if (!parsed.success)
    throw new ConfigurationError(`The templates in ${file} are wrong: ${z.prettifyError(parsed.error)}`);
  return new Map(
    Object.entries(parsed.data).map(([name, template]) => [
      name,
      {
        ...template,
        id: name,
        name,
        image: template.image ?? image,
        hasOwnImage: template.image !== undefined && template.image !== image,
        programs: { ...defaultPrograms, ...template.programs },
        limits: complete(template.limits, defaultLimits),
        maxLimits: complete(template.maxLimits, defaultMaxLimits),
      },
    ]),
  );
};

const complete = (given: { [K in keyof Limits]?: Limits[K] | undefined }, fallback: Limits): Limits => ({
  cpus: given.cpus ?? fallback.cpus,
  memoryMb: given.memoryMb ?? fallback.memoryMb,
  diskMb: given.diskMb ?? fallback.diskMb,
  pids: given.pids ?? fallback.pids,
  ...cpuBudget(given.cpuSeconds ?? fallback.cpuSeconds),
});

/** Leaves out a budget that is not set. */
const cpuBudget = (cpuSeconds: number | undefined) => (cpuSeconds === undefined ? {} : { cpuSeconds });

/** Returns the name of the configured template whose image a template has. */
export const baseOf = ({ base, name }: Pick<Template, 'base' | 'name'>): string => base ?? name;

/** Returns how a program in a language is run. Throws `invalid_request` for a language without programs. */
export const programOf = ({ name, language, programs }: Template, requested = language): Program => {
  const names = Object.keys(programs);
  const program = programs[findLanguage(names, requested) ?? ''];
  if (program) return program;
  const detail = `must be one of ${names.join(', ')} for a program; leave out files, stdin and args to run code`;
  throw new CodeBoxError('invalid_request', `Template ${name} runs no programs in ${requested}.`, {
    errors: [{ pointer: '/language', detail }],
  });
};

/** Returns the limits of a new box. Throws `invalid_request`, which names each limit above the maximum of the template. */
export const resolveLimits = (template: Template, requested: Parameters<typeof complete>[0] = {}): Limits => {
  const { maxLimits } = template;
  // A budget with a maximum applies also when the request names none.
  const limits = complete(requested, {
    ...template.limits,
    ...cpuBudget(template.limits.cpuSeconds ?? maxLimits.cpuSeconds),
  });
  const errors = (Object.keys(limits) as (keyof Limits)[])
    .filter((name) => (limits[name] ?? 0) > (maxLimits[name] ?? Number.POSITIVE_INFINITY))
    .map((name) => ({ pointer: `/limits/${name}`, detail: `must be at most ${maxLimits[name]}` }));
  if (errors.length > 0) {
    throw new CodeBoxError('invalid_request', `Limits exceed those that template ${template.name} allows.`, { errors });
  }
  return limits;
};
