import { z } from 'zod';
import { CodeBoxError, chartSchema, modelNameSchema, wellFormedText } from '#contract';
import { jsonExcess, longJson } from '../../json/json-bounds.ts';
import type { Files } from '../chats/files/files.ts';
import type { Endpoints } from '../http/endpoints.ts';
import { createAnswerText } from './answer-markdown.ts';
import { originOf } from './asker.ts';
import { createCodeLog } from './code-log.ts';
import { tokenOf } from './links.ts';
import { answerError } from './openai/openai-error.ts';
import { tableSchema, toCsv } from './table.ts';
import type { Turns } from './turns.ts';
import { readWhole } from './whole-file.ts';

const maxImageBytes = 20 * 1024 * 1024;
const sharedLines = 6;
const fileName = 'data.csv';

const requestSchema = z
  .strictObject({
    prompt: wellFormedText().min(1).max(20_000),
    data: tableSchema,
    format: z.enum(['png', 'svg']).default('png'),
    shareRows: z.boolean().default(false).meta({
      description:
        'Show the model the first rows. Otherwise it sees only the columns, their types, and what its code prints.',
    }),
    model: modelNameSchema.optional(),
  })
  .meta({ id: 'Plot' });

const responseSchema = z
  .object({
    image: z.object({ mime: z.string(), base64: z.string() }),
    chart: chartSchema.nullable().meta({ description: 'The data of the figure, unless it has too many values.' }),
    code: z.string(),
    text: z.string(),
  })
  .meta({ id: 'Plotted' });

const questionFor = (prompt: string, csv: string, { shareRows, format }: { shareRows: boolean; format: string }) =>
  [
    `Draw one figure from ${fileName}: ${prompt}`,
    'Read the file with pandas, draw with matplotlib and show the figure with plt.show(). Do not print rows of the data.',
    ...(format === 'svg' ? ["Begin with: %config InlineBackend.figure_formats = ['svg']"] : []),
    ...(shareRows ? [`The file begins with:\n${csv.split('\n').slice(0, sharedLines).join('\n')}`] : []),
  ].join('\n\n');

/** Parses the data of a figure that code in a box produced; returns null when it is invalid or has too many values. */
export const readChart = (bytes: Buffer) => {
  if (jsonExcess(bytes, longJson) !== undefined) return null;
  return chartSchema.safeParse(JSON.parse(bytes.toString())).data ?? null;
};

/** `POST /v1/plot`: a table and a sentence in, a figure out. The chat behind it is removed. */
export const addPlotRoute = ({ add }: Endpoints, turns: Turns, files: Files): void =>
  add(
    {
      method: 'post',
      path: '/v1/plot',
      summary: 'Plot a table as a sentence describes',
      tag: 'Dialects',
      body: requestSchema,
      bounds: longJson,
      responses: {
        200: {
          description: 'The figure with its data and code, or the picture alone, depending on Accept.',
          types: {
            'application/json': responseSchema,
            'image/png': z.string().meta({ format: 'binary' }),
            'image/svg+xml': z.string().meta({ format: 'binary' }),
          },
        },
      },
    },
    async ({ c, owner, body }) => {
      const { signal } = c.req.raw;
      const csv = toCsv(body.data);
      const turn = await turns.begin(owner, {
        input: {
          notes: [],
          earlier: [],
          question: questionFor(body.prompt, csv, body),
          files: [{ name: fileName, bytes: Buffer.from(csv) }],
          earlierFiles: [],
        },
        keep: 'until-removed',
        model: body.model,
        modelKey: c.req.header('x-model-key'),
        signal,
      });
      try {
        const text = createAnswerText(originOf(c));
        const log = createCodeLog();
        let answer = '';
        for await (const event of turn.events) {
          log.add(event);
          answer += text(event);
        }
        if (turn.outcome.status === 'error') throw answerError(turn.outcome.error);
        const picture = turn.outcome.images.at(-1);
        if (!picture)
          throw new CodeBoxError('bad_gateway', `The model drew nothing. Its answer was: ${answer.slice(0, 500)}`);
        const open = async (url: string) => {
          const { body } = await files.openLink(tokenOf(url), undefined, signal);
          return await readWhole(body, maxImageBytes);
        };
        const bytes = await open(picture.image.url);
        if (!bytes) throw new CodeBoxError('too_large', `The figure has more than ${maxImageBytes} bytes.`);
        const { mime, chartUrl } = picture.image;
        if ((c.req.header('accept') ?? '').startsWith('image/'))
          return c.body(new Uint8Array(bytes), 200, { 'Content-Type': mime, 'X-Content-Type-Options': 'nosniff' });
        const chart = chartUrl && (await open(chartUrl));
        return c.json({
          image: { mime, base64: bytes.toString('base64') },
          chart: chart ? readChart(chart) : null,
          code: log.of(picture.call)?.code ?? '',
          text: answer,
        });
      } finally {
        await turns.remove(owner, turn.chat);
      }
    },
  );
