import type { OperationTexts } from '../../../http/endpoints/operation-texts.ts';
import { at, ids, pageOf } from './examples.ts';

const volume = { id: ids.volume, name: 'models', user: null, sizeMb: 4096, createdAt: at };

/** Descriptions and examples of the operations on volumes. */
export const volumeTexts: OperationTexts = {
  'POST /v1/volumes': {
    description:
      'Boxes name it in `volumes` when they are created, and have it at `/volumes/NAME`. Its whole size counts for the quota `storageMb` and is ' +
      'allocated at once. A 200 returns the volume of this name as it is, and a 409 tells that it has another size.',
    request: { name: volume.name, sizeMb: volume.sizeMb },
    response: volume,
  },
  'GET /v1/volumes': {
    description: 'Lists the volumes of the tenant and of its users.',
    response: pageOf(volume),
  },
  'GET /v1/volumes/{volume}': {
    description: 'A volume of a user is `user:name`, and one without a user its `name`.',
    response: volume,
  },
  'DELETE /v1/volumes/{volume}': {
    description: 'A 409 names a living box that has the volume, be it one that hibernates.',
  },
};
