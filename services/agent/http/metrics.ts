import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { createRequestMetrics } from '../../http/server/request-metrics.ts';
import type { Env } from './env.ts';

/**
 * The agent's Prometheus series. Labels are patterns and statuses, never ids or values chosen by a caller or a model.
 */
export const createMetrics = () => {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  return {
    registry,
    middleware: createRequestMetrics<Env>(registry),
    answers: new Counter({
      name: 'codebox_answers_total',
      help: 'Answers that ended, by status.',
      labelNames: ['status'],
      registers,
    }),
    running: new Gauge({ name: 'codebox_answers_running', help: 'Answers that this agent is generating.', registers }),
    rounds: new Counter({ name: 'codebox_model_rounds_total', help: 'Requests to models.', registers }),
  };
};

export type Metrics = ReturnType<typeof createMetrics>;
