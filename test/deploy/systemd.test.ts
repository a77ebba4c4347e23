import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { projectFolder } from '../../scripts/project.ts';
import { wrongConfigurationCode } from '../../services/configuration-error.ts';

const file = join(projectFolder, 'deploy/systemd/codebox.service');
const text = await readFile(file, 'utf8');
const settingOf = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1];

/** Resolves with the complaints of systemd about a unit; empty where there is no systemd. */
const complaints = async (unit: string): Promise<string> => {
  if (!existsSync('/usr/bin/systemd-analyze')) return '';
  return await promisify(execFile)('systemd-analyze', ['verify', unit]).then(
    ({ stderr }) => stderr,
    (error: { stderr: string }) => error.stderr,
  );
};

test('systemd accepts the unit, and the check detects an unknown setting', async () => {
  expect(await complaints(file)).toBe('');
  const folder = await mkdtemp(join(tmpdir(), 'codebox-unit-'));
  try {
    const wrong = join(folder, 'codebox.service');
    await writeFile(wrong, text.replace('RestartSec=1', 'RestartSecs=1'));
    if (existsSync('/usr/bin/systemd-analyze')) expect(await complaints(wrong)).toContain('RestartSecs');
  } finally {
    await rm(folder, { recursive: true });
  }
});

test('the unit is restarted forever unless its settings are wrong, and a restart does not end boxes', () => {
  expect(settingOf('ExecStart')).toBe('/usr/bin/env node scripts/run.mjs start');
  expect([settingOf('Restart'), settingOf('StartLimitIntervalSec')]).toEqual(['always', '0']);
  expect(settingOf('RestartPreventExitStatus')).toBe(String(wrongConfigurationCode));
  expect(settingOf('KillMode')).toBe('process');
});

test('the unit stays in the mount namespace of the host, where the disks of boxes are mounted', () => {
  const ownNamespace =
    /^(Protect(System|Home|KernelTunables|KernelModules|KernelLogs|ControlGroups|Proc)|Private(Tmp|Devices|Mounts)|(ReadOnly|ReadWrite|Inaccessible)Paths|MountFlags|TemporaryFileSystem|Root\w+)=/m;
  expect(text).not.toMatch(ownNamespace);
});
