// Leaves nothing of development in package.json and package-lock.json of the current folder. `npm ci` insists that the lockfile
// is complete, development packages for platforms that a registry does not carry included, even when it installs none of them.
import { readFileSync, writeFileSync } from 'node:fs';

const rewrite = (name, change) => {
  const content = JSON.parse(readFileSync(name, 'utf8'));
  change(content);
  writeFileSync(name, JSON.stringify(content));
};

rewrite('package.json', (manifest) => delete manifest.devDependencies);
rewrite('package-lock.json', ({ packages }) => {
  delete packages[''].devDependencies;
  for (const [path, { dev }] of Object.entries(packages)) if (dev) delete packages[path];
});
