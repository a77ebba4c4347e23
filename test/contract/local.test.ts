import { createSocket } from 'node:dgram';
import { mkdtempSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { createLocalDriver } from '../../services/gateway/drivers/local/driver.ts';
import { hasDriver } from './available.ts';
import { evalInBox, type ServedInstance } from './box-client.ts';
import { runDriverContract } from './driver.ts';
import { createFixture } from './fixture.ts';
import { type HostContract, runHostContract } from './host.ts';
import { takeHostCensus } from './host-census.ts';
import { expectNoNetwork } from './network.ts';

const [dataDir, foreignDir, networkDir] = [1, 2, 3].map(() => mkdtempSync(join(tmpdir(), 'cbx-'))) as [
  string,
  string,
  string,
];
const deployment = 'contract-local';
const pidIn = async (id: string, file: 'stat' | 'init' | 'network', folder = dataDir) =>
  Number.parseInt(await readFile(`${folder}/local/instances/${id}/${file}`, 'utf8'), 10);

afterAll(async () => {
  for (const folder of [dataDir, foreignDir, networkDir]) await rm(folder, { recursive: true, force: true });
});

if (hasDriver('local')) {
  const contract: HostContract = {
    name: 'local',
    image: '',
    create: () => createLocalDriver({ dataDir, deployment }),
    createForeign: () => createLocalDriver({ dataDir: foreignDir, deployment: `${deployment}-foreign` }),
    leftovers: () => takeHostCensus(dataDir, deployment),
    hostPid: (id) => pidIn(id, 'stat'),
    kill: async (id) => void process.kill(await pidIn(id, 'init'), 'SIGKILL'),
    kernel: 'host',
    hasSeccompFilter: true,
    outOfMemory: 'program',
    reachesInternet: true,
    measures: true,
  };
  runDriverContract(contract);
  runHostContract(contract);

  describe('the network of a local box', () => {
    const create = () => createLocalDriver({ dataDir: networkDir, deployment: `${deployment}-network` });
    const fixture = createFixture({ ...contract, create, leftovers: async () => [] });
    const interfaces = (box: ServedInstance) =>
      evalInBox<string[]>(box, 'import json, socket; print(json.dumps([name for _, name in socket.if_nameindex()]))');
    /** Returns the id of the process that carries the packets of a box. */
    const pastaOf = async (id: string) => {
      const keeper = await pidIn(id, 'network', networkDir);
      return Number.parseInt(await readFile(`/proc/${keeper}/task/${keeper}/children`, 'utf8'), 10);
    };

    test('comes back when its process is killed, and another gateway can take it away', async () => {
      const box = await fixture.start({ network: 'internet' });
      const pasta = await pastaOf(box.id);
      process.kill(pasta, 'SIGKILL');
      await vi.waitFor(async () => expect(await pastaOf(box.id)).not.toBe(pasta), { timeout: 20_000 });
      await vi.waitFor(async () => expect(await interfaces(box)).toEqual(['lo', 'internet0']), { timeout: 20_000 });
      const restarted = await create();
      await restarted.bind(box.id, { network: 'none' }, fixture.deadline());
      expect(await interfaces(box)).toEqual(['lo']);
      await expectNoNetwork(box);
      await fixture.end(box.id);
    });

    test('lets nothing in, not even on a port from which the box has sent', async () => {
      const box = await fixture.start({ network: 'internet' });
      const port = 40_123;
      const host = createSocket('udp4');
      const knocking = setInterval(() => host.send('knock', port, '127.0.0.1'), 50);
      const listen = `import json, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", ${port}))
s.settimeout(2)
s.sendto(b"hello", ("192.88.99.1", 9))
try: print(json.dumps(s.recv(100).decode()))
except OSError as error: print(json.dumps(str(error)))`;
      expect(await evalInBox(box, listen)).toBe('timed out');
      clearInterval(knocking);
      host.close();
      await fixture.end(box.id);
    });
  });
}
