import { expect, test } from 'vitest';
import { readConfig } from './config.ts';

test('defaults need nothing: a gateway on this machine, open to its browsers', () => {
  const config = readConfig({});
  expect(config).toMatchObject({
    gatewayUrl: 'http://localhost:8080',
    apiKey: undefined,
    host: '127.0.0.1',
    port: 8090,
    isOpen: true,
    linkSeconds: 3600,
  });
  expect(config.apiKeyFile).toMatch(/\.codebox\/dev-key$/);
  expect(config.hosts).toEqual(['localhost', '127.0.0.1', '[::1]']);
});

test('an agent that others can reach requires a key unless configured otherwise', () => {
  expect(readConfig({ CODEBOX_AGENT_HOST: '0.0.0.0' })).toMatchObject({ isOpen: false, hosts: [] });
  const open = {
    CODEBOX_AGENT_HOST: '0.0.0.0',
    CODEBOX_AGENT_OPEN: '1',
    CODEBOX_AGENT_HOSTS: 'Chat.example, b.example',
  };
  expect(readConfig(open)).toMatchObject({ isOpen: true, hosts: ['chat.example', 'b.example'] });
  expect(readConfig({ CODEBOX_AGENT_OPEN: '0' }).isOpen).toBe(false);
});

test('its own data folder takes precedence over that of the gateway', () => {
  const both = { CODEBOX_DATA_DIR: '/a', CODEBOX_AGENT_DATA_DIR: '/b' };
  expect(readConfig(both)).toMatchObject({ dataDir: '/b', apiKeyFile: '/b/dev-key', blobs: { place: '/b/blobs' } });
  expect(readConfig({ CODEBOX_DATA_DIR: '/a', CODEBOX_AGENT_PORT: '' })).toMatchObject({ dataDir: '/a', port: 8090 });
});

test('every invalid variable is named at once', () => {
  const read = () =>
    readConfig({ CODEBOX_AGENT_PORT: 'x', CODEBOX_URL: 'gateway', CODEBOX_LINK_SECONDS: '0', CODEBOX_MODEL: 'x' });
  for (const name of ['CODEBOX_AGENT_PORT', 'CODEBOX_URL', 'CODEBOX_LINK_SECONDS', 'CODEBOX_MODEL'])
    expect(read).toThrow(new RegExp(name));
});
