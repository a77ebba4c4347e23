import { expect, test } from 'vitest';
import { toE2bChart } from './chart.ts';

const axis = { label: null, type: 'number', scale: 'linear', range: [0, 1] };
const axes = (series: object[], title: string | null = null) => ({
  title,
  bounds: [0, 0, 1, 1],
  projection: 'rectilinear',
  x: axis,
  y: axis,
  legend: false,
  series,
});
const figure = (...all: object[]) => ({ version: 1, title: null, width: 640, height: 480, axes: all });

test('a figure without a series that can be read is one of an unknown type', () => {
  const unknown = { type: 'unknown', title: 't', elements: [] };
  expect(toE2bChart(figure(axes([], 't')))).toEqual(unknown);
  expect(toE2bChart(figure(axes([{ type: 'unknown', artist: 'Quiver', count: 1 }], 't')))).toEqual(unknown);
  expect(toE2bChart(figure())).toEqual({ ...unknown, title: null });
  expect(toE2bChart('anything else')).toBeUndefined();
});
