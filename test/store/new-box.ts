import type { NewBox } from '../../services/gateway/store/supply/allocation.ts';
import { newId } from '../../services/postgres/id.ts';

/** Returns a new box of a tenant, as it is written to the store. */
export const newBox = (tenantId = 'many', more: Partial<NewBox> = {}): NewBox => ({
  id: newId('box'),
  tenantId,
  userId: null,
  name: null,
  reusable: false,
  template: 'python',
  base: null,
  metadata: {},
  limits: { cpus: 1, memoryMb: 1024, diskMb: 1024, pids: 256 },
  network: 'none',
  volumes: [],
  idleSeconds: 900,
  maxLifetimeSeconds: 900,
  onIdle: 'delete',
  ...more,
});
