import { z } from 'zod';
import { keyScopeSchema } from './admin.ts';

/** The tenant and the key of a request. */
export const callerSchema = z
  .object({
    tenant: z.string(),
    key: z.string().meta({ description: 'The id of the key, which is not a secret.' }),
    scopes: z.array(keyScopeSchema).nullable().meta({ description: 'What the key may do; null for everything.' }),
  })
  .meta({ id: 'Caller' });

export type Caller = z.infer<typeof callerSchema>;
