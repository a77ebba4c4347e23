import { CodeBoxError, type Context, type CreateContext, type Page, type PageQuery, type Variable } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Lifecycle } from '../life/lifecycle.ts';
import { resolveLanguage } from '../supply/templates.ts';

/**
 * Contexts of a box: its live kernels. They are Jupyter's, so Jupyter's own client makes and ends them. A new kernel runs what a box
 * has for its start, so there is none without CPU time: `cpu_limit`, `quota_exceeded`.
 */
export const createContexts = (lifecycle: Lifecycle, budget: Pick<CpuBudget, 'ofRun'>) => {
  const list = async (ref: BoxRef): Promise<Context[]> => await (await lifecycle.use(ref)).server.contexts();

  const find = async (ref: BoxRef, id: string): Promise<Context> => {
    const context = (await list(ref)).find((candidate) => candidate.id === id);
    if (!context) throw new CodeBoxError('not_found', 'There is no such context.');
    return context;
  };

  return {
    list,
    async create(ref: BoxRef, ask: CreateContext): Promise<Context> {
      const { server, ...used } = await lifecycle.use(ref);
      const { box: row } = used;
      await budget.ofRun(used, undefined);
      const languages = lifecycle.templateOf(row)?.languages ?? (await server.jupyter.languages());
      return await server.createContext({ ...ask, language: resolveLanguage(languages, ask.language) });
    },
    /** Ends it; what runs in it ends as `killed`. */
    async delete(ref: BoxRef, id: string): Promise<void> {
      await find(ref, id);
      await (await lifecycle.use(ref)).server.jupyter.shutdown(id);
    },
    /** A fresh kernel under the same id: variables are gone; files, its folder and its environment stay. */
    async restart(ref: BoxRef, id: string): Promise<Context> {
      await find(ref, id);
      const { server, ...used } = await lifecycle.use(ref);
      await budget.ofRun(used, undefined);
      return await server.restartContext(id);
    },
    /** What a run in it would find, without being one; `conflict` while one runs or waits. */
    async variables(ref: BoxRef, id: string, query: PageQuery): Promise<Page<Variable>> {
      await find(ref, id);
      return await (await lifecycle.use(ref)).server.variables(id, query);
    },
  };
};

export type Contexts = ReturnType<typeof createContexts>;
