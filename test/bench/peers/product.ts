/** A way to run code in sandboxes: CodeBox, or what could be used instead. */
export interface Product {
  name: string;
  /** What its sandboxes are, and what has to be known about its numbers. */
  note: string;
  /** A box of a pool, a box that is created when it is requested, or another product. */
  kind: 'pool' | 'no pool' | 'peer';
  /** Resolves once sandboxes can be created as fast as possible, and it does nothing else. */
  ready(): Promise<void>;
  create(): Promise<Sandbox>;
  /** Creates `count` sandboxes that do nothing, resolves with what each takes, in MiB of PSS, and ends them. */
  idle(count: number): Promise<Idle[]>;
}

/** Idle sandboxes in one state. */
interface Idle {
  state: string;
  mib: number[];
}

export interface Sandbox extends AsyncDisposable {
  /** Runs `1+1` and resolves with whether the result is right. */
  onePlusOne(): Promise<boolean>;
}

/** Creates `count` sandboxes one after the other, resolves with what `measure` finds, and ends them. */
export const withSandboxes = async <S extends AsyncDisposable, T>(
  count: number,
  create: () => Promise<S>,
  measure: (sandboxes: S[]) => Promise<T>,
): Promise<T> => {
  await using stack = new AsyncDisposableStack();
  const sandboxes: S[] = [];
  for (let n = 0; n < count; n++) sandboxes.push(stack.use(await create()));
  return await measure(sandboxes);
};
