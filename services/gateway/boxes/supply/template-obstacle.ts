import type { Driver } from '../../drivers/driver.ts';
import type { Template } from './templates.ts';

/** Returns why the driver cannot create boxes of a template, as a clause that follows its name; undefined if it can. */
export const templateObstacle = (
  driver: Pick<Driver, 'kind' | 'capabilities' | 'gpuObstacle'>,
  { hasOwnImage, gpus }: Pick<Template, 'hasOwnImage' | 'gpus'>,
): string | undefined => {
  if (hasOwnImage && !driver.capabilities.images)
    return `has an image of its own, which the ${driver.kind} driver of this deployment cannot use`;
  if (!gpus) return undefined;
  const why = driver.gpuObstacle ? driver.gpuObstacle(gpus) : `boxes of the ${driver.kind} driver have no GPUs`;
  return why && `has GPUs, which this deployment does not offer, because ${why}`;
};
