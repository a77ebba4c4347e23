import { farness } from '../suggestions/nearest.ts';

interface Route {
  method: string;
  path: string;
  pattern: RegExp;
}

/** What the last part of a path is called elsewhere. */
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

/** A path over these bounds is compared with nothing. */
const maxLength = 512;
const maxSegments = 12;
/** What is too far from all that there is gets no suggestion. */
const maxCost = 4;
const addedCost = 1;
/** Of a word too many at the end: another one that was mistyped is likelier. */
const overCost = 2;
const idPattern = /^[\w-]{1,64}$/;

/** All routes of a server: the methods of a path, and the route that was probably meant by one that leads nowhere. */
export const createKnownRoutes = () => {
  const routes: Route[] = [];
  return {
    add(method: string, path: string): void {
      routes.push({ method: method.toUpperCase(), path, pattern: toPattern(path) });
    },

    /** The methods that a path has, for 405. */
    methodsOf: (path: string): string[] =>
      routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method),

    /** As `POST /v1/boxes/{box}/executions` with the ids that were given; undefined where nothing is near. */
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

/** How far a path is from the one of a route, and that path with the ids of the first; undefined when it is another one. */
const match = (route: string[], given: string[]): { cost: number; path: string } | undefined => {
  const [version = ''] = route;
  const isVersioned = /^v\d+$/.test(version);
  const [first = '', second = ''] = given;
  // What a proxy adds, and what is forgotten.
  if (isVersioned && first === 'api') return dearer(match(route, given.slice(1)));
  if (isVersioned && first !== version && second !== version && !/^v\d+$/.test(first))
    return dearer(match(route, [version, ...given]));
  const last = route.at(-1) === '{path}' ? route.length - 1 : route.length;
  // As in `packages/install`.
  const isOver = last === route.length && given.length === last + 1;
  if (given.length < last || (given.length > last && last === route.length && !isOver)) return undefined;
  let cost = isOver ? overCost : 0;
  const parts: string[] = [];
  for (const [index, part] of route.entries()) {
    const segment = given[index] ?? '';
    if (part.startsWith('{')) {
      parts.push(part !== '{path}' && idPattern.test(segment) ? segment : part);
      // A word that a route has is rather meant than an id that could be anything.
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
