import { getContainerRuntimeClient } from 'testcontainers';

/**
 * Runs a shell script as root in the mount namespace of the Docker daemon, for facts that a test without root cannot see. Resolves with
 * its output; throws if it fails. `image` is that of the services.
 */
export const runOnHost = async (image: string, script: string): Promise<string> => {
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const container = await dockerode.createContainer({
    Image: image,
    Entrypoint: ['codebox-on-host', 'sh', '-c', script],
    Cmd: [],
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      PidMode: 'host',
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      // DAC_OVERRIDE and FOWNER are needed to remove files of the uids of boxes.
      CapAdd: ['SYS_ADMIN', 'SYS_CHROOT', 'SYS_PTRACE', 'DAC_OVERRIDE', 'FOWNER'],
      SecurityOpt: ['apparmor=unconfined'],
      DeviceCgroupRules: ['b 7:* rw', 'c 10:237 rw'],
    },
  });
  try {
    await container.start();
    const { StatusCode } = await container.wait({ abortSignal: AbortSignal.timeout(60_000) });
    const output = demultiplex(await container.logs({ stdout: true, stderr: true }));
    if (StatusCode !== 0) throw new Error(`On the host, ${script} ended with ${StatusCode}: ${output}`);
    return output;
  } finally {
    await container.remove({ force: true, v: true });
  }
};

/** The daemon puts eight bytes before each piece of output: the stream, three zeros and the length. */
const demultiplex = (framed: Buffer): string => {
  let text = '';
  for (let at = 0; at + 8 <= framed.length; ) {
    const end = at + 8 + framed.readUInt32BE(at + 4);
    text += framed.subarray(at + 8, end).toString();
    at = end;
  }
  return text;
};
