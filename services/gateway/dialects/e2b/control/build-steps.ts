import { posix } from 'node:path';
import { z } from 'zod';
import { type Environment, environmentSchema, plainText } from '#contract';
import { faulty } from '../../../../http/faults/fault.ts';
import type { PlannedCommand } from '../../../boxes/builds/builder.ts';
import { environmentIn, home, toBoxPath, toSandboxPath } from '../paths.ts';
import { archivePath } from './build-context.ts';

/** How many steps a build has: each is a command of a build, and one cleans up after them. */
const maxSteps = 49;

const stepSchema = z.object({
  type: z.enum(['RUN', 'COPY', 'WORKDIR', 'USER', 'ENV'], { error: 'must be RUN, COPY, WORKDIR, USER or ENV' }),
  args: z.array(plainText().max(32_768)).max(257).default([]),
  filesHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in hexadecimal digits')
    .optional(),
});

export const stepsSchema = z.array(stepSchema).max(maxSteps).default([]);

type Step = z.output<typeof stepSchema>;

/** What the steps of a template are for a build: one command for each step, so that the number of a command is that of its step. */
export interface Steps {
  commands: PlannedCommand[];
  env: Record<string, string>;
  /** The hashes of the files that they need. */
  hashes: string[];
}

/**
 * Places what was matched by the pattern $3 in the archive $1 at $2: the contents of folders into $2, and several files, or one for a path
 * that is a folder or ends with a slash, into the folder $2. $4 is their mode.
 */
const copyScript = `set -e; shopt -s nullglob dotglob globstar
to=$2 mode=$4
work=$(mktemp -d -p /mnt/data/.e2b-build); trap 'rm -rf -- "$work"' EXIT
tar -xf "$1" -C "$work" --no-same-owner; cd -- "$work"
IFS=; found=( $3 ); unset IFS
[ \${#found[@]} -gt 0 ] || { echo "Nothing matches $3." >&2; exit 1; }
[ -n "$mode" ] && chmod -R -- "$mode" "\${found[@]}"
if [ \${#found[@]} -gt 1 ] || [ -d "\${found[0]}" ] || [ -d "$to" ] || [[ $to == */ ]]; then mkdir -p -- "$to"; else mkdir -p -- "$(dirname -- "$to")"; fi
for each in "\${found[@]}"; do if [ -d "$each" ]; then cp -a -- "$each/." "$to"; else cp -a -- "$each" "$to"; fi; done`;

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const isKept = (path: string): boolean => !toBoxPath(path).startsWith('/') || /^\/mnt(?:\/|$)/.test(path);

const refusal = (index: number, detail: string) => faulty([{ pointer: `/steps/${index}`, detail }]);

/** Adds variables, whose names and values take turns. Throws `invalid_request` for what no box can have. */
const withVariables = (env: Environment, args: readonly string[], index: number): Environment => {
  const added: [string, string][] = [];
  for (let at = 0; at + 1 < args.length; at += 2) added.push([args[at] ?? '', args[at + 1] ?? '']);
  const { data, error } = environmentSchema.safeParse({ ...env, ...Object.fromEntries(added) });
  if (data) return data;
  const { path = [], message = '' } = error.issues[0] ?? {};
  throw refusal(index, `sets ${path.length > 0 ? JSON.stringify(path[0]) : 'variables'}, which ${message}`);
};

/** Converts the steps of a template. Throws `invalid_request` for a place that a template does not keep, and for missing arguments. */
export const toSteps = (steps: readonly Step[]): Steps => {
  let env: Environment = {};
  const hashes = new Set<string>();
  let folder = home;
  /** The path that a step names, from the folder that is the current one then. */
  const placeOf = (text: string, index: number): string => {
    const path = toSandboxPath(toBoxPath(posix.resolve(folder, text.replace(/^~(?=\/|$)/, home))));
    if (!isKept(path)) throw refusal(index, `names ${path}, but a template keeps only what is below ${home}`);
    return path;
  };
  const toCommand = ({ type, args, filesHash }: Step, index: number) => {
    const [first = '', second = '', , mode = ''] = args;
    if (first === '' && type !== 'ENV') throw refusal(index, 'has no arguments');
    if (type === 'RUN') return { command: first, shown: first };
    if (type === 'WORKDIR') {
      folder = placeOf(first, index);
      return { command: `mkdir -p -- ${quote(folder)}`, shown: `WORKDIR ${folder}` };
    }
    if (type === 'COPY') {
      if (filesHash === undefined) throw refusal(index, 'has no filesHash');
      hashes.add(filesHash);
      const to = placeOf(second || '.', index) + (second.endsWith('/') ? '/' : '');
      const archive = `/mnt/data/${archivePath(filesHash)}`;
      const named = [archive, to, first.replace(/^\.\//, ''), mode].map(quote).join(' ');
      return { command: `set -- ${named}\n${copyScript}`, shown: `COPY ${first} ${second}` };
    }
    if (type === 'USER') return { command: ':', shown: `USER ${first} (without effect: a box has one user)` };
    env = withVariables(env, args, index);
    return { command: ':', shown: `ENV ${args.filter((_, at) => at % 2 === 0).join(' ')}` };
  };
  const commands = steps.map((step, index): PlannedCommand => {
    const cwd = folder;
    return { ...toCommand(step, index), cwd: toBoxPath(cwd), env: environmentIn(toBoxPath(cwd)) };
  });
  const cleanUp = { command: 'rm -rf -- /mnt/data/.e2b-build', shown: 'remove the received files' };
  return { commands: hashes.size > 0 ? [...commands, cleanUp] : commands, env, hashes: [...hashes] };
};
