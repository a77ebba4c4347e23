import type { ExecutionEvent, FileEntry, RunError } from '#contract';

/** Facts for the system prompt: they come from the template and are never guessed. */
export interface Facts {
  template: string;
  languages: readonly string[];
  limits: { cpus: number; memoryMb: number; diskMb: number; pids: number };
  /** Whether packages can be installed and URLs be fetched. */
  hasNetwork: boolean;
  /** The relevant libraries as `name version`. */
  packages: readonly string[];
  executionSeconds: number;
}

export interface ChangedPaths {
  created: readonly string[];
  modified: readonly string[];
  deleted: readonly string[];
}

/** The end of one run of code, with its output for the model; events were passed on while it ran. */
export interface Ran {
  execution: string;
  status: string;
  durationMs: number;
  /** stdout, stderr, results and displays as plain text, in order, complete up to the limit of the box. */
  text: string;
  error: RunError | null;
  stateLost: boolean;
  cause: string | null;
  images: number;
  files: ChangedPaths;
}

/**
 * The box of a chat as the loop uses it. All methods throw `CodeBoxError` for what the gateway refuses, and take an
 * AbortSignal.
 */
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
  /** Reads at most `maxBytes` from the start; `isWhole` is whether that is the whole file. */
  read(
    path: string,
    maxBytes: number,
    signal: AbortSignal,
  ): Promise<{ text: string; isWhole: boolean; sizeBytes: number }>;
  write(path: string, text: string, signal: AbortSignal): Promise<void>;
}
