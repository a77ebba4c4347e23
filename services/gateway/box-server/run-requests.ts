import type { Environment, PackageManager } from '#contract';

/** A request to run code; times in milliseconds. */
export interface CodeRequest {
  code: string;
  language?: string;
  context?: string;
  timeoutMs: number;
  cpuLimitMs?: number;
  /** Where this code alone runs, relative to the working folder; only in Python. */
  cwd?: string;
  env?: Environment;
  autoInstall?: boolean;
  message?: ClientMessage;
  /** Whether nobody answers `input()`, which then fails at once. */
  unattended?: boolean;
  /** How much text of its output the box keeps, beyond which only its beginning and end; by default 8 MiB. */
  outputBytes?: number;
}

/** The `execute_request` of a Jupyter client that a run stands for: the kernel's messages refer to it as their parent. */
export interface ClientMessage {
  id: string;
  session: string;
  username: string;
  storeHistory: boolean;
  allowStdin: boolean;
  /** Evaluated after the code, by the names of their values. */
  expressions?: Record<string, string>;
}

/** The limits of a process; without them it has none. */
export interface ProcessLimits {
  timeoutMs?: number;
  cpuLimitMs?: number;
}

export interface CommandRequest extends ProcessLimits {
  command?: string;
  argv?: string[];
  cwd?: string;
  env?: Environment;
  stdin?: string;
  openStdin: boolean;
}

/** A notebook to run in a kernel of its own; times in milliseconds. */
export interface NotebookRequest extends ProcessLimits {
  path: string;
  /** Where it is written with its outputs; by default into its own file. */
  output?: string | undefined;
  language?: string | undefined;
  parameters?: Readonly<Record<string, unknown>> | undefined;
  /** Whether the cells after one that fails run too. */
  goOn: boolean;
  cellTimeoutMs?: number;
}

export interface InstallRequest extends ProcessLimits {
  manager: PackageManager;
  packages: string[];
}
