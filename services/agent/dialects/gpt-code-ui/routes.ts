import { z } from 'zod';
import { boxPathSchema, type Model, type Uploaded } from '#contract';
import { readMultipart } from '../../../http/bodies/multipart.ts';
import { openUpload } from '../../../http/bodies/uploads.ts';
import { largeJson } from '../../../json/json-bounds.ts';
import type { Owner } from '../../chats/owner.ts';
import { readRange, sendFile } from '../../http/downloads.ts';
import type { Endpoints } from '../../http/endpoints.ts';
import { createPageSession, type PageSession, type PageSessionOptions } from './page-session.ts';
import { createPageSessions } from './page-sessions.ts';

export interface GptCodeUiParts extends PageSessionOptions {
  listModels: () => Promise<Model[]>;
}

const tag = 'gpt-code-ui';
const success = { result: 'success' } as const;
const successSchema = z.object({ result: z.literal('success') }).meta({ id: 'GptCodeUiSuccess' });
const generatedSchema = z.object({ code: z.string().nullable(), text: z.string() }).meta({ id: 'GptCodeUiGenerated' });
const resultsSchema = z
  .object({ results: z.array(z.object({ type: z.string(), value: z.string() })) })
  .meta({ id: 'GptCodeUiResults' });
const uploadedSchema = z.object({ message: z.string() }).meta({ id: 'GptCodeUiUploaded' });

/** Routes for the page of gpt-code-ui, below /gpt-code-ui: each person has a chat, a box and results. */
export const addGptCodeUiRoutes = ({ add }: Endpoints, parts: GptCodeUiParts): void => {
  const pageSessions = createPageSessions({ open: (onSize) => createPageSession({ ...parts, onSize }) });
  const pageSessionOf = (owner: Owner): PageSession => pageSessions.of(owner);

  add(
    {
      method: 'get',
      path: '/gpt-code-ui/models',
      summary: 'List the models to choose from',
      tag,
      responses: {
        200: {
          description: 'They.',
          schema: z.array(z.object({ displayName: z.string(), name: z.string() })),
        },
      },
    },
    async ({ c }) => c.json((await parts.listModels()).map(({ id }) => ({ displayName: id, name: id }))),
  );

  add(
    {
      method: 'post',
      path: '/gpt-code-ui/generate',
      summary: 'Ask for code, which waits for api/api to run it; or get an answer without code',
      tag,
      body: z
        .looseObject({
          prompt: z.string().min(1).max(200_000),
          model: z.string().max(200).nullish(),
          openAIKey: z.string().max(1000).nullish().meta({ description: 'For this request only.' }),
        })
        .meta({ id: 'GptCodeUiGenerate' }),
      bounds: largeJson,
      responses: {
        200: { description: 'The code or the text to show.', schema: generatedSchema },
        500: { description: 'The model failed.', schema: generatedSchema },
      },
    },
    async ({ c, owner, body }) => {
      const { prompt, model, openAIKey } = body;
      const { failure, ...generated } = await pageSessionOf(owner).generate(
        owner,
        prompt,
        model || undefined,
        openAIKey || c.req.header('x-model-key'),
      );
      return failure === undefined
        ? c.json(generated)
        : c.json({ code: null, text: `Error from API: ${failure}` }, 500);
    },
  );

  add(
    {
      method: 'post',
      path: '/gpt-code-ui/inject-context',
      summary: 'Add context to the next prompt',
      tag,
      body: z.looseObject({ prompt: z.string().max(100_000) }).meta({ id: 'GptCodeUiContext' }),
      bounds: largeJson,
      responses: { 200: { description: 'It will.', schema: successSchema } },
    },
    ({ c, owner, body }) => {
      pageSessionOf(owner).inject(body.prompt);
      return c.json(success);
    },
  );

  add(
    {
      method: 'post',
      path: '/gpt-code-ui/upload',
      summary: 'Upload a file to the box',
      tag,
      rawBody: { 'multipart/form-data': z.object({ file: z.string().meta({ format: 'binary' }) }) },
      responses: {
        200: {
          description: 'The file was uploaded; for a table, the message lists its columns.',
          schema: uploadedSchema,
        },
      },
    },
    async ({ c, owner }) => {
      const chat = await pageSessionOf(owner).chat(owner);
      const type = c.req.header('content-type') ?? '';
      if (!/^multipart\/form-data\b/i.test(type)) return c.json({ error: 'No file part in the request' }, 400);
      using upload = openUpload(c);
      const written: Uploaded[] = [];
      await readMultipart(
        upload.body,
        type,
        async (path, content) => {
          written.push(await parts.files.put(owner, chat, path, content, upload.signal));
        },
        upload.signal,
      );
      const lines = written.map(({ name, preview }) => {
        const columns = preview?.replace('Columns:', '\nThe file contains the following columns:');
        return `File ${name} uploaded successfully.${columns ?? ''}`;
      });
      return c.json({ message: lines.join('\n') });
    },
  );

  add(
    {
      method: 'get',
      path: '/gpt-code-ui/download',
      summary: 'Download a file of the box',
      tag,
      query: z.object({ file: boxPathSchema }),
      responses: {
        200: {
          description: 'The bytes.',
          types: { 'application/octet-stream': z.string().meta({ format: 'binary' }) },
        },
      },
    },
    async ({ c, owner, query }) => {
      const file = await parts.files.open(owner, await pageSessionOf(owner).chat(owner), query.file, readRange(c));
      return sendFile(c, file, file.name);
    },
  );

  add(
    {
      method: 'get',
      path: '/gpt-code-ui/api/api',
      summary: 'Poll new output and text',
      tag,
      responses: {
        200: { description: 'The results since the last poll; each is returned once.', schema: resultsSchema },
      },
    },
    ({ c, owner }) => c.json({ results: pageSessionOf(owner).drain() }),
  );

  add(
    {
      method: 'post',
      path: '/gpt-code-ui/api/api',
      summary: 'Run code: that of the pending answer, which then continues, or any other',
      tag,
      body: z.looseObject({ command: z.string().min(1).max(1_000_000) }).meta({ id: 'GptCodeUiCommand' }),
      bounds: largeJson,
      responses: { 200: { description: 'The code runs; poll api/api for its output.', schema: successSchema } },
    },
    async ({ c, owner, body }) => {
      await pageSessionOf(owner).run(owner, body.command);
      return c.json(success);
    },
  );

  add(
    {
      method: 'post',
      path: '/gpt-code-ui/api/restart',
      summary: 'Restart the kernel: variables are lost, files stay',
      tag,
      body: z.looseObject({}).meta({ id: 'GptCodeUiRestart' }),
      responses: { 200: { description: 'It is there.', schema: successSchema } },
    },
    async ({ c, owner }) => {
      await pageSessionOf(owner).restart(owner);
      return c.json(success);
    },
  );
};
