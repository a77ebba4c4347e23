/**
 * The port between the gateway and the backend that runs boxes. A driver creates, describes and destroys instances; it never handles code,
 * files or processes: those go to the box server at the address of the instance.
 */

/** The resource limits of an instance, enforced by the kernel, not by the box. */
export interface Limits {
  /** CPUs, fractions allowed; at least 0.1. */
  cpus: number;
  /** Memory including page cache and tmpfs, in MiB, without additional swap. */
  memoryMb: number;
  /** The volume of the box at `/mnt`, in MiB. */
  diskMb: number;
  /** Processes and threads. */
  pids: number;
}

/** Limits that can be changed while an instance runs. */
export type BindableLimits = Omit<Limits, 'diskMb'>;

/** `none`: loopback only. `internet`: public addresses only, never the host, the gateway or another box. */
export type NetworkPolicy = 'none' | 'internet';

/** Where a template's instances run, in the terms of the driver, which alone reads it. */
export type Placement = Readonly<Record<string, unknown>>;

/** The kind of a whole GPU. */
export const wholeGpu = 'nvidia.com/gpu';

/** GPUs of an instance, or shares of them. */
export interface Gpus {
  count: number;
  /** What each of them is, as Kubernetes names the resource: `wholeGpu`, or a share such as `nvidia.com/mig-1g.5gb`. */
  kind: string;
}

/** A file system of a fixed size, which outlives instances and which several of them can have at once. */
export interface Volume {
  /** Chosen by the caller: `[a-z0-9-]{1,40}`, never reused. */
  id: string;
  sizeMb: number;
  /** All volumes of an instance have the same. */
  owner: string;
}

/** A volume as an instance has it. */
export interface VolumeMount extends Volume {
  /** The name of its folder in `/volumes`. */
  folder: string;
  readOnly: boolean;
}

export interface InstanceSpec {
  /** Chosen by the caller: `[a-z0-9-]{1,40}`, unique per deployment, never reused. */
  id: string;
  /** The token that its box server requires in every request; passed as `CODEBOX_TOKEN` in its environment. */
  token: string;
  /** The template's image: an image reference for docker, ignored by drivers whose `capabilities.images` is false. */
  image: string;
  limits: Limits;
  network: NetworkPolicy;
  /** The name of the template, for people who look at the backend; without effect. */
  template?: string;
  /** Valid according to `checkPlacement`. */
  placement?: Placement;
  /** Valid according to `gpuObstacle`. */
  gpus?: Gpus;
  /** False for a box server of its own, where others are forked from one process; where they are not, without effect. */
  parent?: boolean;
  /** Whether `bind` may change its network. It then takes longer to start, so this suits instances that no caller waits for. */
  takesNetwork?: boolean;
  /** Where `volumesObstacle` is undefined. */
  volumes?: readonly VolumeMount[];
}

/** A change of a running instance; omitted fields stay unchanged. */
export interface Binding {
  limits?: Partial<BindableLimits>;
  network?: NetworkPolicy;
  /** Volumes of an instance that has none yet. */
  volumes?: readonly VolumeMount[];
}

/**
 * Why an instance does not run: no host has capacity for it, its image is not available, it exceeded its memory limit, its host evicted it
 * for lack of a resource, a more important instance preempted it, its host is lost, it exited by itself, a volume of it is missing, or the
 * backend refuses to create such an instance, or to give it GPUs, and will do so again.
 */
export type WhyCode =
  | 'unschedulable'
  | 'image'
  | 'oom'
  | 'evicted'
  | 'preempted'
  | 'node_lost'
  | 'exit'
  | 'refused'
  | 'gpu'
  | 'volume';

export interface Why {
  code: WhyCode;
  /** The message of the backend, for the log; it is never shown to callers. */
  detail: string;
  /** When another attempt may succeed, if the backend knows. */
  retryAfterSeconds?: number;
}

/**
 * `pending`: accepted, but its processes do not run yet. `running`: its processes run or are frozen. `ended`: its processes have ended for
 * good. There is no unknown state: when the backend cannot determine the state, the call throws `unavailable`.
 */
export interface Instance {
  id: string;
  state: 'pending' | 'running' | 'ended';
  /** The address of its box server: `unix:/absolute/path` or `tls:address:port`. Present from `running` on. */
  address?: string;
  /** Whether the backend is adding a host for it while it is pending, which may take minutes. */
  awaitsHost?: boolean;
  /** Why it has ended or, while it is pending, why it will not start. `list` may omit it. */
  why?: Why;
}

/** The capacity for all instances together. */
export interface MachineCapacity {
  memoryMb: number;
}

/** The abilities of a driver in this environment, as data: callers branch on them, so drivers need no stubs that throw. */
export interface Capabilities {
  /** Whether a template can choose its image. */
  images: boolean;
  networks: readonly NetworkPolicy[];
  /** Why each other network is not available, as a clause that follows "because"; shown to callers. */
  networkObstacles: Readonly<Partial<Record<NetworkPolicy, string>>>;
  /** Whether a full volume is an error for programs in the box (ENOSPC) rather than the end of the box. */
  disk: { isFullAnError: boolean };
  /** Why instances cannot have volumes, as a clause that follows "because" and is shown to callers; undefined where they can. */
  volumesObstacle?: string;
  /** Whether instances have kernels of their own, so that sockets and pipes in a volume connect no instances; false by default. */
  hasOwnKernel?: boolean;
  /** How each limit is enforced: for each instance, by one value for all instances of a host, or not at all. */
  limits: Readonly<Record<keyof Limits, 'instance' | 'node' | false>>;
  /**
   * `bind` can change these limits, the network of an instance that was created with `takesNetwork` to one of these, and whether it can add
   * volumes.
   */
  bind: { limits: readonly (keyof BindableLimits)[]; networks: readonly NetworkPolicy[]; volumes: boolean };
  /** Whether `freeze` and `thaw` are present. */
  freeze: boolean;
  /** How many instances can start concurrently without slowing each other down. */
  startsAtOnce: number;
  /** How many of these may be warm instances, for which no caller waits. */
  warmStartsAtOnce: number;
  /** Sentences on parts of the isolation that are weaker than intended; empty when none is. */
  weaknesses: readonly string[];
}

export interface InstanceUsage {
  /** The time of the measurement; a backend may measure only now and then. */
  at: Date;
  /** CPU time since the start. */
  cpuMs: number;
  memoryBytes: number;
  pids: number;
  /** The peak since the start, if the backend measures it. */
  peakMemoryBytes?: number;
  /** Processes killed at the memory limit since the start, if the backend counts them. */
  oomKills?: number;
}

/** The volumes of a driver. */
interface Volumes {
  /** Creates an empty volume; without an effect when it exists. Throws `unavailable` when there is no room for it. */
  make(volume: Volume, signal: AbortSignal): Promise<void>;
  /** Removes a volume with its files. Instances that have it keep it until they end. Idempotent. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** Lists the ids of all volumes of this deployment. */
  list(signal: AbortSignal): Promise<string[]>;
}

/**
 * Every method throws a `CodeBoxError`: `unavailable` when the backend does not respond within its deadline, `internal` for anything
 * unforeseen. All methods honour `signal`.
 */
export interface Driver {
  /** The name of the driver in the configuration, in metrics and in the log. */
  readonly kind: string;
  /** The name of the site where its instances run, `[a-z0-9-]{1,40}`: rows of boxes and instances are partitioned by it. */
  readonly site: string;
  /** Identifies the place behind that name: equal for gateways that reach the same instances, and only for those. */
  readonly place: string;
  readonly capabilities: Capabilities;
  /** Throws a ConfigurationError unless a placement is valid. Absent where instances cannot be placed. */
  checkPlacement?(placement: Placement): void;
  /** Returns why no instance can have these GPUs, as a clause that follows "because"; undefined if instances can. Absent where none has any. */
  gpuObstacle?(gpus: Gpus): string | undefined;
  /** Throws unless instances can be created now. */
  ping(signal: AbortSignal): Promise<void>;
  /**
   * Resolves with the resources that all instances may use together; with undefined where only the configuration can tell, for example
   * because they change by themselves. Read once, at the start: limits derived from it, such as the largest box of a template, hold for
   * as long as the gateway runs.
   */
  capacity(signal: AbortSignal): Promise<MachineCapacity | undefined>;
  /**
   * Resolves with a digest of everything but the spec that an instance from this image would be created from: the content of the image,
   * the settings of the driver, the box server. A different digest means that earlier instances are outdated; a missing image has a digest
   * too. It is called in each sweep, so a driver should cache it.
   */
  revision(image: string, signal: AbortSignal): Promise<string>;
  /** Whether instances from this image cannot be created because it is missing. Absent where images are pulled when they are needed. */
  lacksImage?(image: string, signal: AbortSignal): Promise<boolean>;
  /**
   * Creates one instance and resolves once the backend has accepted it, be it `pending` or `running`; its box server may still be starting.
   * After an error nothing is left behind. A second call with the same spec resolves with the existing instance, even one that has ended.
   * Throws `conflict` for the same id with another spec, `gone` when `destroy` has interrupted the creation, and InstanceFailed when the
   * cause of the failure is known.
   */
  create(spec: InstanceSpec, signal: AbortSignal): Promise<Instance>;
  /** Ends all processes of an instance and removes everything that belongs to it, including its volume, even during its creation. Idempotent. */
  destroy(id: string, signal: AbortSignal): Promise<void>;
  /** Lists all instances of this deployment, running or not, including incomplete ones that a crash has left. */
  list(signal: AbortSignal): Promise<Instance[]>;
  /** Resolves with one instance, or undefined when there is none. */
  inspect(id: string, signal: AbortSignal): Promise<Instance | undefined>;
  /**
   * Changes a running instance. Resolves once the change has been read back and is in force. Throws `unavailable` when it is not, and for a
   * change that `capabilities.bind` does not name; part of the change may be in force then. Throws `conflict`, and changes nothing, for
   * another network of an instance that was created without `takesNetwork`, and `not_found` when no such instance runs. `/tmp` and
   * `/dev/shm`, sized by the memory at the start, stay unchanged.
   */
  bind(id: string, change: Binding, signal: AbortSignal): Promise<void>;
  /** Stops all processes of an instance in place, with their memory; `thaw` resumes them. Both are idempotent, and present if `capabilities.freeze`. */
  freeze?(id: string, signal: AbortSignal): Promise<void>;
  thaw?(id: string, signal: AbortSignal): Promise<void>;
  /** Present unless `capabilities.volumesObstacle` is. */
  readonly volumes?: Volumes;
  /** Measures the usage of these instances. Those that do not run or cannot be measured now are omitted. */
  usage(ids: readonly string[], signal: AbortSignal): Promise<Map<string, InstanceUsage>>;
  /**
   * Resolves when an instance may have changed since the call and `inspect` may return something else, and after some seconds in any case.
   * Never rejects. Absent where the backend does not report changes.
   */
  changed?(id: string, signal: AbortSignal): Promise<void>;
  /**
   * Calls `onChange` when an instance may have ended or, without an id, when any may have, until it is disposed of. These are hints: some may
   * be wrong and some may be missing; `inspect` is authoritative.
   */
  watch?(onChange: (id?: string) => void): Disposable;
}
