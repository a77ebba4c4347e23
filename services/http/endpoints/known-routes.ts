import { farness } from '../../suggestions/nearest.ts';

interface Route {
  method: string;
  path: string;
  pattern: RegExp;
}

/** Other names for the last part of a path. */
const synonyms = new Map([
  ['execute', 'executions'],
  ['exec', 'executions'],
  ['run', 'executions'],
  ['runs', 'executions'],
  ['cells', 'executions'],
  ['jobs', 'executions'],
  ['processes', 'commands'],
  ['shell', 'commands'],
  ['bash', 'commands'],
  ['kernels', 'contexts'],
  ['sessions', 'contexts'],
  ['sandboxes', 'boxes'],
  ['sandbox', 'boxes'],
  ['containers', 'boxes'],
  ['install', 'packages'],
  ['pip', 'packages'],
  ['upload', 'files'],
  ['download', 'files'],
  ['filesystem', 'files'],
  ['ls', 'files'],
  ['logs', 'events'],
  ['output', 'events'],
  ['stream', 'events'],
  ['stop', 'interrupt'],
  ['cancel', 'interrupt'],
  ['stdin', 'input'],
  ['metrics', 'stats'],
]);

/** A path beyond these limits is compared with nothing. */
const maxLength = 512;
const maxSegments = 12;
/** A path that is further away from all routes gets no suggestion. */
const maxCost = 4;
const addedCost = 1;
/** The cost of an extra word at the end: a mistyped word is likelier. */
const overCost = 2;
const idPattern = /^[\w-]{1,64}$/;

/** All routes of a server: the methods of a path, and a suggestion for a path that matches none. */
export const createKnownRoutes = () => {
  const routes: Route[] = [];
  return {
    add(method: string, path: string): void {
      routes.push({ method: method.toUpperCase(), path, pattern: toPattern(path) });
    },

    /** The methods of a path, for 405. */
    methodsOf: (path: string): string[] =>
      routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method),

    /** The suggestion, such as `POST /v1/boxes/{box}/executions` with the given ids; undefined when nothing is near. */
    nearestTo(method: string, path: string): string | undefined {
      if (path.length > maxLength) return undefined;
      const given = path.split('/').filter((segment) => segment !== '');
      if (given.length === 0 || given.length > maxSegments) return undefined;
      const found = routes.flatMap((route) => {
        const near = match(route.path.split('/').slice(1), given);
        return near ? [{ route, ...near }] : [];
      });
      const least = Math.min(maxCost, ...found.map(({ cost }) => cost));
      const best = found.filter(({ cost }) => cost === least);
      const meant = best.find(({ route }) => route.method === method) ?? best[0];
      if (!meant) return undefined;
      const methods = best.filter(({ path }) => path === meant.path).map(({ route }) => route.method);
      return `${methods.includes(method) ? method : methods.join(' or ')} ${meant.path}`;
    },
  };
};

export type KnownRoutes = ReturnType<typeof createKnownRoutes>;

/** The distance of a path from a route, and the route with the given ids; undefined when it is too different. */
const match = (route: string[], given: string[]): { cost: number; path: string } | undefined => {
  const [version = ''] = route;
  const isVersioned = /^v\d+$/.test(version);
  const [first = '', second = ''] = given;
  // Prefixes that proxies add or callers omit.
  if (isVersioned && first === 'api') return dearer(match(route, given.slice(1)));
  if (isVersioned && first !== version && second !== version && !/^v\d+$/.test(first))
    return dearer(match(route, [version, ...given]));
  const last = route.at(-1) === '{path}' ? route.length - 1 : route.length;
  // For example `packages/install`.
  const isOver = last === route.length && given.length === last + 1;
  if (given.length < last || (given.length > last && last === route.length && !isOver)) return undefined;
  let cost = isOver ? overCost : 0;
  const parts: string[] = [];
  for (const [index, part] of route.entries()) {
    const segment = given[index] ?? '';
    if (part.startsWith('{')) {
      parts.push(part !== '{path}' && idPattern.test(segment) ? segment : part);
      // A word of the route is likelier than an id that could be anything.
      cost += 0.1;
      continue;
    }
    const far = synonyms.get(segment) === part ? addedCost : farness(segment, part);
    if (far === undefined) return undefined;
    cost += far;
    parts.push(part);
  }
  return { cost, path: `/${parts.join('/')}` };
};

const dearer = (near: ReturnType<typeof match>) => near && { ...near, cost: near.cost + addedCost };

const toPattern = (path: string) =>
  new RegExp(`^${path.replace('{path}', '.*').replaceAll(/\{\w+\}/g, '[^/]+')}$`, 's');
