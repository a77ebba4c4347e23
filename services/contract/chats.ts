import { z } from 'zod';
import { executionEventSchema, runStatuses } from './events.ts';
import { codeSchema, languageSchema, timeoutSecondsSchema } from './executions.ts';
import { boxPathSchema } from './files.ts';
import { pageSchema, queryInteger } from './page.ts';
import { plainText, wellFormedText } from './text.ts';

/** Whether code that a model wrote waits for its reader before it runs. */
export const approvalSchema = z.enum(['never', 'always']).meta({
  id: 'Approval',
  description:
    '`always`: code waits for POST …/approvals before it runs, and so do packages and files that the model would bring.',
});

export type Approval = z.infer<typeof approvalSchema>;

/** The name of a model as `GET /v1/models` lists it: `provider/name`. */
export const modelNameSchema = plainText().min(1).max(200);

/** A model that can be chosen. */
export const modelSchema = z
  .object({
    id: modelNameSchema.meta({ description: 'provider/name, such as openai/gpt-5 or anthropic/claude-sonnet-4-5.' }),
    object: z.literal('model'),
    owned_by: z.string(),
    created: z.int(),
    needsKey: z.boolean().meta({ description: 'No key is configured for it: send one as X-Model-Key.' }),
    isDefault: z.boolean(),
  })
  .meta({ id: 'Model' });

export type Model = z.infer<typeof modelSchema>;

/** As OpenAI's clients read it, and whether anything can be asked at all. */
export const modelListSchema = z
  .object({
    object: z.literal('list'),
    data: z.array(modelSchema),
    hint: z.string().nullable().meta({ description: 'What to set when no model is configured; null otherwise.' }),
  })
  .meta({ id: 'ModelList' });

export type ModelList = z.infer<typeof modelListSchema>;

const tokens = z.object({ input: z.int(), output: z.int() }).meta({ id: 'Tokens' });

export type Tokens = z.infer<typeof tokens>;

const titleSchema = plainText().trim().min(1).max(200);

/** A conversation, and the box that is its computer. */
export const chatSchema = z
  .object({
    id: z.string(),
    title: z.string().nullable().meta({ description: 'Null until its first message, unless it was given one.' }),
    user: z.string().nullable(),
    model: z.string().nullable().meta({ description: 'Of messages that name none; null for the default one.' }),
    approval: approvalSchema,
    box: z.string().nullable().meta({ description: 'Its box at the gateway; null before the first use.' }),
    running: z.string().nullable().meta({ description: 'The id of the answer that is being made.' }),
    tokens: tokens.meta({ description: 'Of all its answers.' }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: 'Chat' });

export type Chat = z.infer<typeof chatSchema>;

export const chatPageSchema = pageSchema('ChatPage', chatSchema);

export const createChatSchema = z
  .strictObject({
    title: titleSchema.optional(),
    model: modelNameSchema.optional(),
    approval: approvalSchema.optional(),
    template: plainText().max(64).optional().meta({ description: 'Of its box.' }),
  })
  .meta({ id: 'CreateChat' });

export type CreateChat = z.infer<typeof createChatSchema>;

export const updateChatSchema = z
  .strictObject({
    title: titleSchema.optional(),
    model: modelNameSchema.nullable().optional(),
    approval: approvalSchema.optional(),
  })
  .meta({ id: 'UpdateChat' });

export type UpdateChat = z.infer<typeof updateChatSchema>;

/** A file of a chat with an address that needs no key. */
export const attachmentSchema = z
  .object({
    path: z.string().meta({ description: 'Relative to /mnt/data.' }),
    name: z.string(),
    sizeBytes: z.int().nullable(),
    mime: z.string(),
    url: z.string().meta({ description: 'Signed, relative to the agent, good until expiresAt.' }),
    expiresAt: z.iso.datetime(),
    isGone: z
      .boolean()
      .optional()
      .meta({ description: 'True when it was deleted after this was told: `url` opens nothing.' }),
  })
  .meta({ id: 'Attachment' });

export type Attachment = z.infer<typeof attachmentSchema>;

/** What was put into a chat, with what the model is told of it. */
export const uploadedSchema = attachmentSchema
  .extend({
    preview: z.string().nullable().meta({ description: 'Of a table: its columns and their types, no values of it.' }),
  })
  .meta({ id: 'Uploaded' });

export type Uploaded = z.infer<typeof uploadedSchema>;

/** A picture that code has shown. It is kept by the agent, so it is there when the box is not. */
export const imageSchema = z
  .object({
    name: z.string(),
    mime: z.enum(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml']),
    url: z.string(),
    chartUrl: z.string().nullable().meta({ description: 'The data of a matplotlib figure as JSON (Chart), if any.' }),
    expiresAt: z.iso.datetime(),
  })
  .meta({ id: 'Image' });

export type Image = z.infer<typeof imageSchema>;

/**
 * One output of code in an answer, in the order in which they came. An image is a place: it holds no picture, `index` tells which of
 * `images` stands there. `clear` empties places as it does other outputs. One of `images` without a place (none of an answer that was
 * kept before there were places has one) stands behind all outputs. Of events the same holds: an `image` of a call stands behind
 * the `output`s of it that were told before.
 */
export const codeOutputSchema = z
  .union([
    executionEventSchema,
    z
      .object({ type: z.literal('image'), index: z.int().min(0) })
      .meta({ id: 'ImagePlace', description: 'Here stands the picture with this index in `images`.' }),
  ])
  .meta({ id: 'CodeOutput' });

export type CodeOutput = z.infer<typeof codeOutputSchema>;

const deletedSchema = z
  .array(z.string())
  .optional()
  .meta({ description: 'Paths that this run deleted, if any: what was told of them before, in all answers, is gone.' });

export const codeStates = ['waiting', 'running', 'done', 'declined', 'stopped'] as const;

/** The use of a tool that runs no code, as a part and as an event. */
const toolFields = {
  type: z.literal('tool'),
  call: z.string(),
  name: z.string(),
  arguments: z.record(z.string(), z.unknown()),
  result: z.string(),
  ok: z.boolean(),
};

const noticeFields = {
  type: z.literal('notice'),
  kind: z.enum(['continuity', 'installed', 'repaired', 'limit']),
  text: z.string(),
};

/** What a message is made of, in order. */
export const partSchema = z
  .discriminatedUnion('type', [
    z.object({ type: z.literal('text'), text: z.string().meta({ description: 'Markdown. Hostile: never HTML.' }) }),
    z.object({
      type: z.literal('code'),
      call: z.string(),
      language: z.string(),
      code: z.string(),
      state: z.enum(codeStates).meta({ description: 'waiting: for approval.' }),
      status: z.enum(runStatuses).nullable(),
      durationMs: z.number().nullable(),
      outputs: z.array(codeOutputSchema).meta({
        description: 'In order, without started and done, of long ones the head and the tail; of images their places.',
      }),
      images: z.array(imageSchema),
      files: z.array(attachmentSchema).meta({ description: 'That this run made or changed.' }),
      deleted: deletedSchema,
    }),
    z.object(toolFields),
    z.object(noticeFields),
  ])
  .meta({ id: 'MessagePart' });

export type Part = z.infer<typeof partSchema>;

/** `limit`: it was ended by a bound (rounds, the same mistake again and again). */
export const answerStatuses = ['running', 'ok', 'stopped', 'limit', 'error'] as const;

export const messageSchema = z
  .object({
    id: z.string(),
    role: z.enum(['user', 'assistant']),
    status: z.enum(answerStatuses),
    content: z.string().meta({ description: 'All of its text.' }),
    parts: z.array(partSchema),
    files: z
      .array(attachmentSchema)
      .meta({ description: 'Of a question: what came with it. Of an answer: what it made.' }),
    model: z.string().nullable(),
    tokens: tokens.nullable(),
    rounds: z.int().nullable().meta({ description: 'How often the model was asked.' }),
    error: z.object({ code: z.string(), detail: z.string() }).nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: 'Message' });

export type Message = z.infer<typeof messageSchema>;

export const messagePageSchema = pageSchema('MessagePage', messageSchema);

export const createMessageSchema = z
  .strictObject({
    content: wellFormedText().max(200_000).default(''),
    files: z
      .array(boxPathSchema)
      .max(100)
      .optional()
      .meta({ description: 'Paths of files that were put into the chat before and belong to this message.' }),
    model: modelNameSchema.optional(),
    approval: approvalSchema.optional(),
  })
  .refine((body) => body.content.trim() !== '' || (body.files?.length ?? 0) > 0, {
    path: ['content'],
    message: 'must not be empty when no files come with it',
  })
  .meta({ id: 'CreateMessage' });

export type CreateMessage = z.input<typeof createMessageSchema>;

const seq = z.int().min(1);

/**
 * One event of an answer. `seq` counts from 1 without gaps; `done` is the last one, once. A reader that goes on behind an event
 * and gets `start` begins anew: the events are told again in fewer, larger pieces.
 */
export const answerEventSchema = z
  .discriminatedUnion('type', [
    z.object({
      seq,
      type: z.literal('start'),
      chat: z.string(),
      message: z.string().meta({ description: 'The id of the answer.' }),
      question: z.string(),
      title: z.string().nullable(),
      model: z.string().nullable(),
    }),
    z.object({ seq, type: z.literal('text'), text: z.string().meta({ description: 'More of the text.' }) }),
    z.object({
      seq,
      type: z.literal('code'),
      call: z.string(),
      language: z.string(),
      code: z.string(),
      state: z.enum(codeStates).meta({ description: 'Told again when it changes.' }),
    }),
    z
      .object({ seq, type: z.literal('output'), call: z.string(), event: executionEventSchema })
      .meta({ description: 'As the execution told it, without images.' }),
    z.object({ seq, type: z.literal('image'), call: z.string(), image: imageSchema }),
    z.object({ seq, type: z.literal('file'), call: z.string().nullable(), file: attachmentSchema }),
    z
      .object({
        seq,
        type: z.literal('ran'),
        call: z.string(),
        status: z.enum(runStatuses),
        durationMs: z.number(),
        deleted: deletedSchema,
      })
      .meta({ description: 'Code has ended.' }),
    z.object({ seq, ...toolFields }),
    z.object({ seq, ...noticeFields }),
    z
      .object({ seq, type: z.literal('error'), code: z.string(), detail: z.string() })
      .meta({ description: 'Why there is no (whole) answer. Errors of code are outputs.' }),
    z.object({
      seq,
      type: z.literal('done'),
      status: z.enum(answerStatuses),
      content: z.string(),
      files: z.array(attachmentSchema),
      tokens: tokens.nullable(),
      rounds: z.int(),
    }),
  ])
  .meta({ id: 'AnswerEvent' });

export type AnswerEvent = z.infer<typeof answerEventSchema>;

export const approveSchema = z
  .strictObject({
    call: plainText().min(1).max(200),
    approved: z.boolean(),
    reason: wellFormedText().max(2000).optional().meta({ description: 'Told to the model when it is declined.' }),
  })
  .meta({ id: 'Approve' });

export type Approve = z.infer<typeof approveSchema>;

/** Code that a person runs in the box of a chat, without any model. */
export const createCellSchema = z
  .strictObject({
    code: codeSchema,
    language: languageSchema.optional(),
    timeoutSeconds: timeoutSecondsSchema.optional(),
  })
  .meta({ id: 'CreateCell' });

export type CreateCell = z.infer<typeof createCellSchema>;

/** A ticket with which a browser opens the terminal of a chat within a minute. */
export const chatTicketSchema = z
  .object({
    url: z.string().meta({ description: 'Path of the WebSocket, with the ticket.' }),
    expiresAt: z.iso.datetime(),
  })
  .meta({ id: 'ChatTicket' });

export type ChatTicket = z.infer<typeof chatTicketSchema>;

/** Files of a chat: a folder of them. */
export const chatFilesQuerySchema = z.strictObject({
  path: z.union([boxPathSchema, z.literal('')]).default(''),
  limit: queryInteger().min(1).max(1000).default(1000),
});

export const chatEntrySchema = z
  .object({
    path: z.string(),
    name: z.string(),
    type: z.enum(['file', 'directory', 'symlink', 'other']),
    sizeBytes: z.int(),
    modifiedAt: z.iso.datetime(),
    url: z.string().nullable().meta({ description: 'Signed; null for what is no file.' }),
  })
  .meta({ id: 'ChatEntry' });

export type ChatEntry = z.infer<typeof chatEntrySchema>;

export const chatFolderSchema = pageSchema('ChatFolder', chatEntrySchema);

/** What a page has to know before it asks for anything. */
export const agentInfoSchema = z
  .object({
    name: z.literal('codebox-agent'),
    isOpen: z.boolean().meta({ description: 'Whether a browser may come without a key.' }),
    hasModel: z.boolean(),
    hint: z.string().nullable(),
    languages: z.array(z.string()),
  })
  .meta({ id: 'AgentInfo' });

export type AgentInfo = z.infer<typeof agentInfoSchema>;
