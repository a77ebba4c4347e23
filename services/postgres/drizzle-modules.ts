import { registerHooks } from 'node:module';

// Loaded before all else, by --import. For every `.js` file of a package Node parses the package's package.json anew, and that of
// drizzle-orm has 180 kB: a second of CPU time at each start, half of what loading a gateway takes. Its modules import each other
// by relative paths, whose type is known.
registerHooks({
  resolve(specifier, context, nextResolve) {
    const { parentURL } = context;
    const isOwn = specifier.startsWith('.') && specifier.endsWith('.js');
    if (!isOwn || !parentURL?.includes('/node_modules/drizzle-orm/') || !parentURL.endsWith('.js'))
      return nextResolve(specifier, context);
    return { url: new URL(specifier, parentURL).href, format: 'module', shortCircuit: true };
  },
});
