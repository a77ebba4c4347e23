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

const keptMs = 600_000;

interface Image {
  languages: readonly string[];
  packages: readonly string[];
}

/**
 * What boxes are able to, as their template and their own packages tell. What comes with an image is asked for once in ten
 * minutes per template.
 */
export const createFacts = ({ now = () => performance.now() }: { now?: () => number } = {}) => {
  const images = new Map<string, { at: number; image: Image }>();

  const readImage = async (client: Client, box: Box, signal: AbortSignal): Promise<Image> => {
    const known = images.get(box.template);
    if (known && now() - known.at < keptMs) return known.image;
    const { languages } = await client.templates.read(box.template, { signal });
    const packages: Package[] = [];
    for await (const entry of client.packages.list(box.id, {}, { signal })) packages.push(entry);
    const named = packages.filter(({ name, source }) => source === 'image' && telling.has(name.toLowerCase()));
    const image = { languages, packages: named.map(({ name, version }) => `${name} ${version}`) };
    images.set(box.template, { at: now(), image });
    return image;
  };

  return {
    async read(client: Client, box: Box, executionSeconds: number, signal: AbortSignal): Promise<Facts> {
      const { cpus, memoryMb, diskMb, pids } = box.limits;
      return {
        ...(await readImage(client, box, signal)),
        template: box.template,
        limits: { cpus, memoryMb, diskMb, pids },
        hasNetwork: box.network === 'internet',
        executionSeconds,
      };
    },
  };
};

export type FactsOfBoxes = ReturnType<typeof createFacts>;
