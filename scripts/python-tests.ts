import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { followCommand } from '../services/gateway/drivers/local/environment/follow-command.ts';
import { projectFolder } from './project.ts';
import { runShown, type Totals, type Unsteady } from './steps.ts';

const box = join(projectFolder, 'images/box');

/** Creates the Python environment of the box server's tests in `folder`, unless it exists for the same requirements. */
export const preparePython = async (
  folder: string,
  { python, log, signal }: { python: string; log: (line: string) => void; signal: AbortSignal },
): Promise<string> => {
  const venv = join(folder, 'python');
  // Compiled now: the tests run as another user, who cannot store bytecode, so every start would compile again.
  const install = ['pip', 'install', '-q', '--compile-bytecode'];
  const hash = createHash('sha256').update([python, ...install].join(' '));
  for (const name of ['requirements.txt', 'requirements-dev.txt', 'patch_packages.py']) {
    hash.update(await readFile(join(box, name)));
  }
  const stamp = hash.digest('hex');
  if ((await readFile(join(venv, '.stamp'), 'utf8').catch(() => '')) === stamp) return venv;
  log('Installing the requirements of the tests of the box server.');
  await rm(venv, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  const requirements = await readFile(join(box, 'requirements.txt'), 'utf8');
  const uv = /^uv==[^ ]+/m.exec(requirements)?.[0] ?? 'uv';
  await followCommand([python, '-m', 'venv', venv], { log, signal });
  await followCommand([`${venv}/bin/pip`, 'install', '-q', uv], { log, signal });
  const wanted = ['--python', venv, '-r', join(box, 'requirements-dev.txt')];
  await followCommand([`${venv}/bin/uv`, ...install, ...wanted], { log, signal });
  // Its pip stays as it is: the change of pip is for the folders of a box.
  await followCommand([`${venv}/bin/python`, join(box, 'patch_packages.py'), 'rfc3987_syntax'], { log, signal });
  await writeFile(join(venv, '.stamp'), stamp);
  return venv;
};

/** The result of a pytest run; an aborted run counts as one failure. */
interface Outcome extends Totals {
  failures: Unsteady[];
}

/** The character of each XML entity. */
const entities: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", '#10': '\n', amp: '&' };

const readOutcome = async (report: string, code: number): Promise<Outcome> => {
  const text = await readFile(report, 'utf8').catch(() => '');
  const count = (name: string) => Number(new RegExp(`<testsuite [^>]*\\b${name}="(\\d+)"`).exec(text)?.[1] ?? 0);
  const plain = (xml = '') => xml.replaceAll(/&(#?\w+);/g, (whole, name: string) => entities[name] ?? whole);
  const failures = [
    ...text.matchAll(/<testcase classname="([^"]*)" name="([^"]*)"[^>]*><(failure|error)[^>]*>(.*?)<\/\3>/gs),
  ];
  const failed = Math.max(count('failures') + count('errors'), code === 0 ? 0 : 1);
  const passed = Math.max(0, count('tests') - failed - count('skipped'));
  return {
    passed,
    failed,
    failures: failures.map(([, file, name, , output]) => ({ name: plain(`${file} ${name}`), output: plain(output) })),
  };
};

/**
 * Runs the box server's own tests on a copy in `folder`: as root they start it as another user, who may not be able to read
 * this checkout. At most `most` failed tests are run once more by themselves; `unsteady` names those that pass then.
 */
export const runPythonTests = async (
  venv: string,
  folder: string,
  { most, signal }: { most: number; signal: AbortSignal },
): Promise<Totals & { unsteady: Unsteady[] }> => {
  const copy = await mkdtemp(join(folder, 'server-'));
  const run = async (name: string, options: readonly string[]): Promise<Outcome> => {
    const report = join(copy, name);
    const pytest = [`${venv}/bin/python`, '-m', 'pytest', '-q', `--junitxml=${report}`];
    return readOutcome(report, await runShown([...pytest, ...options], { cwd: copy, signal }));
  };
  try {
    await cp(join(box, 'server'), copy, { recursive: true });
    await followCommand([`${venv}/bin/python`, '-m', 'compileall', '-q', copy], { log: () => {}, signal });
    await followCommand(['chmod', '-R', 'a+rX', copy], { log: () => {}, signal });
    // The tests mostly wait for boxes: four files at once keep two cores busy.
    const { failures, ...all } = await run('report.xml', ['-n', '4', '--dist', 'loadfile', '--no-loadscope-reorder']);
    if (failures.length === 0 || failures.length > most || signal.aborted) return { ...all, unsteady: [] };
    const again = await run('again.xml', ['--last-failed']);
    if (again.failed > 0) return { ...all, unsteady: [] };
    return { passed: all.passed + all.failed, failed: 0, unsteady: failures };
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
};
