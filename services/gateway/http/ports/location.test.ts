import { expect, test } from 'vitest';
import { confineLocation } from './location.ts';

const prefix = '/v1/boxes/box-a/ports/5000';
const target = { box: 'box-a', port: 5000, path: '/', prefix, isUnslashed: false };
const host = 'codebox.example:8080';

test.each([
  ['/login?next=%2F#top', `${prefix}/login?next=%2F#top`],
  ['/', `${prefix}/`],
  ['http://codebox.example:8080/a', `${prefix}/a`],
  ['HTTPS://CodeBox.example:8080?a=1', `${prefix}/?a=1`],
  ['//codebox.example:8080/a', `${prefix}/a`],
  ['http://127.0.0.1:5000/a', `${prefix}/a`],
  ['http://localhost:5000', `${prefix}/`],
  [`${prefix}9/a`, `${prefix}${prefix}9/a`],
])('a redirect to %s is rewritten below the port', (location, expected) => {
  expect(confineLocation(location, target, host)).toBe(expected);
});

test.each([
  'login',
  '../up',
  '?page=2',
  'https://example.org/login',
  '//example.org/login',
  'http://127.0.0.1:5001/a',
  prefix,
  `${prefix}/login`,
  `http://codebox.example:8080${prefix}/login`,
  'mailto:ada@example.org',
])('a redirect to %s stays unchanged', (location) => {
  expect(confineLocation(location, target, host)).toBe(location);
});

test('a redirect of a server with its own host stays unchanged', () => {
  expect(confineLocation('/login', { ...target, prefix: '' }, host)).toBe('/login');
});
