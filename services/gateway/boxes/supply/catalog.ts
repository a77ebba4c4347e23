import { CodeBoxError, defaultTemplate } from '#contract';
import { didYouMean, nearest } from '../../../suggestions/nearest.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import type { TemplateStore } from '../../store/templates/templates.ts';
import { toTemplate } from './built-templates.ts';
import { resolveLanguage } from './languages.ts';
import type { TemplateLanguages } from './template-languages.ts';
import { templateObstacle } from './template-obstacle.ts';
import { defaultLanguage, type Template } from './templates.ts';

/** More than a tenant may have. */
const maxListed = 1000;

/** The configured templates, by name, and those that tenants have built. */
export const createCatalog = (
  templates: ReadonlyMap<string, Template>,
  driver: Pick<Driver, 'kind' | 'capabilities' | 'gpuObstacle'>,
  languages: Pick<TemplateLanguages, 'of' | 'contentsOf'>,
  built: Pick<TemplateStore, 'findReady' | 'list'>,
) => {
  /** Returns a configured template that a caller names. Throws `invalid_request` for an unknown one, or one that the driver cannot create boxes of. */
  const choose = (name = defaultTemplate): Template => {
    const template = templates.get(name);
    const names = [...templates.keys()];
    if (!template)
      throw refusal(
        `There is no template ${name}.`,
        `is not a template; there are ${names.join(', ')}${didYouMean(nearest(name, names))}`,
      );
    const obstacle = templateObstacle(driver, template);
    if (obstacle === undefined) return template;
    throw refusal(`Template ${name} is not available.`, obstacle);
  };

  const find = async (tenant: string, name: string): Promise<Template | undefined> => {
    const configured = templates.get(name);
    const ready = configured ? undefined : await built.findReady(tenant, name);
    return configured ?? (ready && toTemplate(templates, ready));
  };

  return {
    list: (): Template[] => [...templates.values()],

    /** Returns the configured templates, then those that a tenant has built. */
    async listOf(tenant: string): Promise<Template[]> {
      const ready = await built.list(tenant, maxListed);
      const others = ready.filter(({ name }) => !templates.has(name));
      return [...templates.values(), ...others.flatMap((version) => toTemplate(templates, version) ?? [])];
    },

    /** Returns a configured template, or the ready version of one that a tenant has built; undefined when there is none. */
    find,

    /** Returns the configured template of a box, or that below the one that was built; undefined when the configuration no longer has it. */
    of: ({ template, base }: Pick<BoxRow, 'template' | 'base'>): Template | undefined =>
      templates.get(base ?? template),

    /** Whether new boxes can have this network. */
    offersNetwork: (network: Template['network']): boolean => driver.capabilities.networks.includes(network),

    /** Returns the languages of a template; undefined while they are unknown. */
    languagesOf: languages.of,

    /** Returns the packages and programs of a template; undefined while they are unknown. */
    contentsOf: languages.contentsOf,

    /** Throws `invalid_request` for a language that new boxes of a template are known not to have. */
    async checkLanguage(template: Template, requested = template.language, pointer?: string): Promise<void> {
      const known = await languages.of(template);
      if (known) resolveLanguage(known, requested, pointer);
    },

    /** Returns the language of a box that a request names, or its default. Throws `invalid_request` for one that the box does not have. */
    async languageIn(
      { template, base }: Pick<BoxRow, 'template' | 'base'>,
      server: Pick<BoxConnection, 'languages'>,
      requested = templates.get(base ?? template)?.language ?? defaultLanguage,
    ): Promise<string> {
      return resolveLanguage(await server.languages(), requested);
    },

    choose,

    /** Returns the template that a tenant names: a configured one, or the ready version of one that it has built. Throws as `choose` does. */
    async pick(tenant: string, name = defaultTemplate): Promise<Template> {
      const template = await find(tenant, name);
      if (template?.base === undefined) return choose(name);
      choose(template.base);
      return template;
    },
  };
};

export type Catalog = ReturnType<typeof createCatalog>;

const refusal = (message: string, detail: string) =>
  new CodeBoxError('invalid_request', message, { errors: [{ pointer: '/template', detail }] });
