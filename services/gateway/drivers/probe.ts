import { runHostCommand } from './host/host-command.ts';

/**
 * Returns whether a shell script succeeds that tries something at `$p`, a path in `folder`. One probe runs at a time in each folder, and
 * `undo` runs before and after it. When this process is killed, the script still completes; when both are killed, the next call undoes what
 * is left.
 */
export const canDo = async (folder: string, script: { try: string; undo: string }): Promise<boolean> => {
  const text = `p=$0/.probe\nundo() { ${script.undo}; } 2> /dev/null\nundo\n(set -e; ${script.try})\nstatus=$?\nundo\nexit $status`;
  // A failure is a result, not an error: the caller falls back to something weaker and reports that.
  return await runHostCommand(['flock', folder, 'sh', '-c', text, folder]).then(
    () => true,
    () => false,
  );
};
