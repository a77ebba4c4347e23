import { CodeBoxError, type Context, type CreateContext, type Page, type PageQuery, type Variable } from '#contract';
import type { BoxRef } from '../box-ref.ts';
import type { Access } from '../life/access.ts';
import type { CpuBudget } from '../life/cpu-budget.ts';
import type { Catalog } from '../supply/catalog.ts';

const interruptMs = 10_000;

export interface ContextsOptions {
  access: Pick<Access, 'use'>;
  catalog: Pick<Catalog, 'languageIn'>;
  budget: Pick<CpuBudget, 'ofRun'>;
}

/**
 * Contexts: the live kernels of a box. They are those of its Jupyter server, which starts and ends them. A new kernel runs start-up
 * code, so it needs CPU time: `create` and `restart` throw `cpu_limit` and `quota_exceeded`.
 */
export const createContexts = ({ access, catalog, budget }: ContextsOptions) => {
  const list = async (ref: BoxRef): Promise<Context[]> => await (await access.use(ref)).server.contexts();

  const find = async (ref: BoxRef, id: string): Promise<Context> => {
    const context = (await list(ref)).find((candidate) => candidate.id === id);
    if (!context) throw new CodeBoxError('not_found', 'There is no such context.');
    return context;
  };

  return {
    list,
    /** Lists the languages of a box. */
    languages: async (ref: BoxRef): Promise<readonly string[]> => (await access.use(ref)).server.languages(),
    async create(ref: BoxRef, ask: CreateContext): Promise<Context> {
      const { server, ...used } = await access.use(ref);
      await budget.ofRun(used, undefined);
      const language = await catalog.languageIn(used.box, server, ask.language);
      return await server.createContext({ ...ask, language });
    },
    /** Ends a context. Its runs end as `killed`. */
    async delete(ref: BoxRef, id: string): Promise<void> {
      await find(ref, id);
      await (await access.use(ref)).server.jupyter.shutdown(id);
    },
    /** Replaces the kernel under the same id: variables are gone; files, its folder and its environment stay. */
    async restart(ref: BoxRef, id: string): Promise<Context> {
      await find(ref, id);
      const { server, ...used } = await access.use(ref);
      await budget.ofRun(used, undefined);
      return await server.restartContext(id);
    },
    /** Interrupts what a context runs: the run, or whatever else its kernel does. */
    async interrupt(ref: BoxRef, id: string): Promise<void> {
      await find(ref, id);
      const { server } = await access.use(ref);
      const unfinished = await server.unfinishedExecutions(AbortSignal.timeout(interruptMs));
      const running = unfinished.find((run) => run.context === id && run.state === 'running');
      if (running) await server.interrupt(running.id);
      else await server.jupyter.interrupt(id);
    },
    /** Lists the variables of a context without running code. Throws `conflict` while a run is active or waits. */
    async variables(ref: BoxRef, id: string, query: PageQuery): Promise<Page<Variable>> {
      await find(ref, id);
      return await (await access.use(ref)).server.variables(id, query);
    },
  };
};

export type Contexts = ReturnType<typeof createContexts>;
