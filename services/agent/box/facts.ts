import type { Box, Client, Package } from '#contract';
import type { Facts } from '../loop/workspace.ts';

/** Libraries whose versions a model should know: those that read, compute, plot and write data. */
const relevantLibraries = new Set(
  `beautifulsoup4 bokeh duckdb fastparquet geopandas imageio lxml matplotlib networkx numpy opencv-python
   opencv-python-headless openpyxl pandas pillow plotly polars pyarrow pypdf python-docx python-pptx reportlab requests
   scikit-image scikit-learn scipy seaborn sqlalchemy statsmodels sympy tensorflow torch xgboost xlsxwriter`.split(
    /\s+/,
  ),
);

/** Python's version syntax: anything else that a box reports would put arbitrary words into a system prompt. */
const versionPattern = /^[\w.+!-]{1,40}$/;

const keptMs = 600_000;
const maxKept = 1000;

/** A box, and the client and tenant that it belongs to. */
interface BoxOfTenant {
  client: Client;
  tenant: string;
  box: Box;
}

interface Image {
  languages: readonly string[];
  packages: readonly string[];
}

/**
 * `name version` of the relevant libraries that came with the image; unknown names and invalid versions are dropped.
 */
export const namedOf = (packages: readonly Package[]): string[] => {
  const versions = new Map<string, string>();
  for (const { name, version, source } of packages) {
    const known = name.toLowerCase();
    if (source === 'image' && relevantLibraries.has(known) && versionPattern.test(version))
      versions.set(known, version);
  }
  return [...versions].map(([name, version]) => `${name} ${version}`);
};

/**
 * Describes the abilities of boxes, according to their template and their own packages. The packages of an image are read once per ten
 * minutes, template and tenant: what one tenant's box reports is never shown to another tenant.
 */
export const createFacts = ({ now = () => performance.now() }: { now?: () => number } = {}) => {
  const images = new Map<string, { at: number; image: Image }>();

  const readImage = async ({ client, tenant, box }: BoxOfTenant, signal: AbortSignal): Promise<Image> => {
    const id = JSON.stringify([tenant, box.template]);
    const known = images.get(id);
    if (known && now() - known.at < keptMs) return known.image;
    const { language, languages } = await client.templates.read(box.template, { signal });
    const packages: Package[] = [];
    for await (const entry of client.packages.list(box.id, {}, { signal })) packages.push(entry);
    const image = { languages: languages ?? [language], packages: namedOf(packages) };
    // They are known once an instance of the template's current image has been started.
    if (languages === null) return image;
    images.delete(id);
    images.set(id, { at: now(), image });
    const [oldest] = images.keys();
    if (images.size > maxKept && oldest !== undefined) images.delete(oldest);
    return image;
  };

  return {
    async read(owned: BoxOfTenant, executionSeconds: number, signal: AbortSignal): Promise<Facts> {
      const { box } = owned;
      const { cpus, memoryMb, diskMb, pids } = box.limits;
      return {
        ...(await readImage(owned, signal)),
        template: box.template,
        limits: { cpus, memoryMb, diskMb, pids },
        hasNetwork: box.network === 'internet',
        executionSeconds,
      };
    },
  };
};

export type FactsOfBoxes = ReturnType<typeof createFacts>;
