import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { VolumeMount } from '../../services/gateway/drivers/driver.ts';
import { evalInBox, runInBox, type ServedInstance } from './box-client.ts';
import type { DriverContract, Fixture } from './fixture.ts';

const sizeMb = 16;

/** Prints the outcome of hostile and odd uses of a volume. */
const misuse = `
import json, os, socket
def outcome(call):
    try: call()
    except OSError as error: return error.errno
    return 0
os.chdir("/volumes/shared")
def bind():
    with socket.socket(socket.AF_UNIX) as server: server.bind("socket")
    os.unlink("socket")
def pipe():
    os.mkfifo("pipe")
    os.unlink("pipe")
print(json.dumps({
    "device": outcome(lambda: os.mknod("device", 0o060600, os.makedev(7, 0))),
    "socket": outcome(bind),
    "pipe": outcome(pipe),
    "owner": outcome(lambda: os.chown(".", 0, 0)),
    "beside": outcome(lambda: os.mkdir("/volumes/other")),
    "gone": outcome(lambda: os.rmdir("/volumes/shared")),
    "flags": os.statvfs(".").f_flag & 0b110,
    "files": os.listdir("."),
}))`;

/** Volumes that outlive instances, and that several have at once. */
export const describeVolumes = (contract: DriverContract, fixture: Fixture): void => {
  const { deadline, end, spec, start } = fixture;

  describe('a volume', () => {
    const boxes: string[] = [];
    const made: string[] = [];
    let shared: VolumeMount;
    let one: ServedInstance;
    const owner = `owner-${randomUUID()}`;
    const mountOf = (more: Partial<VolumeMount> = {}): VolumeMount => ({
      id: `v${process.pid}-${made.length}`,
      owner,
      sizeMb,
      folder: 'shared',
      readOnly: false,
      ...more,
    });
    const make = async (more: Partial<VolumeMount> = {}) => {
      const mount = mountOf(more);
      made.push(mount.id);
      await fixture.driver().volumes?.make(mount, deadline());
      return mount;
    };
    const startWith = async (...volumes: VolumeMount[]) => {
      const box = await start({ volumes });
      boxes.push(box.id);
      return box;
    };
    // Without ls and stat, which fail in gVisor.
    const sh = (box: ServedInstance, script: string) => runInBox(box, ['sh', '-c', script]);
    const has = () => fixture.driver().volumes !== undefined;

    beforeAll(async () => {
      if (!has()) return;
      shared = await make();
      one = await startWith(shared);
    });
    afterAll(async () => {
      for (const id of boxes) await end(id);
      for (const id of made) await fixture.driver().volumes?.remove(id, deadline());
    });

    test('is offered, or the driver says why it is not and creates no instance with one', async () => {
      const { capabilities, volumes } = fixture.driver();
      expect(capabilities.volumesObstacle === undefined).toBe(volumes !== undefined);
      if (volumes) return;
      const refused = fixture.driver().create(spec({ volumes: [mountOf()] }), deadline());
      await expect(refused).rejects.toMatchObject({ code: 'unavailable' });
    });

    test('has what each of its boxes writes at once, also files that are private to their owner', async () => {
      if (!has()) return;
      expect(await sh(one, 'umask 077; echo first > /volumes/shared/a; echo /volumes/shared/*')).toMatchObject({
        stdout: '/volumes/shared/a\n',
      });
      const other = await startWith(shared);
      const change = await sh(
        other,
        'cat /volumes/shared/a; echo second >> /volumes/shared/a; chmod 600 /volumes/shared/a',
      );
      expect(change).toMatchObject({ status: 'ok', stdout: 'first\n' });
      expect((await sh(one, 'cat /volumes/shared/a')).stdout).toBe('first\nsecond\n');
      const reader = await startWith({ ...shared, readOnly: true });
      const read = await sh(reader, 'cat /volumes/shared/a; touch /volumes/shared/b');
      expect(read).toMatchObject({ status: 'error', stdout: 'first\nsecond\n', stderr: /Read-only/ });
      expect((await sh(one, 'rm /volumes/shared/a')).status).toBe('ok');
      expect((await sh(reader, 'test -e /volumes/shared/a')).status).toBe('error');
    });

    test('gives a box no device, no socket, no named pipe, and nothing beside it', async () => {
      if (!has()) return;
      const seen = await evalInBox<Record<string, unknown>>(one, misuse);
      expect(seen).toMatchObject({ device: 1, files: [] });
      for (const call of ['owner', 'beside', 'gone']) expect(seen[call]).toBeGreaterThan(0);
      // gVisor has its own flags, and sockets and pipes that no other box sees.
      if (contract.kernel === 'host') expect(seen).toMatchObject({ socket: 13, pipe: 13, flags: 0b110 });
    });

    test('is full at its size for all its boxes, and outlives them', async () => {
      if (!has()) return;
      const fill = await sh(one, 'head -c 32M /dev/zero > /volumes/shared/zero; wc -c < /volumes/shared/zero');
      expect(fill.stderr).toMatch(/No space left/);
      expect(Number(fill.stdout)).toBeGreaterThan(sizeMb * 1024 * 1024 * 0.6);
      expect(Number(fill.stdout)).toBeLessThan(sizeMb * 1024 * 1024);
      await sh(one, 'rm /volumes/shared/zero; echo kept > /volumes/shared/a; ln -s /etc/passwd /volumes/shared/link');
      for (const id of boxes.splice(0)) await end(id);
      const again = await contract.create();
      expect(await again.volumes?.list(deadline())).toEqual([shared.id]);
      await again.volumes?.make(shared, deadline());
      one = await startWith(shared);
      expect((await sh(one, 'cat /volumes/shared/a; rm /volumes/shared/a')).stdout).toBe('kept\n');
    });

    test('can be larger than the disk of its boxes, which can have several', async () => {
      if (!has()) return;
      const large = await make({ folder: 'large', sizeMb: 128 });
      const box = await startWith(shared, large);
      const { stdout } = await sh(
        box,
        'head -c 100M /dev/zero > /volumes/large/x; wc -c < /volumes/large/x; echo /volumes/*',
      );
      expect(stdout).toBe(`${100 * 1024 * 1024}\n/volumes/large /volumes/shared\n`);
    });

    test('is added to a running box, where the driver can', async () => {
      if (!has()) return;
      const box = await startWith();
      const bound = fixture.driver().bind(box.id, { volumes: [shared] }, deadline());
      if (!fixture.driver().capabilities.bind.volumes)
        return await expect(bound).rejects.toMatchObject({ code: 'unavailable' });
      await bound;
      await sh(box, 'echo late > /volumes/shared/late');
      expect((await sh(one, 'cat /volumes/shared/late; rm /volumes/shared/late')).stdout).toBe('late\n');
      expect(await evalInBox<object>(box, misuse)).toMatchObject({ device: 1, socket: 13, flags: 0b110 });
    });

    test('that is missing is the reason why an instance does not start, which leaves nothing behind', async () => {
      if (!has()) return;
      const wanted = spec({ volumes: [mountOf({ id: 'no-such' })] });
      await expect(fixture.driver().create(wanted, deadline())).rejects.toMatchObject({ why: { code: 'volume' } });
      expect(await fixture.driver().inspect(wanted.id, deadline())).toBeUndefined();
    });

    test('is removed with its files, whoever has it', async () => {
      if (!has()) return;
      const gone = await make({ folder: 'gone' });
      const box = await startWith(gone);
      await fixture.driver().volumes?.remove(gone.id, deadline());
      await fixture.driver().volumes?.remove(gone.id, deadline());
      expect(await fixture.driver().volumes?.list(deadline())).not.toContain(gone.id);
      expect((await sh(box, 'echo x > /volumes/gone/x')).status).toBe('ok');
    });
  });
};
