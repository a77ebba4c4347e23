import { z } from 'zod';
import { modelNameSchema, plainText, wellFormedText } from '#contract';
import { faulty } from '../../../http/faults/fault.ts';
import { type ConversationMessage, type InlineFile, type TurnInput, toInlineFile, toTurnInput } from './content.ts';
import { maxTools, metadataSchema } from './limits.ts';

const text = wellFormedText().max(1_000_000);

const partSchema = z.discriminatedUnion(
  'type',
  [
    z.looseObject({ type: z.literal('text'), text }),
    z.looseObject({ type: z.literal('image_url'), image_url: z.looseObject({ url: z.string() }) }).meta({
      description: 'A data URL. It is stored in the box as a file, which code can read; the model does not see it.',
    }),
    z
      .looseObject({
        type: z.literal('file'),
        file: z.looseObject({ filename: z.string().nullish(), file_data: z.string() }),
      })
      .meta({ description: 'A data URL or base64. It is stored in the box as a file.' }),
  ],
  { error: 'must be of type text, image_url or file' },
);

type Part = z.infer<typeof partSchema>;

const messageSchema = z.looseObject({
  role: z.enum(['system', 'developer', 'user', 'assistant'], { error: 'must be system, developer, user or assistant' }),
  content: z.union([text, z.array(partSchema).max(1000)]).nullish(),
});

const ownTools = 'must be empty or code_interpreter: this model has its own tools and calls none of its client';

/** `POST /v1/chat/completions`. Other fields, such as `temperature`, are accepted and have no effect. */
export const chatCompletionRequestSchema = z
  .looseObject({
    model: modelNameSchema
      .nullish()
      .meta({ description: 'A name from GET /v1/models; the default model when left out.' }),
    messages: z
      .array(messageSchema)
      .min(1)
      .max(2000)
      .meta({ description: 'The last message is the question. In a session the earlier ones are ignored.' }),
    stream: z.boolean().nullish(),
    stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
    user: plainText().min(1).max(256).nullish().meta({ description: 'As X-CodeBox-User.' }),
    session_id: plainText().min(1).max(256).nullish().meta({
      description:
        'The id of a chat, or any name of your own, whose chat and box continue. Also accepted as metadata.session_id.',
    }),
    metadata: metadataSchema.nullish(),
    n: z.literal(1, { error: 'must be 1' }).nullish(),
    tools: z
      .array(z.looseObject({ type: z.literal('code_interpreter', { error: ownTools }) }))
      .max(maxTools)
      .nullish(),
    functions: z.array(z.unknown()).max(0, { error: ownTools }).nullish(),
    response_format: z.looseObject({ type: z.literal('text', { error: 'must be text' }) }).nullish(),
  })
  .meta({ id: 'ChatCompletionRequest' });

export type ChatCompletionRequest = z.infer<typeof chatCompletionRequestSchema>;

/** Reads the messages of a chat completion. Throws `invalid_request` when the last one is not from the user. */
export const readMessages = (messages: ChatCompletionRequest['messages']): TurnInput => {
  let pictures = 0;
  const toFile = (part: Exclude<Part, { type: 'text' }>, pointer: string, index: number): InlineFile => {
    if (part.type === 'file') {
      const { file_data, filename } = part.file;
      return toInlineFile(file_data, filename, { fallback: `file-${index + 1}`, pointer: `${pointer}/file` });
    }
    pictures += 1;
    const place = { fallback: `image-${pictures}`, pointer: `${pointer}/image_url/url` };
    return toInlineFile(part.image_url.url, undefined, place);
  };
  const conversation = messages.map(({ role, content }, at): ConversationMessage => {
    if (typeof content === 'string') return { role, text: content, files: [] };
    const joined: ConversationMessage = { role, text: '', files: [] };
    content?.forEach((part, index) => {
      const pointer = `/messages/${at}/content/${index}`;
      if (part.type === 'text') joined.text += `${joined.text && '\n\n'}${part.text}`;
      else if (role === 'user') joined.files.push(toFile(part, pointer, index));
      else throw faulty([{ pointer, detail: 'must be text: only the user gives files' }]);
    });
    return joined;
  });
  return toTurnInput(conversation, '/messages');
};
