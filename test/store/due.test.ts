import type pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Store } from '../../services/gateway/store/store.ts';
import type { Due } from '../../services/gateway/store/upkeep.ts';
import { eventually } from '../api/harness.ts';
import { openTestStore } from './store-under-test.ts';

const [site, place] = ['yard', 'aaaa'];

let opened: Awaited<ReturnType<typeof openTestStore>>;
let store: Store;
let admin: pg.Pool;

beforeAll(async () => {
  opened = await openTestStore('gw_due');
  ({ store, admin } = opened);
  await store.keys.addTenant('one', 'one');
  await store.gateways.enter({ id: 'gw_due', site, place });
});
afterAll(() => opened?.close());

/** Writes a box, by default a ready one that is in use, with the values of some columns. */
const box = (columns: Record<string, string> = {}) => {
  const all = {
    id: "'box'",
    tenant_id: "'one'",
    state: "'ready'",
    template: "'python'",
    metadata: "'{}'",
    limits: `'{"cpus": 1, "memoryMb": 512, "diskMb": 100, "pids": 100}'`,
    network: "'none'",
    idle_seconds: '600',
    expires_at: "now() + interval '1 hour'",
    ...columns,
  };
  return `insert into boxes (${Object.keys(all)}) values (${Object.values(all)})`;
};
const instance = (state: string, at = site) =>
  `insert into instances (id, driver, state) values ('i', '${at}', '${state}')`;
const version = (state: string, warm: number) =>
  `insert into templates (id, tenant_id, name) values ('t', 'one', 't');
   insert into template_versions (id, template_id, number, state, settings) values ('v', 't', 1, '${state}', '{"warm": ${warm}}')`;
const unused = { last_active_at: "now() - interval '1 hour'" };

const cases: [what: string, statements: string, due: (keyof Due)[]][] = [
  ['nothing', 'select', []],
  ['a box in use', box(), []],
  ['a box past its lifetime', box({ state: "'hibernated'", expires_at: 'now()' }), ['ends']],
  ['an unused box that is then deleted', box(unused), ['ends']],
  ['an unused box that then pauses', box({ ...unused, on_idle: "'pause'" }), ['rests']],
  ['a box whose files are not saved', box({ on_idle: "'hibernate'" }), ['rests']],
  ['a box whose files are saved', box({ on_idle: "'hibernate'", checkpoint_at: "now() + interval '1 s'" }), []],
  ['an abandoned task', box({ task: "'resume'", task_until: "now() - interval '1 s'" }), ['rests']],
  ['a blob', "insert into blobs (id, box_id) values ('blob', 'box')", ['blobs']],
  ['a box with a CPU budget', box({ limits: `'{"cpuSeconds": 9}'` }), ['budgets']],
  ['a box that is created', box({ state: "'creating'" }), ['creations']],
  ['an instance that has just been metered', instance('running'), ['probes']],
  [
    'an instance that runs',
    `${box()}; ${instance('running')}; update instances set box_id = 'box'; update instances set metered_at = now() - interval '5 s'`,
    ['metering', 'probes'],
  ],
  [
    'a warm instance for a template of a tenant',
    `${version('ready', 1)}; ${instance('warm')}; update instances set template = 't', metered_at = now() - interval '5 s'`,
    ['metering', 'pooled', 'builtPools'],
  ],
  ['an instance that is destroyed', instance('destroying'), ['destructions']],
  ['an instance that is made', instance('creating'), ['destructions', 'pooled']],
  ['a warm instance', instance('warm'), ['pooled']],
  ['an instance of another site', instance('running', 'garden'), []],
  [
    'an execution',
    `${box()}; insert into executions (id, box_id, tenant_id, status) values ('x', 'box', 'one', 'running')`,
    ['executions'],
  ],
  ['a CPU quota', "insert into quotas (tenant_id, cpu_seconds_per_day) values ('one', 1)", ['cpuQuotas']],
  [
    'a webhook',
    "insert into webhooks (id, tenant_id, url, types) values ('w', 'one', 'https://a', '{}')",
    ['deliveries'],
  ],
  ['a build', version('building', 0), ['builds']],
  ['a template', version('ready', 0), []],
  ['a template with warm instances', version('ready', 1), ['builtPools']],
  ['an export', `${box()}; insert into file_exports (id, tenant_id, box_id) values ('e', 'one', 'box')`, ['exports']],
  [
    'a volume that is deleted',
    `insert into volumes (id, tenant_id, name, size_mb, site, state) values ('v', 'one', 'v', 1, '${site}', 'deleting')`,
    ['volumes'],
  ],
];

test.each(cases)('%s: a sweep has the work that there is', async (_, statements, expected) => {
  try {
    await admin.query(statements);
    const { isOurs, ...due } = await store.upkeep.due({ site, place });
    expect(isOurs).toBe(true);
    expect(Object.entries(due).flatMap(([name, isDue]) => (isDue ? [name] : []))).toEqual(expected);
  } finally {
    await admin.query(
      'delete from instances; delete from boxes; delete from blobs; delete from templates; delete from webhooks; delete from volumes; delete from quotas',
    );
  }
});

test('a sweep with nothing to do reads no rows of what has ended, however many there are', async () => {
  const columns = `id, tenant_id, state, template, metadata, limits, network, idle_seconds, expires_at, ended_at`;
  await admin.query(`
    insert into boxes (${columns}) select 'box' || n, 'one', 'deleted', 'python', '{}', '{}', 'none', 1, now(), now() from generate_series(1, 5000) n;
    insert into executions (id, box_id, tenant_id, status) select 'x' || n, 'box' || n % 5000 + 1, 'one', 'ok' from generate_series(1, 20000) n;
    analyze boxes; analyze executions`);
  const read = async (): Promise<{ rows: number; looks: number }> => {
    const { rows } = await admin.query(
      `select sum(seq_tup_read + idx_tup_fetch)::int as rows, sum(idx_scan)::int as looks
       from pg_stat_user_tables where relname in ('boxes', 'executions')`,
    );
    return rows[0];
  };
  const looksOnce = 10;
  await admin.query('select pg_stat_force_next_flush()');
  const before = await read();
  for (let n = 0; n < looksOnce; n++) await store.upkeep.due({ site, place });
  const after = await eventually(async () => {
    // The connections of the store write their statistics after a later statement.
    await store.upkeep.due({ site, place });
    const now = await read();
    return now.looks - before.looks >= 2 * looksOnce && now;
  });
  expect(after.rows - before.rows).toBeLessThan(1000);
});

test('a sweep learns that another place has the name of its site', async () => {
  expect(await store.upkeep.due({ site, place: 'bbbb' })).toMatchObject({ isOurs: false });
});
