import type { Created } from '../client.ts';
import { type GatewayOptions, startGateway } from '../gateway-process.ts';
import { atMost, type Measure, measure, type Row } from '../report.ts';
import { untilWarm } from '../warm-pool.ts';

const size = 10;
const asked = 50;
const queueSeconds = 60;
const refillMs = 300_000;

/** Fifty callers at the same moment at a gateway that keeps ten warm and has room for all and for its pool. */
export const measureBurst = async (own: GatewayOptions): Promise<Row> => {
  const settings = { CODEBOX_MAX_BOXES: String(asked + size), CODEBOX_QUEUE_SECONDS: String(queueSeconds) };
  await using gateway = await startGateway({ ...own, warm: size, settings });
  const { client } = gateway;
  await untilWarm(gateway, size);
  const answers = await Promise.all(Array.from({ length: asked }, () => client.create()));
  const refillsIn = await untilWarm(gateway, size, refillMs);
  const had = answers.filter(({ id }) => id !== undefined);
  const refused = answers.filter(({ id }) => id === undefined);
  const measures = [
    ...timesOf('all', answers),
    ...timesOf(
      'got a warm one',
      had.filter(({ kind }) => kind === 'warm'),
    ),
    ...timesOf(
      'got one made for them',
      had.filter(({ kind }) => kind === 'cold'),
    ),
    ...timesOf('refused', refused),
    measure('from the last answer until ten are warm again', 'ms', [refillsIn]),
  ];
  const isFair = (answer: Created) => [429, 503].includes(answer.status) && answer.retryAfter !== undefined;
  return {
    id: 'burst',
    title: `${asked} boxes asked for at once of a pool of ${size}`,
    measures,
    ratios: [],
    bars: [
      atMost('boxes that two callers got', had.length - new Set(had.map(({ id }) => id)).size, 0, 'boxes'),
      atMost('refused without 429 or 503 and Retry-After', refused.filter((one) => !isFair(one)).length, 0, 'callers'),
      atMost('refused', refused.length, 0, 'callers'),
    ],
    notes: [`${countByStatus(answers)}. All of the boxes live while the pool is filled again.`],
  };
};

const timesOf = (name: string, answers: readonly Created[]): Measure[] =>
  answers.length === 0
    ? []
    : [
        measure(
          name,
          'ms',
          answers.map(({ ms }) => ms),
        ),
      ];

const countByStatus = (answers: readonly Created[]): string => {
  const statuses = [...new Set(answers.map(({ status }) => status))].sort();
  return statuses.map((one) => `${answers.filter(({ status }) => status === one).length} × ${one}`).join(', ');
};
