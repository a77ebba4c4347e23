import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { get, type RequestOptions } from 'node:https';
import { json } from 'node:stream/consumers';
import type { KubeConfig } from '@kubernetes/client-node';

interface Schema {
  description?: string;
  format?: string;
  properties?: Record<string, unknown>;
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[];
}
type Definitions = Record<string, Schema>;

const quantity = 'io.k8s.apimachinery.pkg.api.resource.Quantity';

/** The argument with which kubeconform finds the schemas in a folder. */
export const schemaLocation = (folder: string): string =>
  `-schema-location=${folder}/{{.ResourceKind}}{{.KindSuffix}}.json`;

/** Writes the schemas of the API server for the named kinds into a folder, in the form that kubeconform reads. */
export const writeSchemas = async (config: KubeConfig, kinds: ReadonlySet<string>, folder: string): Promise<void> => {
  const options: RequestOptions = { headers: { accept: 'application/json' } };
  await config.applyToHTTPSOptions(options);
  const request = get(`${config.getCurrentCluster()?.server}/openapi/v2`, options);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const { definitions } = (await json(response)) as { definitions: Definitions };
  const text = JSON.stringify(closed(definitions));
  for (const [name, { 'x-kubernetes-group-version-kind': names = [] }] of Object.entries(definitions))
    for (const { group, version, kind } of names.filter((each) => kinds.has(each.kind))) {
      const suffix = [...(group ? [group.split('.')[0]] : []), version].join('-');
      const file = `${folder}/${kind.toLowerCase()}-${suffix}.json`;
      await writeFile(file, `{"$ref":"#/definitions/${name}","definitions":${text}}`);
    }
};

/** Allows no further properties, and numbers wherever the API server takes them beside texts. */
const closed = (definitions: Definitions): Definitions => {
  const numberOrText = { type: ['string', 'number'] };
  // Properties of the schemas of schemas have the names of keywords, which validators take for these.
  const plain = Object.entries(definitions).filter(([name]) => !name.startsWith('io.k8s.apiextensions-apiserver.'));
  const text = JSON.stringify(
    { ...Object.fromEntries(plain), [quantity]: numberOrText },
    (_, value: Schema | undefined) => {
      if (value?.format === 'int-or-string') return numberOrText;
      return value?.properties ? { ...value, additionalProperties: false } : value;
    },
  );
  return JSON.parse(text);
};
