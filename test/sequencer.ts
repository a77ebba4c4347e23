import { relative } from 'node:path';
import type { TestSpecification } from 'vitest/node';
import { BaseSequencer } from 'vitest/node';

/** Small files that take long. On a fresh machine files are sorted by size, which would start these last. */
const long = [
  'test/contract/docker.test.ts',
  'test/contract/kubernetes.test.ts',
  'test/deploy/kubernetes-release.test.ts',
  'test/faults/kubernetes-nodes.test.ts',
  'test/faults/kubernetes.test.ts',
  'test/api/kubernetes.test.ts',
  'test/api/rest.test.ts',
  'test/api/capacity.test.ts',
  'test/model/model.test.ts',
  'test/api/stats.test.ts',
  'test/api/pool.test.ts',
  'test/e2e/compose.test.ts',
  'test/api/causes.test.ts',
  'test/api/two-sites.test.ts',
  'test/clients/clients.test.ts',
  'test/dialects/mcp.test.ts',
  'test/faults/database.test.ts',
  'test/faults/docker-daemon.test.ts',
  'test/agent/answers-kept.test.ts',
];
/** Assumed duration of these files until they have run on this machine. */
const longMs = 200_000;

/** Starts the slowest files first, by their last run, so that no single file is left running at the end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const expectedMs = (file: TestSpecification): number => {
      const { duration } = this.ctx.cache.getTestSpecificationResult(file) ?? {};
      if (duration !== undefined) return duration;
      return long.includes(relative(this.ctx.config.root, file.moduleId).replaceAll('\\', '/')) ? longMs : 0;
    };
    const groupOf = ({ project }: TestSpecification) => project.config.sequence.groupOrder;
    // The sort is stable, so files that have not run yet keep the usual order.
    return (await super.sort(files)).sort(
      (one, other) => groupOf(one) - groupOf(other) || expectedMs(other) - expectedMs(one),
    );
  }
}
