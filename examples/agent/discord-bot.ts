// A Discord bot: mention it in a channel, or send it a direct message. Each user has a separate chat and box in each channel.
//   DISCORD_BOT_TOKEN=… CODEBOX_KEY=… node_modules/node/bin/node examples/agent/discord-bot.ts
import { Client, Events, GatewayIntentBits, type Message, Partials, type SendableChannels } from 'discord.js';
import type { Attachment } from '#contract';
import { createAgent } from './agent-client.ts';
import { splitText } from './split-text.ts';

const { CODEBOX_AGENT_URL: url = 'http://localhost:8090', CODEBOX_KEY: key = '' } = process.env;
const { DISCORD_BOT_TOKEN: token = '', DISCORD_API_URL: api = 'https://discord.com/api' } = process.env;

const maxMessage = 2000;
const maxFiles = 10;
const maxFileBytes = 8 * 1024 * 1024;
const typingMs = 8000;

const bot = new Client({
  intents: [GatewayIntentBits.Guilds, GatewayIntentBits.GuildMessages, GatewayIntentBits.DirectMessages],
  partials: [Partials.Channel],
  rest: { api },
  // Mentions in the text of a model notify nobody.
  allowedMentions: { parse: [], repliedUser: true },
});

/** Uploads the attachments of a message into the chat; returns their names. */
const uploadFiles = async (
  chat: string,
  agent: ReturnType<typeof createAgent>,
  message: Message,
): Promise<string[]> => {
  const names: string[] = [];
  for (const { name, url: from, size } of message.attachments.values()) {
    if (size > maxFileBytes) continue;
    const response = await fetch(from);
    if (!response.ok) throw new Error(`${name} could not be read from Discord`);
    await agent.upload(chat, name, new Uint8Array(await response.arrayBuffer()));
    names.push(name);
  }
  return names;
};

const sendFiles = async (
  channel: SendableChannels,
  files: readonly Pick<Attachment, 'name' | 'url'>[],
  agent: ReturnType<typeof createAgent>,
): Promise<void> => {
  const sent: { name: string; attachment: Buffer }[] = [];
  const tooLarge: string[] = [];
  for (const file of files.slice(0, maxFiles)) {
    const bytes = Buffer.from(await agent.download(file));
    if (bytes.length > maxFileBytes) tooLarge.push(file.name);
    else sent.push({ name: file.name, attachment: bytes });
  }
  const content = tooLarge.length > 0 ? `Too large to send: ${tooLarge.join(', ')}` : undefined;
  if (sent.length > 0 || content) await channel.send({ files: sent, ...(content && { content }) });
};

const answer = async (message: Message, channel: SendableChannels, question: string): Promise<void> => {
  const agent = createAgent({ url, key, user: `discord-${message.channelId}-${message.author.id}` });
  const chat = await agent.latestChat();
  if (question.toLowerCase() === 'stop') return void (await agent.stop(chat));
  let text = '';
  const files = new Map<string, Pick<Attachment, 'name' | 'url'>>();
  for await (const event of agent.ask(chat, question, await uploadFiles(chat, agent, message))) {
    if (event.type === 'text') text += event.text;
    if (event.type === 'code' && text !== '') text = `${text.trimEnd()}\n\n`;
    if (event.type === 'image') files.set(event.image.name, event.image);
    if (event.type === 'error') text += `\nIt failed: ${event.detail}`;
    if (event.type === 'done') for (const file of event.files) files.set(file.name, file);
  }
  const [first = 'Done.', ...more] = splitText(withoutLinks(text), maxMessage);
  await message.reply(first);
  for (const piece of more) await channel.send(piece);
  await sendFiles(channel, [...files.values()], agent);
};

/** Replaces links to the agent by their texts, because Discord users cannot open them and get the files themselves. */
const withoutLinks = (text: string) => text.replace(/!?\[([^\]]*)\]\(\/v1\/files\/[^)\s]+\)/g, '$1');

bot.on(Events.MessageCreate, async (message) => {
  const { channel, author } = message;
  if (author.bot || !bot.user || !channel.isSendable()) return;
  if (message.inGuild() && !message.mentions.users.has(bot.user.id)) return;
  const typing = setInterval(() => void channel.sendTyping().catch(() => {}), typingMs);
  try {
    await channel.sendTyping();
    await answer(message, channel, message.content.replace(/<@!?\d+>/g, '').trim());
  } catch (error) {
    console.error(error);
    await message.reply('Something went wrong. Please try again later.').catch(() => {});
  } finally {
    clearInterval(typing);
  }
});
bot.once(Events.ClientReady, ({ user }) => console.log(`${user.username} is online`));
await bot.login(token);

for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => {
    void bot.destroy();
    process.exit();
  });
