import { relative } from 'node:path';
import type { TestSpecification } from 'vitest/node';
import { BaseSequencer } from 'vitest/node';

/** The slowest files and about how many seconds they take on two processors, until they have run on this machine. */
const expectedSeconds: Readonly<Record<string, number>> = {
  'test/contract/docker.test.ts': 260,
  'test/faults/kubernetes-nodes.test.ts': 250,
  'test/e2e/compose.test.ts': 170,
  'test/images/full.test.ts': 170,
  'test/clients/clients.test.ts': 165,
  'test/faults/kubernetes.test.ts': 155,
  'test/api/stats.test.ts': 145,
  'test/dialects/librechat.test.ts': 140,
  'test/api/rest.test.ts': 135,
  'test/api/faults.test.ts': 135,
  'test/api/two-sites.test.ts': 130,
  'test/contract/parent.test.ts': 125,
  'test/api/causes.test.ts': 125,
  'test/api/kubernetes.test.ts': 125,
  'test/api/template-builds.test.ts': 125,
  'test/contributing.test.ts': 120,
  'test/web/notebook.test.ts': 105,
  'test/faults/database.test.ts': 105,
  'test/readme.test.ts': 105,
  'test/contract/docker-parent.test.ts': 100,
  'test/contract/kubernetes.test.ts': 100,
  'test/api/exports.test.ts': 100,
  'test/api/packages.test.ts': 95,
  'test/deploy/kubernetes-release.test.ts': 90,
  'test/web/answer.test.ts': 80,
  'test/dialects/mcp.test.ts': 75,
  'test/faults/docker-daemon.test.ts': 70,
  'test/faults/kills.test.ts': 65,
  'test/api/capacity.test.ts': 55,
  'test/api/pool.test.ts': 45,
  'test/model/model.test.ts': 40,
  'test/web/chat.test.ts': 40,
  'test/agent/answers-kept.test.ts': 40,
  'test/deploy/kubernetes-chart.test.ts': 30,
  'test/api/rest-store.test.ts': 25,
  'test/api/gateway-death.test.ts': 25,
  'test/contract/kubernetes-faults.test.ts': 25,
  'test/contract/kubernetes-sandboxes.test.ts': 10,
};

/** Starts the slowest files first, by their last run or else an estimate, so that no single file is left running at the end. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const expectedMs = (file: TestSpecification): number => {
      const { duration } = this.ctx.cache.getTestSpecificationResult(file) ?? {};
      if (duration !== undefined) return duration;
      return (expectedSeconds[relative(this.ctx.config.root, file.moduleId)] ?? 0) * 1000;
    };
    const groupOf = ({ project }: TestSpecification) => project.config.sequence.groupOrder;
    const isPart = ({ project }: TestSpecification) => Number(project.name === 'parts');
    // Small tests come last in their group. The sort is stable, so files without an estimate keep the usual order.
    return (await super.sort(files)).sort(
      (one, other) =>
        groupOf(one) - groupOf(other) || isPart(one) - isPart(other) || expectedMs(other) - expectedMs(one),
    );
  }
}
