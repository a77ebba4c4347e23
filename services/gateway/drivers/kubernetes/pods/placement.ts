import { z } from 'zod';
import { ConfigurationError } from '../../../../configuration-error.ts';
import type { Placement } from '../../driver.ts';

const texts = z.record(z.string(), z.string());

const placementSchema = z.strictObject({
  runtimeClass: z.string().min(1).optional(),
  nodeSelector: texts.optional(),
  tolerations: z
    .array(
      z.strictObject({
        key: z.string().optional(),
        operator: z.enum(['Exists', 'Equal']).optional(),
        value: z.string().optional(),
        effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).optional(),
        tolerationSeconds: z.int().optional(),
      }),
    )
    .optional(),
  priorityClass: z.string().min(1).optional(),
  /** False for a user namespace of its own. */
  hostUsers: z.boolean().optional(),
  labels: texts
    .refine(
      (labels) => !Object.keys(labels).some((name) => name.startsWith('codebox.')),
      'must not begin with codebox.',
    )
    .optional(),
  annotations: texts
    .refine((names) => !Object.keys(names).some((name) => name.startsWith('codebox.')), 'must not begin with codebox.')
    .optional(),
  /** Extended resources, such as `nvidia.com/gpu: 1`. */
  resources: z.record(z.string().includes('/'), z.coerce.string()).optional(),
});

/** Where and how the pods of a template run. */
export type PodPlacement = z.output<typeof placementSchema>;

/** Reads the placement of a template. Throws a ConfigurationError that names each wrong field. */
export const readPlacement = (placement: Placement): PodPlacement => {
  const parsed = placementSchema.safeParse(placement);
  if (parsed.success) return parsed.data;
  throw new ConfigurationError(`The placement of a template is wrong: ${z.prettifyError(parsed.error)}`);
};
