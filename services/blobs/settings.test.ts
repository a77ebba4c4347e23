import { expect, test } from 'vitest';
import { z } from 'zod';
import { blobsVariables, toBlobsConfig } from './settings.ts';

const regionOf = (environment: Record<string, string>) =>
  toBlobsConfig(z.object(blobsVariables).parse(environment), '/data').s3.region;

test.each([
  ['s3+https://s3.eu-central-1.amazonaws.com/bucket', 'eu-central-1'],
  ['s3+https://s3.dualstack.us-gov-west-1.amazonaws.com/bucket', 'us-gov-west-1'],
  ['s3+https://s3.cn-north-1.amazonaws.com.cn/bucket', 'cn-north-1'],
  ['s3+https://s3.amazonaws.com/bucket', 'us-east-1'],
  ['s3+https://s3.example.com/bucket', 'us-east-1'],
])('the region of %s is %s', (place, region) => {
  expect(regionOf({ CODEBOX_BLOBS: place })).toBe(region);
  expect(regionOf({ CODEBOX_BLOBS: place, AWS_REGION: 'eu-west-3' })).toBe('eu-west-3');
});
