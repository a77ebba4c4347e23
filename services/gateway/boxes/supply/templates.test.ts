import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readTemplates } from './templates.ts';

test.each([
  ['2', { count: 2, kind: 'nvidia.com/gpu' }],
  ['{ kind: nvidia.com/mig-1g.5gb }', { count: 1, kind: 'nvidia.com/mig-1g.5gb' }],
  ['0', /gpus\.count/],
  ['{ kind: A100 }', /nvidia\.com\/gpu[\s\S]*gpus\.kind/],
  ['{ devices: [0] }', /devices/],
])('GPUs of a template are a number or a kind, and a wrong field is named: %s', (gpus, expected) => {
  const folder = mkdtempSync(join(tmpdir(), 'codebox-templates-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const templatesFile = join(folder, 'templates.yaml');
  writeFileSync(templatesFile, `python: { gpus: ${gpus} }`);
  const read = () => readTemplates({ templatesFile, boxImage: 'image', fullImage: undefined, warmBoxes: 0 });
  if (expected instanceof RegExp) expect(read).toThrow(expected);
  else expect(read().get('python')?.gpus).toEqual(expected);
});
