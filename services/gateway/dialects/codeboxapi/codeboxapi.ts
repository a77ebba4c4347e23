import type { Dialect } from '../../http/app.ts';
import { conventions } from './conventions.ts';
import { addFactoryRoutes } from './factories.ts';
import { addV1Routes, boxOfSession } from './v1.ts';
import { addV2Routes } from './v2.ts';

/** The API of the PyPI package `codeboxapi`, in both of its versions. */
export const codeboxapi: readonly Dialect[] = [
  { surface: { ...conventions, claims: { prefix: '/api/v1/codebox' }, toBox: boxOfSession }, addRoutes: addV1Routes },
  { surface: { ...conventions, claims: { prefix: '/api/v2/codebox' } }, addRoutes: addV2Routes },
  { surface: { ...conventions, claims: { prefix: '/api/v2/factory' } }, addRoutes: addFactoryRoutes },
];
