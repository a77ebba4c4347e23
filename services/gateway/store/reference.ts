/** The resource that a request created or started, to which repeated requests with its Idempotency-Key refer. */
export type Reference =
  | { kind: 'box' | 'tenant' | 'key'; id: string }
  | { kind: 'execution' | 'command' | 'export'; box: string; id: string };
