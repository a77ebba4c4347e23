import type { Readable } from 'node:stream';
import { z } from 'zod';
import { boxPathSchema, CodeBoxError, modelNameSchema, plainText, wellFormedText } from '#contract';
import { largeJson } from '../../json/json-bounds.ts';
import type { Files } from '../chats/files/files.ts';
import type { Owner } from '../chats/owner.ts';
import type { Endpoints } from '../http/endpoints.ts';
import { createAnswerText } from './answer-markdown.ts';
import { originOf } from './asker.ts';
import { createCodeLog } from './code-log.ts';
import { absolute, tokenOf } from './links.ts';
import { answerError } from './openai/openai-error.ts';
import type { TurnOutcome, Turns } from './turns.ts';
import { readWhole } from './whole-file.ts';

const maxFiles = 20;
const maxFileBytes = 10 * 1024 * 1024;
const maxBytes = 32 * 1024 * 1024;

const inputFileSchema = z.union(
  [
    z.strictObject({ name: boxPathSchema, base64: z.base64() }),
    z.strictObject({ name: boxPathSchema, text: z.string() }),
  ],
  { error: 'must be {name, base64} or {name, text}' },
);

const requestSchema = z
  .strictObject({
    message: wellFormedText().max(200_000).default(''),
    files: z.array(inputFileSchema).max(maxFiles).default([]),
    model: modelNameSchema.optional(),
    session: plainText().min(1).max(256).optional().meta({ description: 'A chat, or any name of your own.' }),
  })
  .refine(({ message, files }) => message.trim() !== '' || files.length > 0, {
    path: ['message'],
    message: 'must not be empty when no files come with it',
  })
  .meta({ id: 'Generate' });

const responseSchema = z
  .object({
    content: z.string(),
    files: z.array(
      z.object({
        name: z.string(),
        mime: z.string(),
        sizeBytes: z.int().nullable(),
        base64: z
          .string()
          .nullable()
          .meta({ description: 'Null for a file that is too large: download it from its url.' }),
        url: z.string(),
      }),
    ),
    code_log: z.array(
      z.object({ language: z.string(), code: z.string(), output: z.string(), status: z.string().nullable() }),
    ),
    session: z.string(),
    status: z.string(),
  })
  .meta({ id: 'Generated' });

/** A file that later code removed, or replaced by a folder, must not fail the whole answer. */
const unlessDeleted = (error: unknown): undefined => {
  if (!(error instanceof CodeBoxError) || !['not_found', 'invalid_request'].includes(error.code)) throw error;
};

/** `POST /v1/generate`: a question with files in, an answer with files and code out, in one call. */
export const addGenerateRoute = ({ add }: Endpoints, turns: Turns, files: Files): void => {
  const bytesOf = async (body: Readable, room: number) => await readWhole(body, Math.min(maxFileBytes, room));

  /** Files and pictures of the answer, with their bytes as long as there is room. */
  const made = async (
    { files: made, images }: TurnOutcome,
    { owner, chat, origin, signal }: { owner: Owner; chat: string; origin: string; signal: AbortSignal },
  ) => {
    const all: z.infer<typeof responseSchema>['files'] = [];
    let room = maxBytes;
    const add = async (name: string, mime: string, url: string, body: Readable, size: number | null) => {
      const bytes = await bytesOf(body, room);
      room -= bytes?.length ?? 0;
      const base64 = bytes?.toString('base64') ?? null;
      all.push({ name, mime, sizeBytes: bytes?.length ?? size, base64, url: absolute(url, origin) });
    };
    for (const { path, name, mime, url } of made.slice(0, maxFiles)) {
      const file = await files.open(owner, chat, path).catch(unlessDeleted);
      if (file) await add(name, mime, url, file.body, Number(file.headers['content-length'] ?? 0) || null);
    }
    for (const { image } of images.slice(0, maxFiles)) {
      const { body } = await files.openLink(tokenOf(image.url), undefined, signal);
      await add(image.name, image.mime, image.url, body, null);
    }
    return all;
  };

  add(
    {
      method: 'post',
      path: '/v1/generate',
      summary: 'Get an answer with its files and its code in one call',
      tag: 'Dialects',
      body: requestSchema,
      bounds: largeJson,
      responses: { 200: { description: 'The answer.', schema: responseSchema } },
    },
    async ({ c, owner, body }) => {
      const { signal } = c.req.raw;
      const turn = await turns.begin(owner, {
        input: {
          notes: [],
          earlier: [],
          question: body.message,
          files: body.files.map((file) => ({
            name: file.name,
            bytes: 'text' in file ? Buffer.from(file.text) : Buffer.from(file.base64, 'base64'),
          })),
          earlierFiles: [],
        },
        session: body.session,
        keep: 'always',
        model: body.model,
        modelKey: c.req.header('x-model-key'),
        signal,
      });
      const origin = originOf(c);
      const text = createAnswerText(origin);
      const log = createCodeLog();
      let content = '';
      for await (const event of turn.events) {
        log.add(event);
        content += text(event);
      }
      if (turn.outcome.status === 'error') throw answerError(turn.outcome.error);
      return c.json({
        content,
        files: await made(turn.outcome, { owner, chat: turn.chat, origin, signal }),
        code_log: log.entries(),
        session: turn.chat,
        status: turn.outcome.status,
      });
    },
  );
};
