import type { Context } from 'hono';
import { type CodeBoxError, hasCode } from '#contract';
import { bearerKey } from '../../../http/endpoints/given-key.ts';
import { problemKinds } from '../../../http/problems/kinds.ts';
import { setRetryAfter } from '../../../http/problems/problem.ts';
import type { Dialect } from '../../http/app.ts';
import type { Env } from '../../http/env.ts';
import type { Surface } from '../../http/surface.ts';
import { addFileRoutes } from './files.ts';
import { addGrepRoute } from './grep.ts';
import { createHomes } from './homes.ts';
import { addNotebookRoutes } from './notebooks.ts';
import { addPortRoutes } from './ports.ts';
import { addProcessRoutes } from './processes.ts';
import { addTerminalRoutes } from './terminals.ts';
import { addTextRoutes } from './texts.ts';
import { createTools } from './tools.ts';

const statusOf = (error: CodeBoxError) => {
  if (error.code === 'gone') return 404;
  return hasCode(error, 'invalid_request') && error.errors.length > 0 ? 422 : problemKinds[error.code].status;
};

/** Where the reference server has errors of another form. */
const terminalPaths = /^\/openterminal\/api\/terminals(?:\/(?!user\/)|$)/;

const surface: Surface = {
  claims: { prefix: '/openterminal' },
  credentialOf(c) {
    const key = bearerKey(c);
    return key === undefined ? undefined : { key };
  },
  needed: () => 'Invalid API key: set a key of CodeBox, cbx_…',
  /** In the form of FastAPI, with which the reference server is built. */
  respond(c: Context<Env>, error) {
    setRetryAfter(c, error);
    const faults = error.errors.map(({ pointer, detail }) => ({
      loc:
        pointer.startsWith('/query') || pointer.startsWith('/headers')
          ? pointer.slice(1).split('/')
          : ['body', ...pointer.slice(1).split('/')],
      msg: detail,
      type: 'value_error',
    }));
    const detail = faults.length > 0 ? faults : error.message;
    const isTerminal = terminalPaths.test(c.req.path) && error.code !== 'unauthorized';
    return c.json(isTerminal && typeof detail === 'string' ? { error: detail } : { detail }, statusOf(error));
  },
};

const described = { method: 'get', scope: 'public', tag: 'Open Terminal', responses: {} } as const;

/** Open WebUI's Open Terminal: a box for each of its users. */
export const openterminal: readonly Dialect[] = [
  {
    surface,
    addRoutes(endpoints, parts) {
      const tools = createTools(endpoints);
      const homes = createHomes(parts);
      addProcessRoutes(tools, parts.commands, homes);
      addTextRoutes(tools, parts.files, homes);
      addGrepRoute(tools, parts.files, homes);
      addFileRoutes(endpoints, parts.files, homes);
      addTerminalRoutes(endpoints, tools, parts, homes);
      addPortRoutes(endpoints, parts, homes);
      addNotebookRoutes(endpoints, parts, homes);
      endpoints.add({ ...described, path: '/openterminal/health', summary: 'Whether it is served' }, ({ c }) =>
        c.json({ status: 'ok' }),
      );
      endpoints.add({ ...described, path: '/openterminal/api/config', summary: 'Which features there are' }, ({ c }) =>
        c.json({ features: { terminal: true, notebooks: true, system: false } }),
      );
      endpoints.add(
        { ...described, path: '/openterminal/openapi.json', summary: 'The calls that models use' },
        ({ c }) => c.json(tools.document()),
      );
    },
  },
];
