import { runHostCommand } from './host-command.ts';

/**
 * Whether a shell script that tries something in a folder succeeds; `$p` is a path there for it. One runs at a time per folder, and
 * `undo` runs before and after it: a kill of this process leaves the script to end by itself, and whatever a kill of both leaves
 * is undone by the next one.
 */
export const canDo = async (folder: string, script: { try: string; undo: string }): Promise<boolean> => {
  const text = `p=$0/.probe\nundo() { ${script.undo}; } 2> /dev/null\nundo\n(set -e; ${script.try})\nstatus=$?\nundo\nexit $status`;
  // Not an error when it fails: the caller falls back to something weaker, and says so.
  return await runHostCommand(['flock', folder, 'sh', '-c', text, folder]).then(
    () => true,
    () => false,
  );
};
