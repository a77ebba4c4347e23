import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';
import { CodeBoxError, type Limits, languageNameSchema, limitsSchema, networkPolicySchema } from '#contract';
import { ConfigurationError } from '../../../configuration-error.ts';
import { didYouMean, nearest } from '../../../suggestions/nearest.ts';

const programSchema = z.strictObject({ file: z.string().min(1), argv: z.array(z.string()).min(1) });

/** How the main file of a program is run, and what it is called when only its code was given. */
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

const templateSchema = z.strictObject({
  image: z.string().min(1).optional(),
  languages: z.array(languageNameSchema).min(1).default(['python', 'javascript', 'typescript', 'bash']),
  programs: z.record(languageNameSchema, programSchema).default({}),
  limits: limitsSchema.partial().default({}),
  maxLimits: limitsSchema.partial().default({}),
  network: networkPolicySchema.default('none'),
  idleSeconds: z.int().min(1).default(900),
  maxLifetimeSeconds: z.int().min(1).default(86_400),
  warm: z.int().min(0).max(1000).default(0),
});

/** The keys of a template in a file. */
export const templateFields: readonly string[] = Object.keys(templateSchema.shape);

const templatesSchema = z.record(z.string().regex(/^[a-z0-9][a-z0-9-]{0,62}$/), templateSchema);

/** What a box is made from. */
export interface Template {
  name: string;
  image: string;
  /** Whether the image is another one than that of the built-in template. */
  hasOwnImage: boolean;
  /** The first one is the default. */
  languages: string[];
  /** By language; one without runs in a kernel only. */
  programs: Record<string, Program>;
  limits: Limits;
  maxLimits: Limits;
  network: 'none' | 'internet';
  idleSeconds: number;
  maxLifetimeSeconds: number;
  /** How many warm instances are kept. */
  warm: number;
}

export const defaultTemplate = 'python';
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

/**
 * The templates of a YAML file (name → image, languages, limits, …), or the built-in `python`, which keeps `warm` instances.
 * Throws a ConfigurationError that names the file, and the field when that is wrong.
 */
export const readTemplates = (file: string | undefined, image: string, warm: number): Map<string, Template> => {
  const source = file === undefined ? { [defaultTemplate]: { warm } } : readYaml(file);
  const parsed = templatesSchema.safeParse(source);
  if (!parsed.success)
    throw new ConfigurationError(`The templates in ${file} are wrong: ${z.prettifyError(parsed.error)}`);
  return new Map(
    Object.entries(parsed.data).map(([name, template]) => [
      name,
      {
        ...template,
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

/** A template without a budget sets none. */
const cpuBudget = (cpuSeconds: number | undefined) => (cpuSeconds === undefined ? {} : { cpuSeconds });

/** Other names that a language is asked for by. */
const languageAliases = new Map([
  ['py', 'python'],
  ['python3', 'python'],
  ['ipython', 'python'],
  ['js', 'javascript'],
  ['node', 'javascript'],
  ['nodejs', 'javascript'],
  ['ts', 'typescript'],
  ['sh', 'bash'],
  ['shell', 'bash'],
]);

/**
 * The language that is meant, by its name or a usual other one; the first one when none was named. `invalid_request` for one that
 * is not among them.
 */
export const resolveLanguage = (languages: string[], asked: string | undefined): string => {
  const language = asked ?? languages[0] ?? '';
  if (languages.includes(language)) return language;
  const alias = languageAliases.get(language);
  if (alias !== undefined && languages.includes(alias)) return alias;
  const meant = didYouMean(nearest(language, languages));
  const detail = `is not a language of this box; it has ${languages.join(', ')}${meant}`;
  throw new CodeBoxError('invalid_request', 'The box does not have this language.', {
    errors: [{ pointer: '/language', detail }],
  });
};

/** How a program in a language is run; `invalid_request` for a language that has no programs. */
export const programOf = (template: Template, language: string): Program => {
  const program = template.programs[resolveLanguage(template.languages, language)];
  if (program) return program;
  const detail = 'runs as code only; leave out files, stdin and args';
  throw new CodeBoxError('invalid_request', `Template ${template.name} runs no programs in this language.`, {
    errors: [{ pointer: '/language', detail }],
  });
};

/** The limits of a new box; `invalid_request` names each one that is over what the template allows. */
export const resolveLimits = (template: Template, asked: Parameters<typeof complete>[0] = {}): Limits => {
  const { maxLimits } = template;
  // Asked for or not: what has a maximum has a limit.
  const limits = complete(asked, {
    ...template.limits,
    ...cpuBudget(template.limits.cpuSeconds ?? maxLimits.cpuSeconds),
  });
  const errors = (Object.keys(limits) as (keyof Limits)[])
    .filter((name) => (limits[name] ?? 0) > (maxLimits[name] ?? Number.POSITIVE_INFINITY))
    .map((name) => ({ pointer: `/limits/${name}`, detail: `must be at most ${maxLimits[name]}` }));
  if (errors.length > 0) {
    throw new CodeBoxError('invalid_request', `Limits are over what template ${template.name} allows.`, { errors });
  }
  return limits;
};
