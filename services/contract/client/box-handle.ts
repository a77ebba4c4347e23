import type { Box, UpdateBox } from '../boxes/boxes.ts';
import type { CreateCommand } from '../runs/commands.ts';
import type { ExecutionEvent } from '../runs/events.ts';
import type { CreateExecution, Execution, ExecutionSummary } from '../runs/executions.ts';
import type { RunNotebook } from '../runs/notebooks.ts';
import type { InstallPackages } from '../runs/packages.ts';
import type { Client } from './client.ts';
import type { EventStream } from './runs.ts';
import type { CallOptions, CreateOptions } from './transport.ts';

/** The calls of one part of the API without their first argument, the id of the box. */
export type OfBox<T> = {
  [K in keyof T]: T[K] extends (box: string, ...rest: infer R) => infer O ? (...rest: R) => O : never;
};

/** The options of an execution. */
export type RunSettings = Omit<CreateExecution, 'code' | 'detach'>;
type CommandSettings = Omit<CreateCommand, 'command' | 'argv' | 'detach'>;
type NotebookSettings = Omit<RunNotebook, 'path' | 'detach'>;
type InstallSettings = Omit<InstallPackages, 'packages' | 'detach'>;

/** The events of an execution as they arrive; it can be read once. */
export interface RunningCode extends EventStream<ExecutionEvent> {
  /** Provides the text that `input()` reads. */
  input: (text: string, options?: CallOptions) => Promise<void>;
  /** Interrupts the code; variables are kept. */
  interrupt: (options?: CallOptions) => Promise<void>;
}

const ofBox = <T extends object>(calls: T, box: string): OfBox<T> =>
  Object.fromEntries(
    Object.entries(calls).map(([name, call]) => [name, (...rest: unknown[]) => call(box, ...rest)]),
  ) as OfBox<T>;

/** A command line for bash, or a program and its arguments. */
type Program = string | string[];
const programOf = (program: Program) => (typeof program === 'string' ? { command: program } : { argv: program });

const createCommandCalls = (client: Client, id: string) => ({
  ...ofBox(client.commands, id),
  /** Runs a command line, or a program with its arguments, and waits for its end. */
  run: (program: Program, settings: CommandSettings = {}, options?: CreateOptions) =>
    client.commands.run(id, { ...programOf(program), ...settings }, options),
  /** Starts it, and resolves at once. */
  start: (program: Program, settings: CommandSettings = {}, options?: CreateOptions) =>
    client.commands.start(id, { ...programOf(program), ...settings }, options),
  /** Runs it, and streams its output as it arrives. */
  stream: (program: Program, settings: CommandSettings = {}, options?: CreateOptions) =>
    client.commands.stream(id, { ...programOf(program), ...settings }, options),
});

const createNotebookCalls = (client: Client, id: string) => ({
  /** Runs all cells of a notebook, and waits; the file then has their outputs. */
  run: (path: string, settings: NotebookSettings = {}, options?: CreateOptions) =>
    client.notebooks.run(id, { path, ...settings }, options),
  /** Runs all cells, and streams them as they run. */
  stream: (path: string, settings: NotebookSettings = {}, options?: CreateOptions) =>
    client.notebooks.stream(id, { path, ...settings }, options),
  /** Starts a run, and resolves at once. */
  start: (path: string, settings: NotebookSettings = {}, options?: CreateOptions) =>
    client.notebooks.start(id, { path, ...settings }, options),
});

const createPackageCalls = (client: Client, id: string) => ({
  ...ofBox(client.packages, id),
  /** Installs packages, and waits. */
  install: (packages: string[], settings: InstallSettings = {}, options?: CreateOptions) =>
    client.packages.install(id, { packages, ...settings }, options),
  /** Installs packages, and streams the output of the installer. */
  stream: (packages: string[], settings: InstallSettings = {}, options?: CreateOptions) =>
    client.packages.stream(id, { packages, ...settings }, options),
  /** Starts an installation, and resolves at once. */
  start: (packages: string[], settings: InstallSettings = {}, options?: CreateOptions) =>
    client.packages.start(id, { packages, ...settings }, options),
});

/** A box with everything that can be done in it; `await using` deletes it at the end of its block. */
export class BoxHandle implements AsyncDisposable {
  readonly id: string;
  /** The box as the last call about it described it. */
  info: Box;
  readonly executions: OfBox<Client['executions']>;
  readonly contexts: OfBox<Client['contexts']>;
  readonly commands: ReturnType<typeof createCommandCalls>;
  readonly notebooks: ReturnType<typeof createNotebookCalls>;
  readonly packages: ReturnType<typeof createPackageCalls>;
  readonly exports: OfBox<Client['exports']>;
  readonly files: OfBox<Client['files']>;
  readonly links: OfBox<Client['links']>;
  readonly ports: OfBox<Client['ports']>;
  readonly terminals: OfBox<Client['terminals']>;
  readonly #client: Client;

  constructor(client: Client, info: Box) {
    const { id } = info;
    this.id = id;
    this.info = info;
    this.#client = client;
    this.executions = ofBox(client.executions, id);
    this.contexts = ofBox(client.contexts, id);
    this.commands = createCommandCalls(client, id);
    this.notebooks = createNotebookCalls(client, id);
    this.packages = createPackageCalls(client, id);
    this.exports = ofBox(client.exports, id);
    this.files = ofBox(client.files, id);
    this.links = ofBox(client.links, id);
    this.ports = ofBox(client.ports, id);
    this.terminals = ofBox(client.terminals, id);
  }

  /** Runs code, and waits for its end. Code that fails is a result with a status, not an error. */
  run(code: string, settings: RunSettings = {}, options?: CreateOptions): Promise<Execution> {
    return this.#client.executions.run(this.id, { code, ...settings }, options);
  }

  /** Starts code, and resolves at once; its events can be read later. */
  start(code: string, settings: RunSettings = {}, options?: CreateOptions): Promise<ExecutionSummary> {
    return this.#client.executions.start(this.id, { code, ...settings }, options);
  }

  /** Runs code, and streams its events as they arrive; a stream that is cut is resumed. */
  async stream(code: string, settings: RunSettings = {}, options?: CreateOptions): Promise<RunningCode> {
    const { executions } = this.#client;
    const events = await executions.stream(this.id, { code, ...settings }, options);
    return {
      ...events,
      input: (text, callOptions) => executions.input(this.id, events.id, text, callOptions),
      interrupt: (callOptions) => executions.interrupt(this.id, events.id, callOptions),
    };
  }

  /** Reads the box again. */
  async refresh(options?: CallOptions): Promise<Box> {
    return this.#keep(await this.#client.boxes.read(this.id, options));
  }

  /** Changes metadata, times and what happens when the box is idle. */
  async update(body: UpdateBox, options?: CallOptions): Promise<Box> {
    return this.#keep(await this.#client.boxes.update(this.id, body, options));
  }

  /** Restarts the idle time. */
  async keepalive(options?: CallOptions): Promise<Box> {
    return this.#keep(await this.#client.boxes.keepalive(this.id, options));
  }

  /** Freezes the box with its variables. Any use resumes it. */
  async pause(options?: CallOptions): Promise<Box> {
    return this.#keep(await this.#client.boxes.pause(this.id, options));
  }

  /** Stores the files of the box and ends its instance. Any use restores it. */
  async hibernate(options?: CallOptions): Promise<Box> {
    return this.#keep(await this.#client.boxes.hibernate(this.id, options));
  }

  /** Makes the box ready again. */
  async resume(options?: CallOptions): Promise<Box> {
    return this.#keep(await this.#client.boxes.resume(this.id, options));
  }

  /** Current and peak usage of the box, against its limits. */
  stats(options?: CallOptions) {
    return this.#client.boxes.stats(this.id, options);
  }

  /** Deletes the box with its files; deleting it again has no effect. */
  delete(options?: CallOptions): Promise<void> {
    return this.#client.boxes.delete(this.id, options);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.delete();
  }

  #keep(info: Box): Box {
    this.info = info;
    return info;
  }
}
