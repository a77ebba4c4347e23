import { type TemplateDetail, templateDetailSchema, templatePageSchema } from '../boxes/boxes.ts';
import {
  type BuildEvent,
  type BuildTemplate,
  buildEventSchema,
  type TemplateVersion,
  templateVersionPageSchema,
  templateVersionSchema,
} from '../boxes/template-builds.ts';
import { bySeq, followEvents } from './events.ts';
import { type CallOptions, type CreateOptions, pathOf, type Transport } from './transport.ts';

const lines = { accept: 'application/x-ndjson' };

/** What boxes are created from: templates of the operator, and those that the tenant builds. */
export const createTemplates = (transport: Transport) => ({
  list: (options?: CallOptions) => transport.items(templatePageSchema, { path: pathOf('templates'), options }),

  read: (template: string, options?: CallOptions): Promise<TemplateDetail> =>
    transport.json(templateDetailSchema, { path: pathOf('templates', template), options }),

  /** Begins to build a template, or its next version; `log` follows it to its end. */
  build: (template: string, body: BuildTemplate = {}, options?: CreateOptions): Promise<TemplateVersion> =>
    transport.json(templateVersionSchema, {
      method: 'PUT',
      path: pathOf('templates', template),
      json: body,
      creates: true,
      options,
    }),

  /** Deletes a template that the tenant has built. Its boxes stay. */
  delete: (template: string, options?: CallOptions): Promise<void> =>
    transport.done({ method: 'DELETE', path: pathOf('templates', template), options }),

  /** Newest first. */
  versions: (template: string, options?: CallOptions) =>
    transport.items(templateVersionPageSchema, { path: pathOf('templates', template, 'versions'), options }),

  version: (template: string, version: number, options?: CallOptions): Promise<TemplateVersion> =>
    transport.json(templateVersionSchema, { path: pathOf('templates', template, 'versions', `${version}`), options }),

  /** Streams the log of a build, up to `done`. */
  log: (template: string, version: number, options: CallOptions = {}): AsyncGenerator<BuildEvent, void, undefined> => {
    const path = pathOf('templates', template, 'versions', `${version}`, 'log');
    return followEvents<BuildEvent>({
      schema: buildEventSchema,
      counting: bySeq,
      open: (after) => transport.open({ path, query: { after }, headers: lines, options }),
      ...(options.signal && { signal: options.signal }),
    });
  },
});
