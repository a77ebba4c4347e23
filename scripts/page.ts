import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { projectFolder } from './project.ts';

/**
 * Builds the page in a process of its own, because compressing it takes memory that this one would keep. Resolves with its folder,
 * or logs the error and resolves with undefined.
 */
export const buildPageAside = async (dataDir: string, log: (line: string) => void): Promise<string | undefined> => {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [join(projectFolder, 'scripts/web.ts'), dataDir]);
    return stdout.trim();
  } catch (error) {
    log(`The agent serves no page. ${error instanceof Error ? error.message : error}`);
    return undefined;
  }
};
