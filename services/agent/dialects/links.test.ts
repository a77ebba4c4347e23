import { expect, test } from 'vitest';
import { linksTo, markdownLink, withOrigin } from './links.ts';

const origin = 'http://agent.test:8090';

test('links of the agent get its origin, other links stay unchanged', () => {
  const text = 'See [a](/v1/files/t0.k-n/a%20b.csv), /v1/files/t/x and https://other.test/v1/files/t/y.';
  expect(withOrigin(text, origin)).toBe(
    `See [a](${origin}/v1/files/t0.k-n/a%20b.csv), ${origin}/v1/files/t/x and https://other.test/v1/files/t/y.`,
  );
});

test('a link is found with its position in the text, whatever its token', () => {
  const text = `Here: [it](${origin}/v1/files/abc.d-e/a%20(1).csv) or [other](/v1/files/abc/a.csv2).`;
  const [found, ...more] = linksTo(text, 'a (1).csv');
  expect(more).toEqual([]);
  expect(text.slice(found?.start, found?.end)).toBe(`${origin}/v1/files/abc.d-e/a%20(1).csv`);
  expect(linksTo(text, 'a.csv')).toEqual([]);
});

test('a name cannot end the text of its link', () => {
  expect(markdownLink('a](http://evil.test)[b.png', '/x', true)).toBe('![a\\](http://evil.test)\\[b.png](/x)');
});
