import type { Box, Client, Package } from '#contract';
import type { Facts } from '../loop/workspace.ts';

/** Libraries that a model should know the versions of: those that data is read, computed, drawn and written with. */
const telling = new Set(
  `beautifulsoup4 bokeh duckdb fastparquet geopandas imageio lxml matplotlib networkx numpy opencv-python
   opencv-python-headless openpyxl pandas pillow plotly polars pyarrow pypdf python-docx python-pptx reportlab requests
   scikit-image scikit-learn scipy seaborn sqlalchemy statsmodels sympy tensorflow torch xgboost xlsxwriter`.split(
    /\s+/,
  ),
);

/** As Python writes versions: what else a box says of its packages would be words in a system prompt. */
const versionPattern = /^[\w.+!-]{1,40}$/;

const keptMs = 600_000;
const maxKept = 1000;

/** A box, and whose it is. */
interface Asked {
  client: Client;
  tenant: string;
  box: Box;
}

interface Image {
  languages: readonly string[];
  packages: readonly string[];
}

/** `name version` of the libraries that matter, of those that came with the image: a name that is known, once, and what is a version. */
export const namedOf = (packages: readonly Package[]): string[] => {
  const versions = new Map<string, string>();
  for (const { name, version, source } of packages) {
    const known = name.toLowerCase();
    if (source === 'image' && telling.has(known) && versionPattern.test(version)) versions.set(known, version);
  }
  return [...versions].map(([name, version]) => `${name} ${version}`);
};

/**
 * What boxes are able to, as their template and their own packages tell. What comes with an image is asked for once in ten
 * minutes per template and tenant: what the box of one says is not told to the others.
 */
export const createFacts = ({ now = () => performance.now() }: { now?: () => number } = {}) => {
  const images = new Map<string, { at: number; image: Image }>();

  const readImage = async ({ client, tenant, box }: Asked, signal: AbortSignal): Promise<Image> => {
    const id = JSON.stringify([tenant, box.template]);
    const known = images.get(id);
    if (known && now() - known.at < keptMs) return known.image;
    const { languages } = await client.templates.read(box.template, { signal });
    const packages: Package[] = [];
    for await (const entry of client.packages.list(box.id, {}, { signal })) packages.push(entry);
    const image = { languages, packages: namedOf(packages) };
    images.delete(id);
    images.set(id, { at: now(), image });
    const [oldest] = images.keys();
    if (images.size > maxKept && oldest !== undefined) images.delete(oldest);
    return image;
  };

  return {
    async read(asked: Asked, executionSeconds: number, signal: AbortSignal): Promise<Facts> {
      const { box } = asked;
      const { cpus, memoryMb, diskMb, pids } = box.limits;
      return {
        ...(await readImage(asked, signal)),
        template: box.template,
        limits: { cpus, memoryMb, diskMb, pids },
        hasNetwork: box.network === 'internet',
        executionSeconds,
      };
    },
  };
};

export type FactsOfBoxes = ReturnType<typeof createFacts>;
