/**
 * THE port between the gateway and whatever embodies a box. A driver makes, describes and destroys instances; it never
 * sees code, files or processes: those go to the box server at the instance's address.
 */

/** What an instance may use. Enforced by the kernel, not by the box. */
export interface Limits {
  /** CPUs, fractions allowed; at least 0.1. */
  cpus: number;
  /** Memory including page cache and tmpfs, in MiB. No swap on top. */
  memoryMb: number;
  /** The box's volume at `/mnt`, in MiB. */
  diskMb: number;
  /** Processes and threads. */
  pids: number;
}

/** Limits that an instance may be given anew while it runs. */
export type BindableLimits = Omit<Limits, 'diskMb'>;

/** `none`: loopback only. `internet`: public addresses only, never the host, the gateway or another box. */
export type NetworkPolicy = 'none' | 'internet';

export interface InstanceSpec {
  /** Chosen by the caller: `[a-z0-9-]{1,40}`, unique per deployment, never used again. */
  id: string;
  /** What its box server answers to alone: `CODEBOX_TOKEN` of its environment. */
  token: string;
  /** The template's image: an image reference for docker, ignored by drivers whose `capabilities.images` is false. */
  image: string;
  limits: Limits;
  network: NetworkPolicy;
  /** Whether `bind` may give it another network. It takes longer to start then, so only what nobody waits for should. */
  takesNetwork?: boolean;
}

/** What a running instance is to be from now on; what is left out stays as it is. */
export interface Binding {
  limits?: Partial<BindableLimits>;
  network?: NetworkPolicy;
}

/**
 * Why an instance does not run: it cannot be placed, its image cannot be had, it was killed for memory, its host ended it for want of
 * something or for a more important one, its host is gone for good, or it ended by itself.
 */
export type WhyCode = 'unschedulable' | 'image' | 'oom' | 'evicted' | 'preempted' | 'node_lost' | 'exit';

export interface Why {
  code: WhyCode;
  /** The backend's own words, for the log; callers never see them. */
  detail: string;
}

/**
 * `pending`: accepted, its processes do not run yet. `running`: they do, or are frozen. `ended`: they do not run any more and never will.
 * Unknown is no state: where the backend cannot tell, the call throws `unavailable`.
 */
export interface Instance {
  id: string;
  state: 'pending' | 'running' | 'ended';
  /** Where its box server listens: `unix:/absolute/path` or `tcp:address:port`. Present from `running` on. */
  address?: string;
  /** Why it has ended, or, while it is pending, why it is no use to wait for it. `list` may leave it out. */
  why?: Why;
}

/** What instances may be promised together. */
export interface MachineCapacity {
  memoryMb: number;
}

/** What a driver can do here and now, as data: callers branch on it, drivers never carry stubs that throw. */
export interface Capabilities {
  /** Whether templates choose an image. */
  images: boolean;
  networks: readonly NetworkPolicy[];
  /** Why each of the others cannot be had, as it follows "because"; shown to callers. */
  networkObstacles: Readonly<Partial<Record<NetworkPolicy, string>>>;
  /** Whether a full volume is an error that the program in the box sees (ENOSPC), and not the end of the box. */
  disk: { isFullAnError: boolean };
  /** Who holds each limit: each instance its own, its host one that is the same for all of them, or nobody. */
  limits: Readonly<Record<keyof Limits, 'instance' | 'node' | false>>;
  /** What `bind` can change: these limits, and between these networks where an instance was made with `takesNetwork`. */
  bind: { limits: readonly (keyof BindableLimits)[]; networks: readonly NetworkPolicy[] };
  /** Whether there are `freeze` and `thaw`. */
  freeze: boolean;
  /** How many instances may be started at the same time without getting in each other's way. */
  startsAtOnce: number;
  /** Plain sentences on what is weaker than it should be; empty when nothing is. */
  weaknesses: readonly string[];
}

export interface InstanceUsage {
  /** When this was so; a backend may measure only now and then. */
  at: Date;
  /** Since its start. */
  cpuMs: number;
  memoryBytes: number;
  pids: number;
  /** Since its start, where the backend knows. */
  peakMemoryBytes?: number;
  /** Processes killed by the memory limit since the start, where the backend knows. */
  oomKills?: number;
}

/**
 * Errors: every method throws `CodeBoxError` with code `unavailable` when the backend does not answer within its deadline,
 * `internal` for anything unforeseen. All methods honour `signal`.
 */
export interface Driver {
  /** What it is called in the configuration, in metrics and in the log. */
  readonly kind: string;
  /** The name of the place where its instances live, `[a-z0-9-]{1,40}`: rows of boxes and instances are partitioned by it. */
  readonly site: string;
  /** Stands for that place itself: the same for all gateways that reach the same instances, and for no others. */
  readonly place: string;
  readonly capabilities: Capabilities;
  /** Throws unless instances can be made here just now. */
  ping(signal: AbortSignal): Promise<void>;
  /** What instances may use together; undefined when only the configuration can say. */
  capacity(signal: AbortSignal): Promise<MachineCapacity | undefined>;
  /**
   * Stands for all but the spec that an instance from this image would be made from now: what the image holds, the settings of
   * the driver, the box server. Another text means that instances made before are outdated; an image that is not there has one
   * too. Asked for in each sweep: a driver that can answers from memory.
   */
  revision(image: string, signal: AbortSignal): Promise<string>;
  /**
   * Has one instance made and returns it once the backend has accepted it, be it `pending` or `running`; its box server may still be
   * starting. On an error nothing is left behind. A second call with the same spec returns what there is, also when that has ended
   * meanwhile; one with the same id and another spec fails with `conflict`, one that `destroy` has broken off with `gone`. Throws
   * InstanceFailed when it knows why there cannot be such an instance.
   */
  create(spec: InstanceSpec, signal: AbortSignal): Promise<Instance>;
  /** Ends all its processes and removes everything that belongs to it, volume included, also while it is being made. Idempotent. */
  destroy(id: string, signal: AbortSignal): Promise<void>;
  /** Everything of this deployment, running or not, also what a crash left half made. */
  list(signal: AbortSignal): Promise<Instance[]>;
  /** One instance, or undefined when there is none. */
  inspect(id: string, signal: AbortSignal): Promise<Instance | undefined>;
  /**
   * Changes a running instance before its box is handed out. Returns once the change has been read back as being in force; throws
   * `unavailable` when it is not, and for what `capabilities.bind` does not name. The instance is then to be destroyed: part of
   * the change may be in force. `not_found` when there is none that runs. What was sized after the memory at the start, `/tmp`
   * and `/dev/shm`, stays as it is.
   */
  bind(id: string, change: Binding, signal: AbortSignal): Promise<void>;
  /** Stops all its processes in place, memory kept; `thaw` lets them go on. Both idempotent, and there when `capabilities.freeze`. */
  freeze?(id: string, signal: AbortSignal): Promise<void>;
  thaw?(id: string, signal: AbortSignal): Promise<void>;
  /** What is known of the use of these instances. Those that do not run, or cannot be measured just now, are left out. */
  usage(ids: readonly string[], signal: AbortSignal): Promise<Map<string, InstanceUsage>>;
  /**
   * Calls `onChange` when an instance may have ended, or, without an id, when any may have, until it is disposed. These are hints: some
   * may be wrong, and some may never come; what `inspect` says counts.
   */
  watch?(onChange: (id?: string) => void): Disposable;
}
