import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Client } from '#contract';

const script = await readFile(join(import.meta.dirname, 'columns.py'), 'utf8');
const columnsSchema = z.array(z.tuple([z.string().max(100), z.string().max(100)])).max(100);
const tables = /\.(csv|tsv|json|jsonl|xlsx|parquet)$/i;
const readSeconds = 10;

/**
 * Describes a table for the model: the names and types of its columns, without values. A process of its own reads the
 * table in the box, so no variable is touched. Resolves with null when the file is not a table, cannot be read, or
 * takes too long.
 */
export const previewTable = async (client: Client, box: string, path: string): Promise<string | null> => {
  if (!tables.test(path)) return null;
  try {
    const argv = ['python3', '-P', '-c', script, path];
    const run = await client.commands.run(box, { argv, timeoutSeconds: readSeconds }, { idempotencyKey: false });
    const columns = columnsSchema.parse(JSON.parse(run.stdout));
    if (columns.length === 0) return null;
    return `Columns: ${columns.map(([name, type]) => `${name} (${type})`).join(', ')}`;
  } catch {
    // The upload is valid without a preview.
    return null;
  }
};
