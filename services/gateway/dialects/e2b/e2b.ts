import type { Dialect } from '../../http/app.ts';
import type { Seal } from '../../seal.ts';
import { createControlSurface } from './control/control.ts';
import { addMetricsRoute } from './control/metrics.ts';
import { addSandboxRoutes } from './control/sandboxes.ts';
import { addSnapshotRoutes } from './control/snapshots.ts';
import { addTemplateBuildRoutes } from './control/template-builds.ts';
import { addTemplateRoutes } from './control/templates.ts';
import { createDataSurfaces } from './data.ts';
import { addFileRoutes } from './envd/files.ts';
import { addFilesystemRoutes } from './envd/filesystem.ts';
import { addProcessRoutes } from './envd/process.ts';
import { addWatchRoute } from './envd/watch.ts';
import { addWatcherRoutes } from './envd/watchers.ts';
import { addInterpreterRoutes } from './interpreter/interpreter.ts';
import { createOpenPorts, type OpenPortsOptions } from './open-ports.ts';
import { createRunning } from './running.ts';
import { createSignatures } from './signatures.ts';
import { createTokens } from './tokens.ts';

export interface E2bOptions extends OpenPortsOptions {
  seal: Seal;
  /** The domain below which the ports of sandboxes have hosts. */
  portsDomain: string;
}

const health = { method: 'get', path: '/health', summary: 'Whether it runs', tag: 'Sandboxes', responses: {} } as const;

/** E2B's API: the control plane, and the servers inside sandboxes, which come first because they claim requests by their headers. */
export const createE2b = ({ seal, findMakers, hasEnded, portsDomain: domain }: E2bOptions): Dialect[] => {
  const tokens = createTokens(seal);
  const signatures = createSignatures({ tokens, findMakers });
  const openPorts = createOpenPorts({ findMakers, hasEnded });
  const { envd, interpreter, ports } = createDataSurfaces({ tokens, signatures, openPorts, domain });
  return [
    {
      surface: envd,
      addRoutes(endpoints, parts) {
        const running = createRunning(parts.directory, domain);
        endpoints.add({ ...health, scope: 'any' }, async ({ c }) => {
          await running.check(c);
          return c.body(null, 204);
        });
        addFileRoutes(endpoints, parts, running);
        addFilesystemRoutes(endpoints, parts, running);
        addWatchRoute(endpoints, parts, running);
        addWatcherRoutes(endpoints, parts, running);
        addProcessRoutes(endpoints, parts, running);
      },
    },
    {
      surface: interpreter,
      addRoutes(endpoints, parts) {
        const running = createRunning(parts.directory, domain);
        endpoints.add({ ...health, scope: 'any' }, async ({ c }) => {
          await running.check(c);
          return c.json('OK');
        });
        addInterpreterRoutes(endpoints, parts, running);
      },
    },
    { surface: ports, addRoutes: () => {} },
    {
      surface: createControlSurface(tokens),
      addRoutes(endpoints, parts) {
        addSandboxRoutes(endpoints, parts, { tokens, domain });
        addSnapshotRoutes(endpoints, parts, { tokens, domain });
        addMetricsRoute(endpoints, parts);
        addTemplateRoutes(endpoints, parts);
        addTemplateBuildRoutes(endpoints, parts, tokens);
      },
    },
  ];
};
