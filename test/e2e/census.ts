import { getContainerRuntimeClient } from 'testcontainers';
import { runOnHost } from './host.ts';

const instanceLabel = 'codebox.instance';
const deploymentLabel = 'codebox.deployment';

/** The ids that mark the resources of a box on the daemon and on the host. */
export interface BoxTraces {
  deployment: string;
  instance: string;
}

/** Resolves with the ids of a box that runs out of a data folder, or undefined if there is none. */
export const findBox = async (dataDir: string): Promise<BoxTraces | undefined> => {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const boxes = await dockerode.listContainers({ all: true, filters: { label: [instanceLabel] } });
  const own = boxes.find(({ Mounts }) => Mounts.some(({ Source }) => Source.startsWith(`${dataDir}/`)));
  const [deployment, instance] = [own?.Labels[deploymentLabel], own?.Labels[instanceLabel]];
  return deployment && instance ? { deployment, instance } : undefined;
};

/**
 * Resolves with everything on the machine that belongs to a box and its deployment, as `kind name`: containers, volumes and
 * networks with its label, mounts and files in the data folder, loop devices. `image` is that of the services.
 */
export const takeCensus = async (
  image: string,
  dataDir: string,
  { deployment, instance }: BoxTraces,
): Promise<string[]> => {
  // A loop device names its file by the mount that it was opened through, which the host may not have.
  const script = `
    awk '$5 ~ "^${dataDir}/" { print "mount " $5 }' /proc/self/mountinfo
    ls ${dataDir}/run | sed 's/^/folder /'
    ls ${dataDir}/disks | sed 's/^/disk /'
    losetup --list --noheadings --output BACK-FILE | grep -F ${instance} | sed 's/^/loop /'`;
  const lines = (await runOnHost(image, script)).split('\n').filter((line) => line !== '');
  return [...(await labelled(deployment)), ...lines];
};

const labelled = async (deployment: string): Promise<string[]> => {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const filters = JSON.stringify({ label: [`${deploymentLabel}=${deployment}`] });
  const [containers, volumes, networks] = await Promise.all([
    dockerode.listContainers({ all: true, filters }),
    dockerode.listVolumes({ filters }),
    dockerode.listNetworks({ filters }),
  ]);
  return [
    ...containers.map(({ Names }) => `container ${Names[0]}`),
    ...volumes.Volumes.map(({ Name }) => `volume ${Name}`),
    ...networks.map(({ Name }) => `network ${Name}`),
  ];
};

/** Forcibly removes the resources that a failed test left of the boxes of a deployment, and the data folder with its mount. */
export const sweep = async (image: string, dataDir: string): Promise<void> => {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const found = await findBox(dataDir);
  if (found !== undefined) {
    const filters = JSON.stringify({ label: [`${deploymentLabel}=${found.deployment}`] });
    for (const { Id } of await dockerode.listContainers({ all: true, filters })) {
      await dockerode.getContainer(Id).remove({ force: true, v: true });
    }
    for (const { Name } of (await dockerode.listVolumes({ filters })).Volumes) await dockerode.getVolume(Name).remove();
  }
  await runOnHost(
    image,
    `for point in $(awk '$5 ~ "^${dataDir}(/|$)" { print $5 }' /proc/self/mountinfo | sort -r); do umount --lazy "$point"; done
     for disk in ${dataDir}/disks/*.ext4; do
       for device in $(losetup --noheadings --output NAME --associated "$disk"); do losetup --detach "$device"; done
     done
     rm -rf "${dataDir}"`,
  );
};
