import { expect, test } from 'vitest';
import { readConfig } from './config.ts';

test('the defaults require no variable', () => {
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

test('all invalid variables are named at once', () => {
  const read = () => readConfig({ CODEBOX_PORT: '99999', CODEBOX_DRIVER: 'podman', DATABASE_URL: 'mysql://x' });
  expect(read).toThrow(/CODEBOX_PORT/);
  expect(read).toThrow(/CODEBOX_DRIVER/);
  expect(read).toThrow(/DATABASE_URL/);
});

test('quotas and networks are parsed strictly', () => {
  const config = readConfig({ CODEBOX_QUOTAS: 'boxes=5, storageMb=0', CODEBOX_TRUSTED_PROXIES: '10.0.0.0/8,::1' });
  expect(config).toMatchObject({ defaultQuotas: { boxes: 5, storageMb: 0 }, trustedProxies: ['10.0.0.0/8', '::1'] });
  for (const wrong of ['boxes', 'boxes=', 'boxes=-1', 'apples=1', 'boxes=1=2'])
    expect(() => readConfig({ CODEBOX_QUOTAS: wrong }), wrong).toThrow(/CODEBOX_QUOTAS/);
  for (const wrong of ['localhost', '10.0.0.0/33', '10.0.0.0/8/8', '::/x'])
    expect(() => readConfig({ CODEBOX_TRUSTED_PROXIES: wrong }), wrong).toThrow(/CODEBOX_TRUSTED_PROXIES/);
  expect(() => readConfig({ CODEBOX_ADMIN_KEY: 'short' })).toThrow(/CODEBOX_ADMIN_KEY/);
  expect(() => readConfig({ CODEBOX_FIRST_KEY: 'cbx_short' })).toThrow(/CODEBOX_FIRST_KEY/);
});

test('GPUs are devices by kind, each of them once', () => {
  const read = (text: string) => readConfig({ CODEBOX_GPUS: text }).gpus;
  expect(read('')).toEqual({});
  expect(read('0,1 nvidia.com/mig-1g.5gb=MIG-3c,0:2')).toEqual({
    'nvidia.com/gpu': ['0', '1'],
    'nvidia.com/mig-1g.5gb': ['MIG-3c', '0:2'],
  });
  for (const wrong of ['all/1', '0,', '0 1', '0,0', '0 nvidia.com/half=0', 'gpu=0', 'nvidia.com/gpu=../x'])
    expect(() => read(wrong), wrong).toThrow(/CODEBOX_GPUS/);
});

test('an unknown dialect is refused, with the names of the existing ones', () => {
  expect(readConfig({}).dialects).toEqual([]);
  expect(readConfig({ CODEBOX_DIALECTS: 'codeboxapi, codeboxapi' }).dialects).toEqual(['codeboxapi']);
  expect(() => readConfig({ CODEBOX_DIALECTS: 'codeboxapi,toString' })).toThrow(
    /CODEBOX_DIALECTS: has no dialect toString; there are codeboxapi, e2b/,
  );
});

test('tracing is on only if an endpoint is set and tracing is not disabled', () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
  expect(readConfig({ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: '' }).tracing).toBeUndefined();
  expect(readConfig(endpoint).tracing).toMatchObject({ protocol: 'http/protobuf', sampler: 'parentbased_always_on' });
  const own = {
    ...endpoint,
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
  };
  expect(readConfig(own).tracing?.protocol).toBe('http/json');
  for (const off of [{ OTEL_SDK_DISABLED: 'TRUE' }, { OTEL_TRACES_EXPORTER: 'none' }])
    expect(readConfig({ ...endpoint, ...off }).tracing).toBeUndefined();
  expect(() => readConfig({ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })).toThrow(/OTEL_EXPORTER_OTLP_PROTOCOL/);
});
