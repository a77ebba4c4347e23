import { z } from 'zod';
import { boxPathSchema, encodedPathSchema } from './files/files.ts';
import { executionEventSchema, runStatuses } from './runs/events.ts';
import { codeSchema, languageSchema, timeoutSecondsSchema } from './runs/executions.ts';
import { pageSchema, queryInteger } from './values/page.ts';
import { plainText, wellFormedText } from './values/text.ts';

/** Whether code that a model wrote waits for approval before it runs. */
export const approvalSchema = z.enum(['never', 'always']).meta({
  id: 'Approval',
  description:
    '`always`: code waits for POST …/approvals before it runs, and so do the packages and files that the model asks for.',
});

export type Approval = z.infer<typeof approvalSchema>;

/** The name of a model as `GET /v1/models` lists it: `provider/name`. */
export const modelNameSchema = plainText().min(1).max(200);

/** A model that a chat can use. */
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

/** The list of models in the shape that OpenAI's clients read, with a hint when no model is configured. */
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

/** A conversation and its box. */
export const chatSchema = z
  .object({
    id: z.string(),
    title: z.string().nullable().meta({ description: 'Null until the first message, unless a title was given.' }),
    user: z.string().nullable(),
    model: z
      .string()
      .nullable()
      .meta({ description: 'The model for messages that name none; null for the default model.' }),
    approval: approvalSchema,
    box: z.string().nullable().meta({ description: 'The id of its box at the gateway; null before the first use.' }),
    running: z.string().nullable().meta({ description: 'The id of the answer that is being generated.' }),
    tokens: tokens.meta({ description: 'The tokens of all answers of the chat.' }),
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
    template: plainText().max(64).optional().meta({ description: 'The template of its box.' }),
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

/** A file of a chat, with a URL that needs no key. */
export const attachmentSchema = z
  .object({
    path: z.string().meta({ description: 'Relative to /mnt/data.' }),
    name: z.string(),
    sizeBytes: z.int().nullable(),
    mime: z.string(),
    url: z.string().meta({ description: 'A signed URL relative to the agent, valid until expiresAt.' }),
    expiresAt: z.iso.datetime(),
    isGone: z
      .boolean()
      .optional()
      .meta({ description: 'True when the file has been deleted since: `url` no longer works.' }),
  })
  .meta({ id: 'Attachment' });

export type Attachment = z.infer<typeof attachmentSchema>;

/** A file that was uploaded to a chat, with the description that the model receives. */
export const uploadedSchema = attachmentSchema
  .extend({
    preview: z.string().nullable().meta({ description: 'For a table: its columns and their types, without values.' }),
  })
  .meta({ id: 'Uploaded' });

export type Uploaded = z.infer<typeof uploadedSchema>;

/** A picture that code has shown. The agent keeps it, so it stays available when the box has ended. */
export const imageSchema = z
  .object({
    name: z.string(),
    mime: z.enum(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml']),
    url: z.string(),
    chartUrl: z
      .string()
      .nullable()
      .meta({ description: 'URL of the data of a matplotlib figure as JSON (Chart); null when there is none.' }),
    expiresAt: z.iso.datetime(),
  })
  .meta({ id: 'Image' });

export type Image = z.infer<typeof imageSchema>;

/**
 * One output of code in an answer; outputs are in the order in which they were produced. An image is represented by a
 * place: it holds no picture, and `index` says which entry of `images` belongs there. `clear` removes places as it
 * removes other outputs. An entry of `images` without a place (every image of an answer stored before places existed)
 * follows all outputs. The same holds for events: an `image` of a call follows the `output`s of that call that came
 * before it.
 */
export const codeOutputSchema = z
  .union([
    executionEventSchema,
    z
      .object({ type: z.literal('image'), index: z.int().min(0) })
      .meta({ id: 'ImagePlace', description: 'The place of the picture with this index in `images`.' }),
  ])
  .meta({ id: 'CodeOutput' });

export type CodeOutput = z.infer<typeof codeOutputSchema>;

const deletedSchema = z.array(z.string()).optional().meta({
  description: 'Paths that this run deleted, if any: earlier mentions of these files, in all answers, are out of date.',
});

export const codeStates = ['waiting', 'running', 'done', 'declined', 'stopped'] as const;

/** The use of a tool that runs no code, both as a part and as an event. */
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

/** The parts of a message, in order. */
export const partSchema = z
  .discriminatedUnion('type', [
    z.object({
      type: z.literal('text'),
      text: z.string().meta({ description: 'Markdown from an untrusted source: never render it as HTML.' }),
    }),
    z.object({
      type: z.literal('code'),
      call: z.string(),
      language: z.string(),
      code: z.string(),
      state: z.enum(codeStates).meta({ description: '`waiting`: the code waits for approval.' }),
      status: z.enum(runStatuses).nullable(),
      durationMs: z.number().nullable(),
      outputs: z.array(codeOutputSchema).meta({
        description:
          'The outputs in order, without started and done; long outputs are cut to their head and tail, and images are places.',
      }),
      images: z.array(imageSchema),
      files: z.array(attachmentSchema).meta({ description: 'Files that this run created or changed.' }),
      deleted: deletedSchema,
    }),
    z.object(toolFields),
    z.object(noticeFields),
  ])
  .meta({ id: 'MessagePart' });

export type Part = z.infer<typeof partSchema>;

/** `limit`: a limit ended it (too many rounds, or the same mistake repeatedly). */
export const answerStatuses = ['running', 'ok', 'stopped', 'limit', 'error'] as const;

export const messageSchema = z
  .object({
    id: z.string(),
    role: z.enum(['user', 'assistant']),
    status: z.enum(answerStatuses),
    content: z.string().meta({ description: 'The whole text of the message.' }),
    parts: z.array(partSchema),
    files: z
      .array(attachmentSchema)
      .meta({ description: 'Of a question: the files attached to it. Of an answer: the files that it created.' }),
    model: z.string().nullable(),
    tokens: tokens.nullable(),
    rounds: z.int().nullable().meta({ description: 'How many requests were sent to the model.' }),
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
      .meta({ description: 'Paths of files that were uploaded to the chat before and belong to this message.' }),
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
 * One event of an answer. `seq` counts from 1 without gaps; the last event is the only `done`. A reader that resumes
 * after an event and receives `start` has to begin anew: the events are sent again in fewer, larger pieces.
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
      state: z.enum(codeStates).meta({ description: 'The event is sent again when the state changes.' }),
    }),
    z
      .object({ seq, type: z.literal('output'), call: z.string(), event: executionEventSchema })
      .meta({ description: 'An event of the execution, without images.' }),
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
      .meta({ description: 'The code has ended.' }),
    z.object({ seq, ...toolFields }),
    z.object({ seq, ...noticeFields }),
    z
      .object({ seq, type: z.literal('error'), code: z.string(), detail: z.string() })
      .meta({ description: 'Why the answer is missing or incomplete. Errors of code are outputs instead.' }),
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
    reason: wellFormedText()
      .max(2000)
      .optional()
      .meta({ description: 'Passed on to the model when the code is declined.' }),
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
    encodedPath: encodedPathSchema.optional(),
    name: z.string(),
    type: z.enum(['file', 'directory', 'symlink', 'other']),
    sizeBytes: z.int(),
    modifiedAt: z.iso.datetime(),
    url: z.string().nullable().meta({ description: 'Signed; null for what is no file.' }),
    expiresAt: z.iso.datetime().nullable().meta({ description: 'When `url` expires.' }),
  })
  .meta({ id: 'ChatEntry' });

export type ChatEntry = z.infer<typeof chatEntrySchema>;

export const chatFolderSchema = pageSchema('ChatFolder', chatEntrySchema);

/** The facts that a page needs before its first request. */
export const agentInfoSchema = z
  .object({
    name: z.literal('codebox-agent'),
    isOpen: z.boolean().meta({ description: 'Whether a browser may come without a key.' }),
    hasModel: z.boolean(),
    hint: z.string().nullable(),
    languages: z.array(z.string()).meta({ description: 'Empty while they are not known.' }),
  })
  .meta({ id: 'AgentInfo' });

export type AgentInfo = z.infer<typeof agentInfoSchema>;
