// A Slack app on the Events API: mention it, or send it a direct message. Each thread has a separate chat and box.
//   SLACK_SIGNING_SECRET=… SLACK_BOT_TOKEN=xoxb-… CODEBOX_KEY=… node_modules/node/bin/node examples/agent/slack-webhook.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { z } from 'zod';
import type { Attachment } from '#contract';
import { type Agent, createAgent } from './agent-client.ts';
import { splitText } from './split-text.ts';

const { CODEBOX_AGENT_URL: url = 'http://localhost:8090', CODEBOX_KEY: key = '', PORT: port = '3000' } = process.env;
const { SLACK_SIGNING_SECRET: secret = '', SLACK_BOT_TOKEN: token = '' } = process.env;
const { SLACK_API_URL: api = 'https://slack.com/api' } = process.env;

const maxBodyBytes = 1024 * 1024;
const maxAgeSeconds = 300;
const maxMessage = 3000;
const maxFiles = 10;

const fileSchema = z.object({ name: z.string(), url_private_download: z.url() });
const eventSchema = z.object({
  type: z.string(),
  channel: z.string(),
  channel_type: z.string().optional(),
  user: z.string().optional(),
  bot_id: z.string().optional(),
  text: z.string().default(''),
  ts: z.string(),
  thread_ts: z.string().optional(),
  files: z.array(fileSchema).default([]),
});
type SlackEvent = z.infer<typeof eventSchema>;

const bodySchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('url_verification'), challenge: z.string() }),
  z.object({ type: z.literal('event_callback'), team_id: z.string(), event_id: z.string(), event: z.unknown() }),
]);

/** Whether the request has a valid and recent signature of Slack. */
const isSigned = ({ headers }: IncomingMessage, body: Buffer): boolean => {
  const time = String(headers['x-slack-request-timestamp']);
  if (secret === '' || !(Math.abs(Date.now() / 1000 - Number(time)) < maxAgeSeconds)) return false;
  const expected = `v0=${createHmac('sha256', secret).update(`v0:${time}:`).update(body).digest('hex')}`;
  const given = Buffer.from(String(headers['x-slack-signature']));
  return given.length === expected.length && timingSafeEqual(given, Buffer.from(expected));
};

/** Calls a Slack API method. Throws if Slack refuses it. */
const slack = async (method: string, args: Record<string, string>): Promise<Record<string, unknown>> => {
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(`${api}/${method}`, { method: 'POST', headers, body: new URLSearchParams(args) });
  const result = z.looseObject({ ok: z.boolean() }).parse(await response.json());
  if (!result.ok) throw new Error(`Slack refused ${method}: ${JSON.stringify(result)}`);
  return result;
};

const sendFile = async (place: { channel: string; thread: string }, name: string, bytes: Uint8Array<ArrayBuffer>) => {
  const opened = await slack('files.getUploadURLExternal', { filename: name, length: String(bytes.length) });
  const { upload_url, file_id } = z.object({ upload_url: z.url(), file_id: z.string() }).parse(opened);
  await fetch(upload_url, { method: 'POST', body: bytes });
  const files = JSON.stringify([{ id: file_id, title: name }]);
  await slack('files.completeUploadExternal', { files, channel_id: place.channel, thread_ts: place.thread });
};

const uploadFiles = async (agent: Agent, chat: string, files: SlackEvent['files']): Promise<string[]> => {
  for (const { name, url_private_download: from } of files) {
    const response = await fetch(from, { headers: { Authorization: `Bearer ${token}` } });
    if (!response.ok) throw new Error(`${name} could not be read from Slack`);
    await agent.upload(chat, name, new Uint8Array(await response.arrayBuffer()));
  }
  return files.map(({ name }) => name);
};

const answer = async (team: string, event: SlackEvent): Promise<void> => {
  const place = { channel: event.channel, thread: event.thread_ts ?? event.ts };
  const post = (text: string) =>
    slack('chat.postMessage', { channel: place.channel, thread_ts: place.thread, markdown_text: text });
  const agent = createAgent({ url, key, user: `slack-${team}-${place.channel}-${place.thread}` });
  const chat = await agent.latestChat();
  const question = event.text.replace(/<@\w+>/g, '').trim();
  if (question.toLowerCase() === 'stop') return void (await agent.stop(chat));
  let text = '';
  const files = new Map<string, Pick<Attachment, 'name' | 'url'>>();
  for await (const output of agent.ask(chat, question, await uploadFiles(agent, chat, event.files))) {
    if (output.type === 'text') text += output.text;
    if (output.type === 'code' && text !== '') text = `${text.trimEnd()}\n\n`;
    if (output.type === 'image') files.set(output.image.name, output.image);
    if (output.type === 'error') text += `\nIt failed: ${output.detail}`;
    if (output.type === 'done') for (const file of output.files) files.set(file.name, file);
  }
  for (const piece of splitText(withoutLinks(text), maxMessage)) await post(piece);
  for (const file of [...files.values()].slice(0, maxFiles)) {
    await sendFile(place, file.name, await agent.download(file));
  }
};

/** Replaces links to the agent by their texts, because Slack users cannot open them and get the files themselves. */
const withoutLinks = (text: string) => text.replace(/!?\[([^\]]*)\]\(\/v1\/files\/[^)\s]+\)/g, '$1');

/** Ids of handled events: Slack resends an event that was not acknowledged within three seconds. */
const seen = new Set<string>();
const isNew = (id: string): boolean => {
  if (seen.has(id)) return false;
  seen.add(id);
  const [oldest] = seen;
  if (seen.size > 10_000 && oldest !== undefined) seen.delete(oldest);
  return true;
};

const isForUs = ({ type, channel_type, bot_id, user }: SlackEvent): boolean =>
  !bot_id && user !== undefined && (type === 'app_mention' || (type === 'message' && channel_type === 'im'));

const readBody = async (request: IncomingMessage): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > maxBodyBytes) throw new Error('the body is too large');
  }
  return Buffer.concat(chunks);
};

const server = createServer(async (request, response) => {
  try {
    const bytes = await readBody(request);
    if (!isSigned(request, bytes)) return void response.writeHead(401).end();
    const body = bodySchema.parse(JSON.parse(bytes.toString()));
    if (body.type === 'url_verification') return void response.end(body.challenge);
    response.end();
    const event = eventSchema.safeParse(body.event);
    if (!event.success || !isForUs(event.data) || !isNew(body.event_id)) return;
    await answer(body.team_id, event.data);
  } catch (error) {
    console.error(error);
    if (!response.headersSent) response.writeHead(400).end();
  }
});
server.listen(Number(port), () => console.log(`listening on ${port}`));
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => void server.close());
