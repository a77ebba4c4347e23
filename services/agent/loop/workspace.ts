import type { ExecutionEvent, FileEntry, RunError } from '#contract';

/** What the system prompt is made from: facts of the template, never guesses. */
export interface Facts {
  template: string;
  languages: readonly string[];
  limits: { cpus: number; memoryMb: number; diskMb: number; pids: number };
  /** Whether packages can be installed and URLs be read. */
  hasNetwork: boolean;
  /** Of the libraries that matter, `name version`. */
  packages: readonly string[];
  executionSeconds: number;
}

export interface ChangedPaths {
  created: readonly string[];
  modified: readonly string[];
  deleted: readonly string[];
}

/** How one run of code ended, with what the model is told of it; events were passed on while it ran. */
export interface Ran {
  execution: string;
  status: string;
  durationMs: number;
  /** stdout, stderr, results and displays as plain text, in order, whole up to a bound that the box keeps. */
  text: string;
  error: RunError | null;
  stateLost: boolean;
  cause: string | null;
  images: number;
  files: ChangedPaths;
}

/** The box of a chat as the loop uses it. All throw `CodeBoxError` for what the gateway refuses; all take an AbortSignal. */
export interface Workspace {
  facts(signal: AbortSignal): Promise<Facts>;
  /** Aborting interrupts the code; variables stay. */
  run(
    code: { language: string; code: string },
    onEvent: (event: ExecutionEvent) => void | Promise<void>,
    signal: AbortSignal,
  ): Promise<Ran>;
  install(
    packages: readonly string[],
    manager: 'pip' | 'npm',
    signal: AbortSignal,
  ): Promise<{ ok: boolean; text: string }>;
  list(path: string, signal: AbortSignal): Promise<FileEntry[]>;
  /** At most `maxBytes` from the start; `isWhole` tells whether that is all. */
  read(
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<{ text: string; isWhole: boolean; sizeBytes: number }>;
  write(path: string, text: string, signal: AbortSignal): Promise<void>;
}
