import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { projectFolder } from '../../scripts/project.ts';
import { readComposeFile } from './compose-file.ts';

const path = join(projectFolder, 'deploy/compose.yaml');
let folder = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'codebox-compose-'));
});

afterAll(() => rm(folder, { recursive: true }));

/** Reads the file with one piece of text replaced. */
const readChanged = async (from: string, to: string) => {
  const text = await readFile(path, 'utf8');
  if (!text.includes(from)) throw new Error(`The compose file has no ${from}.`);
  const changed = join(folder, 'compose.yaml');
  await writeFile(changed, text.replace(from, to));
  return readComposeFile(changed, {});
};

test('an unknown key is refused', async () => {
  await expect(readChanged('user: postgres', 'user: postgres\n    privileged: true')).rejects.toThrow(/privileged/);
});

test('a port on all addresses is refused', async () => {
  await expect(readChanged('- 127.0.0.1:', '- 0.0.0.0:')).rejects.toThrow(/ports/);
});

test('a variable without a default is refused', async () => {
  await expect(readChanged('CODEBOX_DRIVER: docker', 'CODEBOX_DRIVER: $DRIVER')).rejects.toThrow(/DRIVER/);
});

test('without variables the services, ports and networks are those that the README describes', async () => {
  const { services, networks } = await readComposeFile(path, {});
  const started = Object.entries(services).flatMap(([name, { profiles }]) => (profiles.length === 0 ? [name] : []));
  expect(started).toEqual(['box', 'prepare', 'postgres', 'gateway']);
  expect(services.agent).toMatchObject({
    profiles: ['agent'],
    ports: ['127.0.0.1:8090:8090'],
    cap_add: [],
  });
  expect(services.gateway?.ports).toEqual(['127.0.0.1:8080:8080']);
  expect(services.gateway?.environment.CODEBOX_DATA_DIR).toBe('/var/lib/codebox');
  expect(services.postgres?.networks).toEqual(['database']);
  expect(networks.database?.internal).toBe(true);
});

test('every service drops all capabilities except the listed ones, and cannot gain privileges', async () => {
  const { services } = await readComposeFile(path, {});
  for (const service of Object.values(services)) {
    expect(service).toMatchObject({ cap_drop: ['ALL'], read_only: true });
    expect(service.security_opt).toContain('no-new-privileges=true');
  }
  expect(services.gateway?.cap_add).toEqual(['SYS_ADMIN', 'CHOWN', 'DAC_OVERRIDE']);
  expect(services.postgres?.cap_add).toEqual([]);
});

test('the monitoring services are reachable from this machine only and have no capabilities', async () => {
  const { services, networks } = await readComposeFile(join(projectFolder, 'deploy/monitoring.yaml'), {});
  expect(Object.values(services).flatMap((service) => service.ports)).toEqual([
    '127.0.0.1:9090:9090',
    '127.0.0.1:3000:3000',
  ]);
  for (const service of Object.values(services)) {
    expect(service).toMatchObject({ cap_drop: ['ALL'], cap_add: [], read_only: true, networks: ['front'] });
    for (const volume of service.volumes) expect(volume.read_only).toBe(volume.type === 'bind');
  }
  // Prometheus has to reach the gateway on this network.
  expect(networks).toEqual({ front: null });
});

test('the file contains no password', async () => {
  expect(await readFile(path, 'utf8')).not.toMatch(/PASSWORD:|postgresql:\/\/|HOST_AUTH_METHOD/);
});
