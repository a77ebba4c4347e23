import { createHash } from 'node:crypto';

/**
 * The uid and gid of an instance: far above those of people and services, and the same each time it is asked for. Distinct ids
 * share one with odds of one in a billion, so what leaks from one box (a file, a process) belongs to nobody in the next.
 */
export const boxUser = (id: string): number =>
  200_000 + (createHash('sha256').update(id).digest().readUInt32BE(0) % 1_000_000_000);

/** `/etc/passwd` and `/etc/group` for a box, so that its user has a name and a home for programs that insist. */
export const boxAccounts = (uid: number): { passwd: string; group: string } => ({
  passwd: `root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:${uid}:${uid}:user:/mnt/home:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
  group: `root:x:0:\nuser:x:${uid}:\nnogroup:x:65534:\n`,
});
