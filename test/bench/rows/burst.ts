import type { Created } from '../client.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { atMost, type Measure, measure, type Row } from '../report.ts';
import { untilWarm } from '../warm-pool.ts';

const size = 10;
const requested = 50;
const queueSeconds = 60;
const refillMs = 300_000;

/** Measures fifty concurrent callers at a gateway with ten warm boxes and room for all boxes and its pool. */
export const measureBurst = async (own: GatewayOptions): Promise<Row> => {
  const settings = { CODEBOX_MAX_BOXES: String(requested + size), CODEBOX_QUEUE_SECONDS: String(queueSeconds) };
  await using gateway = await startGateway({ ...own, warm: size, settings });
  const { client } = gateway;
  await untilWarm(gateway, size);
  const outcomes = await Promise.all(Array.from({ length: requested }, () => client.create()));
  const refillsIn = await untilWarm(gateway, size, refillMs);
  const created = outcomes.filter(({ id }) => id !== undefined);
  const refused = outcomes.filter(({ id }) => id === undefined);
  const measures = [
    ...timesOf('all', outcomes),
    ...timesOf(
      'warm',
      created.filter(({ kind }) => kind === 'warm'),
    ),
    ...timesOf(
      'cold',
      created.filter(({ kind }) => kind === 'cold'),
    ),
    ...timesOf('refused', refused),
    measure('from the last response until ten are warm again', 'ms', [refillsIn]),
  ];
  const isFair = (outcome: Created) => [429, 503].includes(outcome.status) && outcome.retryAfter !== undefined;
  return {
    id: 'burst',
    title: `${requested} boxes requested at once from a pool of ${size}`,
    measures,
    ratios: [],
    bars: [
      atMost('boxes given to two callers', created.length - new Set(created.map(({ id }) => id)).size, 0, 'boxes'),
      atMost('refused without 429 or 503 and Retry-After', refused.filter((one) => !isFair(one)).length, 0, 'callers'),
      atMost('refused', refused.length, 0, 'callers'),
    ],
    notes: [`${countByStatus(outcomes)}. All boxes run while the pool is refilled.`],
  };
};

const timesOf = (name: string, outcomes: readonly Created[]): Measure[] =>
  outcomes.length === 0
    ? []
    : [
        measure(
          name,
          'ms',
          outcomes.map(({ ms }) => ms),
        ),
      ];

const countByStatus = (outcomes: readonly Created[]): string => {
  const statuses = [...new Set(outcomes.map(({ status }) => status))].sort();
  return statuses.map((one) => `${outcomes.filter(({ status }) => status === one).length} × ${one}`).join(', ');
};
