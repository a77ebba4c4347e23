import { relative } from 'node:path';
import type { TestSpecification } from 'vitest/node';
import { BaseSequencer } from 'vitest/node';

/** Small files that take long, the longest first: their size, which is all that is known on a fresh machine, does not tell. */
const long = [
  'test/contract/docker.test.ts',
  'test/api/rest.test.ts',
  'test/api/capacity.test.ts',
  'test/model/model.test.ts',
  'test/api/stats.test.ts',
  'test/api/pool.test.ts',
  'test/faults/docker-daemon.test.ts',
  'test/api/boxes.test.ts',
  'test/blobs/blobs.test.ts',
  'test/faults/database.test.ts',
  'test/soak/soak.test.ts',
  'test/api/gateway-death.test.ts',
  'test/e2e/compose.test.ts',
  'test/examples.test.ts',
  'test/readme.test.ts',
  'test/admin-cli.test.ts',
  'test/faults/instances.test.ts',
];

/** Starts what is known to take long before all else, so that no single file is left running at the end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rankOf = ({ moduleId, project }: TestSpecification) => {
      const rank = long.indexOf(relative(this.ctx.config.root, moduleId).replaceAll('\\', '/'));
      return project.config.sequence.groupOrder * (long.length + 1) + (rank === -1 ? long.length : rank);
    };
    // The sort is stable: what is not named stays in the usual order.
    return (await super.sort(files)).sort((one, other) => rankOf(one) - rankOf(other));
  }
}
