// Runs a task of scripts/ on the Node that package-lock.json pins, whichever Node started this. Installs the packages first if
// they are not those of the lockfile. It is plain JavaScript without dependencies, because it runs before anything is installed.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(project, 'node_modules');
const stamp = join(modules, '.codebox-lock');
const pinnedNode = join(modules, 'node', 'bin', 'node');
const tasks = [
  'start',
  'test',
  'check',
  'bench',
  'scale',
  'openapi',
  'clients',
  'features',
  'full-image',
  'lock',
  'migration',
  'admin',
  'mcp',
];

const fail = (text) => {
  process.stderr.write(`${text}\n`);
  process.exit(1);
};

/** Whether npm's record of the last install matches the lockfile. */
const isInstalled = (lockText) => {
  const note = join(modules, '.package-lock.json');
  if (!existsSync(note)) return false;
  const wanted = JSON.parse(lockText).packages;
  const found = JSON.parse(readFileSync(note, 'utf8')).packages;
  const isThere = (path) => found[path]?.version === wanted[path].version;
  return Object.keys(wanted).every(
    (path) => path === '' || isThere(path) || (wanted[path].optional && found[path] === undefined),
  );
};

const install = () => {
  const lockText = readFileSync(join(project, 'package-lock.json'), 'utf8');
  const hash = createHash('sha256').update(lockText).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash && existsSync(pinnedNode)) return;
  if (!isInstalled(lockText) || !existsSync(pinnedNode)) {
    process.stdout.write('Installing the packages of package-lock.json.\n');
    const npm = process.env.npm_execpath;
    const [program, ...first] = npm ? [process.execPath, npm] : ['npm'];
    // The page's bundler and the database are development dependencies, so NODE_ENV=production must not omit them.
    // The services run on the pinned Node, whatever npm warns about this one.
    const wanted = ['--include=dev', '--no-audit', '--no-fund', '--loglevel=error'];
    const done = spawnSync(program, [...first, 'ci', ...wanted], { cwd: project, stdio: 'inherit' });
    if (done.status !== 0) fail('npm ci failed; see its output above.');
  }
  if (!existsSync(pinnedNode)) {
    // The package fetches its binary in an install script, which some set-ups switch off.
    spawnSync(process.execPath, ['installArchSpecificPackage.js'], { cwd: join(modules, 'node'), stdio: 'inherit' });
    if (!existsSync(pinnedNode)) fail(`The "node" package has no binary: ${pinnedNode} is missing.`);
  }
  writeFileSync(stamp, hash);
};

const [task = '', ...args] = process.argv.slice(2);
if (!tasks.includes(task)) fail(`Usage: node scripts/run.mjs ${tasks.join('|')} [options]`);
if (Number.parseInt(process.versions.node, 10) < 20) fail(`Node 20 or newer is needed, this is ${process.version}.`);
install();

const child = spawn(pinnedNode, [join(project, 'scripts', `${task}.ts`), ...args], {
  cwd: project,
  // When the IPC channel closes, `start` knows that this process has died.
  stdio: task === 'start' ? ['inherit', 'inherit', 'inherit', 'ipc'] : 'inherit',
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => fail(`${pinnedNode} does not start: ${error.message}`));
child.on('exit', (code, signal) => process.exit(signal === null ? code : 128 + constants.signals[signal]));
