import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { buildPage } from '../../scripts/web.ts';
import { type AgentProcess, startAgentProcess } from '../agent/agent-harness.ts';
import { usualBoxes } from '../api/harness.ts';
import { launchChromium } from '../browser/chromium.ts';

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const shots = process.env.CODEBOX_TEST_SHOTS || join(tmpdir(), 'codebox-page-shots');

interface Violation {
  id: string;
  impact: string | null;
  nodes: { html: string; failureSummary: string }[];
}

export interface RunningPage extends AsyncDisposable {
  agent: AgentProcess;
  browser: Browser;
  /** Opens the page as a new visitor; errors of its scripts are added to `faults`. */
  visit: (hash?: string, options?: BrowserContextOptions) => Promise<Page>;
  faults: string[];
}

/** Starts an agent that serves the page, and Chromium. `env` names the models. */
export const startPage = async (env: Record<string, string> = {}): Promise<RunningPage> => {
  await using stack = new AsyncDisposableStack();
  const folder = await buildPage();
  // The code of these tests draws with large libraries, so boxes need the memory to prepare kernels with them.
  const agent = await startAgentProcess({ CODEBOX_AGENT_PAGE: folder, CODEBOX_LOG_LEVEL: 'info', ...env }, usualBoxes);
  stack.defer(agent.dispose);
  const browser = await launchChromium();
  stack.defer(() => browser.close());
  const faults: string[] = [];
  const owned = stack.move();
  return {
    agent,
    browser,
    faults,
    async visit(hash = '', options = {}) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
      const page = await context.newPage();
      // The first import of a large library may take half a minute on a busy machine.
      page.setDefaultTimeout(60_000);
      page.on('pageerror', (error) => faults.push(String(error)));
      await page.goto(`${agent.url}/${hash}`);
      return page;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
};

/** Resolves with the serious and critical accessibility violations of the page in both colour schemes; stores a screenshot of each. */
export const violations = async (page: Page, name: string): Promise<string[]> => {
  await mkdir(shots, { recursive: true });
  const found: string[] = [];
  await page.evaluate(await readFile(axePath, 'utf8'));
  // Of the rules of axe, only these depend on the colour scheme.
  const looks = [
    ['light', {}],
    ['dark', { runOnly: ['color-contrast', 'link-in-text-block'] }],
  ] as const;
  for (const [colorScheme, only] of looks) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    // Axe reads computed colours, so fading must have ended.
    await page.waitForTimeout(200);
    await page.screenshot({ path: join(shots, `${name}-${colorScheme}.png`) });
    const options = JSON.stringify({ iframes: false, resultTypes: ['violations'], ...only });
    const bad = (await page.evaluate(
      `axe.run(document, ${options}).then(({ violations }) => violations.filter(({ impact }) => impact === 'serious' || impact === 'critical'))`,
    )) as Violation[];
    for (const { id, nodes } of bad)
      for (const { html, failureSummary } of nodes) found.push(`${colorScheme} ${id}: ${html} ${failureSummary}`);
  }
  await page.emulateMedia({ colorScheme: null, reducedMotion: null });
  return found;
};
