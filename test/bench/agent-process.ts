import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { projectFolder } from '../../scripts/project.ts';
import { freePort } from '../free-port.ts';
import { until } from './deadline.ts';
import type { GatewayProcess } from './gateway-process.ts';
import { endChild } from './program.ts';

export interface AgentProcess extends AsyncDisposable {
  url: string;
  /** The headers of API requests. */
  headers: Record<string, string>;
}

const startMs = 60_000;

/** Starts an agent for a gateway, with one model that is served at `modelUrl` over OpenAI's protocol. */
export const startAgent = async (gateway: GatewayProcess, modelUrl: string): Promise<AgentProcess> => {
  const port = await freePort();
  const main = join(projectFolder, 'services/agent/main.ts');
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(CODEBOX_|DATABASE_URL$|OPENAI_|AZURE_|ANTHROPIC_)/.test(name),
  );
  const child = spawn(process.execPath, [main], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      ...Object.fromEntries(inherited),
      CODEBOX_URL: gateway.url,
      CODEBOX_API_KEY: gateway.key,
      CODEBOX_DATA_DIR: gateway.dataDir,
      CODEBOX_AGENT_HOST: '127.0.0.1',
      CODEBOX_AGENT_PORT: String(port),
      CODEBOX_LOG_LEVEL: 'silent',
      CODEBOX_MODEL_URL: modelUrl,
      CODEBOX_MODELS: 'compatible/scripted',
    },
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-4000);
  });
  const url = `http://127.0.0.1:${port}`;
  const isServing = async (): Promise<true | undefined> => {
    if (child.exitCode !== null) throw new Error(`the agent ended with ${child.exitCode}: ${stderr}`);
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(5000) }).catch(() => undefined);
    await response?.body?.cancel();
    return response?.ok ? true : undefined;
  };
  try {
    await until('the agent', isServing, { withinMs: startMs });
  } catch (error) {
    await endChild(child, 1000);
    throw error;
  }
  return {
    url,
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    [Symbol.asyncDispose]: () => endChild(child, 20_000),
  };
};
