import type { HostConfig } from 'dockerode';
import { GenericContainer, getContainerRuntimeClient, Wait } from 'testcontainers';
import type { ComposeService, ComposeVolume } from './compose-file.ts';

/** Maps the name of a network or volume in the file to its name on the daemon, prefixed by the project as Docker Compose does. */
export type Naming = (name: string) => string;

const startDeadlineMs = 120_000;
const nanosPerMs = 1_000_000;

/**
 * One service of a compose file as a container of Testcontainers, with all its settings. It is a class because that library
 * configures containers by inheritance. Starting it resolves once it is healthy or, for a service that does not restart, once it
 * has exited successfully.
 */
export class ServiceContainer extends GenericContainer {
  readonly #aliases: string[];
  readonly #otherNetworks: string[];

  constructor(name: string, service: ComposeService, naming: Naming, labels: Record<string, string>) {
    super(service.image);
    const networks = service.networks.map(naming);
    this.#aliases = [name];
    this.#otherNetworks = networks.slice(1);
    const first = networks[0];

    this.withName(naming(name)).withLabels(labels).withEnvironment(service.environment);
    this.withStartupTimeout(startDeadlineMs);
    this.withWaitStrategy(service.restart === undefined ? Wait.forOneShotStartup() : Wait.forHealthCheck());
    if (service.entrypoint) this.withEntrypoint(service.entrypoint);
    if (service.command) this.withCommand(service.command);
    if (service.user) this.withUser(service.user);
    this.withNetworkMode(service.network_mode ?? first ?? 'default');
    if (first !== undefined) {
      this.createOpts.NetworkingConfig = { EndpointsConfig: { [first]: { Aliases: this.#aliases } } };
    }
    this.createOpts.ExposedPorts = Object.fromEntries(service.ports.map((port) => [containerPort(port), {}]));
    if (service.stop_grace_period) this.createOpts.StopTimeout = service.stop_grace_period / 1000;
    if (service.healthcheck) this.createOpts.Healthcheck = healthcheck(service.healthcheck);
    Object.assign(this.hostConfig, hostConfig(service, naming));
  }

  protected override async containerCreated(id: string): Promise<void> {
    const { dockerode } = (await getContainerRuntimeClient()).container;
    for (const network of this.#otherNetworks) {
      await dockerode.getNetwork(network).connect({ Container: id, EndpointConfig: { Aliases: this.#aliases } });
    }
  }
}

const healthcheck = (check: NonNullable<ComposeService['healthcheck']>) => ({
  Test: check.test,
  Interval: check.interval * nanosPerMs,
  Timeout: check.timeout * nanosPerMs,
  StartPeriod: check.start_period * nanosPerMs,
  Retries: check.retries,
});

const hostConfig = (service: ComposeService, naming: Naming): HostConfig => ({
  CapDrop: service.cap_drop,
  CapAdd: service.cap_add,
  SecurityOpt: service.security_opt,
  DeviceCgroupRules: service.device_cgroup_rules,
  ReadonlyRootfs: service.read_only,
  Tmpfs: Object.fromEntries(service.tmpfs.map(tmpfs)),
  Binds: service.volumes.map((volume) => bind(volume, naming)),
  PortBindings: Object.fromEntries(service.ports.map(portBinding)),
  RestartPolicy: { Name: service.restart ?? 'no' },
  ...(service.pid === undefined ? {} : { PidMode: service.pid }),
  ...(service.shm_size === undefined ? {} : { ShmSize: service.shm_size }),
  ...(service.logging === undefined
    ? {}
    : { LogConfig: { Type: service.logging.driver, Config: service.logging.options } }),
});

const tmpfs = (text: string): [string, string] => {
  const colon = text.indexOf(':');
  return colon < 0 ? [text, ''] : [text.slice(0, colon), text.slice(colon + 1)];
};

const bind = (volume: ComposeVolume, naming: Naming): string => {
  const source = volume.type === 'volume' ? naming(volume.source) : volume.source;
  const propagation = volume.type === 'bind' && volume.bind ? [volume.bind.propagation] : [];
  return [source, volume.target, [volume.read_only ? 'ro' : 'rw', ...propagation].join(',')].join(':');
};

const containerPort = (port: string): string => `${port.split(':')[2]}/tcp`;

const portBinding = (port: string): [string, { HostIp: string; HostPort: string }[]] => {
  const [ip = '', host = ''] = port.split(':');
  return [containerPort(port), [{ HostIp: ip, HostPort: host }]];
};
