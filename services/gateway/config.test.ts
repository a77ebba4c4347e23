import { expect, test } from 'vitest';
import { readConfig } from './config.ts';

test('defaults need nothing', () => {
  expect(readConfig({})).toMatchObject({
    port: 8080,
    host: '127.0.0.1',
    driver: 'auto',
    databaseUrl: undefined,
    unsafe: false,
  });
});

test('an empty variable counts as unset', () => {
  expect(readConfig({ CODEBOX_PORT: '', DATABASE_URL: '' })).toMatchObject({ port: 8080, databaseUrl: undefined });
});

test('every wrong variable is named at once', () => {
  const read = () => readConfig({ CODEBOX_PORT: '99999', CODEBOX_DRIVER: 'podman', DATABASE_URL: 'mysql://x' });
  expect(read).toThrow(/CODEBOX_PORT/);
  expect(read).toThrow(/CODEBOX_DRIVER/);
  expect(read).toThrow(/DATABASE_URL/);
});
