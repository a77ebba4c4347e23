import { randomInt } from 'node:crypto';
import { getContainerRuntimeClient, type StartedTestContainer } from 'testcontainers';
import type { ComposeFile, ComposeService } from './compose-file.ts';
import { ServiceContainer } from './compose-service.ts';

const removeDeadlineMs = 30_000;
const maxOutputLength = 8000;

export interface ComposeProject {
  /** Starts another service of the file, such as one of a profile. */
  start(name: string, service: ComposeService): Promise<void>;
  /** Returns a running service; throws if there is none of that name. */
  service(name: string): StartedTestContainer;
  /** The last output of a service, over all its starts. */
  output(name: string): string;
  /** The addresses of a service, one per network. */
  addresses(name: string): Promise<string[]>;
  /** Removes containers, networks and volumes, as `docker compose down --volumes`. Idempotent; also works after a failed start. */
  down(): Promise<void>;
  /** Resolves with everything that the daemon still has of this project, as `kind name`. */
  leftovers(): Promise<string[]>;
}

/** The label that everything of a project carries. */
const projectLabel = 'com.docker.compose.project';

/**
 * Starts a compose file as `docker compose up --wait` would: each service once its dependencies are met. `name` prefixes every
 * name on the daemon. If a service does not start, everything is removed and the Error contains its last output.
 */
export const startComposeProject = async (file: ComposeFile, name: string): Promise<ComposeProject> => {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const labels = { [projectLabel]: name };
  const naming = (part: string) => `${name}_${part}`;
  const output = new Map<string, string>();
  const running = new Map<string, StartedTestContainer>();
  const filters = JSON.stringify({ label: [`${projectLabel}=${name}`] });

  const startService = async (serviceName: string, service: ComposeService | undefined): Promise<void> => {
    if (service === undefined) throw new Error(`There is no service ${serviceName}.`);
    const note = (chunk: Buffer | string) => {
      output.set(serviceName, `${output.get(serviceName) ?? ''}${chunk}`.slice(-maxOutputLength));
    };
    try {
      const container = new ServiceContainer(serviceName, service, naming, labels);
      // The output is collected now, because the container of a failed start is removed.
      running.set(serviceName, await container.withLogConsumer((stream) => stream.on('data', note)).start());
    } catch (cause) {
      throw new Error(`Service ${serviceName} did not start: ${cause}\n${output.get(serviceName)}`, { cause });
    }
  };

  const project: ComposeProject = {
    start: startService,
    service(serviceName) {
      const found = running.get(serviceName);
      if (found === undefined) throw new Error(`Service ${serviceName} does not run.`);
      return found;
    },
    output: (serviceName) => output.get(serviceName) ?? '',
    async addresses(serviceName) {
      const { NetworkSettings } = await dockerode.getContainer(naming(serviceName)).inspect();
      return Object.values(NetworkSettings.Networks).map(({ IPAddress }) => IPAddress);
    },
    async down() {
      const signal = AbortSignal.timeout(removeDeadlineMs);
      for (const { Id } of await dockerode.listContainers({ all: true, filters, abortSignal: signal })) {
        await dockerode.getContainer(Id).remove({ force: true, v: true, abortSignal: signal });
      }
      for (const { Id } of await dockerode.listNetworks({ filters, abortSignal: signal })) {
        await dockerode.getNetwork(Id).remove({ abortSignal: signal });
      }
      for (const { Name } of (await dockerode.listVolumes({ filters, abortSignal: signal })).Volumes) {
        await dockerode.getVolume(Name).remove({ abortSignal: signal });
      }
    },
    async leftovers() {
      const containers = await dockerode.listContainers({ all: true, filters });
      const networks = await dockerode.listNetworks({ filters });
      const volumes = await dockerode.listVolumes({ filters });
      return [
        ...containers.map(({ Names }) => `container ${Names[0]}`),
        ...networks.map(({ Name }) => `network ${Name}`),
        ...volumes.Volumes.map(({ Name }) => `volume ${Name}`),
      ];
    },
  };

  try {
    for (const [network, settings] of Object.entries(file.networks)) {
      const Internal = settings?.internal ?? false;
      const IPAM = { Driver: 'default', Config: [{ Subnet: randomSubnet() }] };
      await dockerode.createNetwork({ Name: naming(network), Driver: 'bridge', Internal, IPAM, Labels: labels });
    }
    for (const volume of Object.keys(file.volumes)) {
      await dockerode.createVolume({ Name: naming(volume), Labels: labels });
    }
    for (const serviceName of startOrder(file)) await startService(serviceName, file.services[serviceName]);
  } catch (error) {
    await project.down();
    throw error;
  }
  return project;
};

/**
 * Returns sixteen addresses of the range reserved for network benchmarks. The default pool of the daemon has only 31 networks,
 * which may be used up on a machine that runs many tests.
 */
const randomSubnet = (): string => `198.18.${randomInt(256)}.${randomInt(16) * 16}/28`;

/** Returns every service without a profile, after its dependencies. */
const startOrder = ({ services }: ComposeFile): string[] => {
  const order: string[] = [];
  const visit = (name: string, above: string[]): void => {
    if (above.includes(name)) throw new Error(`Services wait for each other: ${[...above, name].join(' → ')}`);
    if (order.includes(name)) return;
    for (const dependency of Object.keys(services[name]?.depends_on ?? {})) visit(dependency, [...above, name]);
    order.push(name);
  };
  for (const [name, { profiles }] of Object.entries(services)) if (profiles.length === 0) visit(name, []);
  return order;
};
