import { CodeBoxError, defaultTemplate } from '#contract';
import { didYouMean, nearest } from '../../../suggestions/nearest.ts';
import type { BoxConnection } from '../../box-server/connections.ts';
import type { Driver } from '../../drivers/driver.ts';
import type { BoxRow } from '../../store/box/boxes.ts';
import { resolveLanguage } from './languages.ts';
import type { TemplateLanguages } from './template-languages.ts';
import { defaultLanguage, type Template } from './templates.ts';

/** The configured templates, by name. */
export const createCatalog = (
  templates: ReadonlyMap<string, Template>,
  driver: Pick<Driver, 'kind' | 'capabilities'>,
  languages: Pick<TemplateLanguages, 'of' | 'contentsOf'>,
) => ({
  list: (): Template[] => [...templates.values()],

  /** Returns the template of a box; undefined when the configuration no longer has it. */
  of: ({ template }: Pick<BoxRow, 'template'>): Template | undefined => templates.get(template),

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
    { template }: Pick<BoxRow, 'template'>,
    server: Pick<BoxConnection, 'languages'>,
    requested = templates.get(template)?.language ?? defaultLanguage,
  ): Promise<string> {
    return resolveLanguage(await server.languages(), requested);
  },

  /** Returns the template that a caller names. Throws `invalid_request` for an unknown one, or one whose image the driver cannot use. */
  choose(name = defaultTemplate): Template {
    const template = templates.get(name);
    const names = [...templates.keys()];
    if (!template)
      throw refusal(
        `There is no template ${name}.`,
        `is not a template; there are ${names.join(', ')}${didYouMean(nearest(name, names))}`,
      );
    if (!template.hasOwnImage || driver.capabilities.images) return template;
    throw refusal(
      `Template ${name} is not available.`,
      `has an image of its own, which the ${driver.kind} driver of this deployment cannot use`,
    );
  },
});

export type Catalog = ReturnType<typeof createCatalog>;

const refusal = (message: string, detail: string) =>
  new CodeBoxError('invalid_request', message, { errors: [{ pointer: '/template', detail }] });
