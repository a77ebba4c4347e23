import { createHash } from 'node:crypto';

/**
 * Returns the uid and gid of an instance, derived from its id, far above those of people and services. Two instances share one with a
 * probability of one in a billion, so a file or process that leaks from one box is not owned by the user of another.
 */
export const boxUser = (id: string): number =>
  200_000 + (createHash('sha256').update(id).digest().readUInt32BE(0) % 1_000_000_000);

/** Returns `/etc/passwd` and `/etc/group` of a box, for programs that need a name and a home of their user. */
export const boxAccounts = (uid: number): { passwd: string; group: string } => ({
  passwd: `root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:${uid}:${uid}:user:/mnt/home:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n`,
  group: `root:x:0:\nuser:x:${uid}:\nnogroup:x:65534:\n`,
});
