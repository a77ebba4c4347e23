import type { Parents } from '../../parent/parents.ts';

/** Each parent holds the libraries of its image in memory. */
const maxImages = 4;

/** Keeps one parent for each of the images that were used last. `create` is called with the id of an image. */
export const createImageParents = (create: (image: string) => Parents) => {
  const known = new Map<string, Parents>();
  return (image: string): Parents => {
    const parents = known.get(image) ?? create(image);
    known.delete(image);
    known.set(image, parents);
    const [oldest] = known;
    if (known.size > maxImages && oldest !== undefined) {
      known.delete(oldest[0]);
      oldest[1].leave();
    }
    return parents;
  };
};

export type ImageParents = ReturnType<typeof createImageParents>;
