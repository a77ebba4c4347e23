import type { BuildContext } from '../../host/build-context.ts';
import type { Daemon } from './daemon.ts';

/** Enough to install system packages and Python libraries over a slow connection on a slow machine. */
const buildDeadlineMs = 45 * 60_000;

interface BuildMessage {
  stream?: string;
  error?: string;
}

/** Whether the daemon has an image of this name. */
export const hasImage = async (daemon: Daemon, reference: string, signal: AbortSignal): Promise<boolean> =>
  (await daemon.callIfThere(signal, (docker) => docker.getImage(reference).inspect())) !== undefined;

/**
 * Builds the image of boxes unless the daemon has one with exactly this content, tags it `latest` too, and returns its reference. `log` is
 * called with a line for each step and with the output of the installers. Throws an Error with the last lines when the build fails.
 */
export const ensureBoxImage = async (
  daemon: Daemon,
  context: BuildContext,
  {
    repository = 'codebox-box',
    target,
    buildArgs = {},
    log,
    signal,
  }: {
    repository?: string;
    /** The stage of the Dockerfile to build, instead of the last one. */
    target?: string;
    buildArgs?: Record<string, string>;
    log: (line: string) => void;
    signal: AbortSignal;
  },
): Promise<string> => {
  const reference = `${repository}:${context.hash}`;
  if (await hasImage(daemon, reference, signal)) return reference;
  log(`Building the image ${reference}. The first build takes some minutes.`);
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(buildDeadlineMs)]);
  const messages = await daemon.call(
    deadline,
    (docker, abortSignal) =>
      docker.buildImage(context.tar(), {
        t: reference,
        buildargs: buildArgs,
        ...(target !== undefined && { target }),
        rm: true,
        forcerm: true,
        abortSignal,
      }),
    buildDeadlineMs,
  );
  await follow(daemon, messages, log);
  await daemon.call(deadline, (docker, abortSignal) =>
    docker.getImage(reference).tag({ repo: repository, tag: 'latest', abortSignal }),
  );
  log(`The image ${reference} is ready.`);
  return reference;
};

const follow = (daemon: Daemon, messages: NodeJS.ReadableStream, log: (line: string) => void): Promise<void> => {
  const last: string[] = [];
  const onMessage = ({ stream }: BuildMessage) => {
    for (const line of (stream ?? '').split('\n').filter((text) => text.trim() !== '')) {
      last.push(line);
      if (last.length > 30) last.shift();
      log(line);
    }
  };
  return new Promise((done, failed) => {
    daemon.docker.modem.followProgress(
      messages,
      (error, output: BuildMessage[]) => {
        const fault = error?.message ?? output.find((message) => message.error !== undefined)?.error;
        if (fault === undefined) done();
        else failed(new Error(`The image could not be built: ${fault}\n${last.join('\n')}`));
      },
      onMessage,
    );
  });
};
