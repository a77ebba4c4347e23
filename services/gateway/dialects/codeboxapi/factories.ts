import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';

/** `/api/v2/factory/`: the templates, which only the operator can change. */
export const addFactoryRoutes = ({ add }: Endpoints, { catalog }: RouteParts): void => {
  add(
    {
      method: 'get',
      path: '/api/v2/factory/',
      scope: 'boxes:read',
      summary: 'List the templates of boxes as factories',
      tag: 'CodeBoxAPI',
      responses: {},
    },
    ({ c }) => {
      const templates = catalog.list().map(({ name, limits, network, idleSeconds, warm }) => ({
        id: name,
        name,
        cpu: limits.cpus,
        memory: `${limits.memoryMb}Mi`,
        network_enabled: network !== 'none',
        cooldown_period: idleSeconds,
        ready_sessions: warm,
      }));
      return c.json({ templates });
    },
  );
};
