// A console chat: streams the text of the model, its code and the output, and saves created files to the current folder.
//   CODEBOX_KEY=$(cat .codebox/dev-key) node_modules/node/bin/node examples/agent/console.ts
import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import type { AnswerEvent, Attachment, ExecutionEvent } from '#contract';
import { createAgent } from './agent-client.ts';

const { CODEBOX_AGENT_URL: url = 'http://localhost:8090', CODEBOX_KEY: key = '' } = process.env;
const { CODEBOX_USER: user = 'console', CODEBOX_FILES: folder = '.' } = process.env;
const agent = createAgent({ url, key, user });
let chat = await agent.newChat();
let attached: string[] = [];

const isTerminal = process.stdout.isTTY;
const dim = (text: string) => (isTerminal ? `\x1b[2m${text}\x1b[0m` : text);
const print = (text: string) => process.stdout.write(text);
/** Removes control characters except tabs and newlines, because output of programs and models must not control the terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern removes these characters
const plain = (text: string) => text.replace(/\x1b\[[\d;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]/g, '');

const textOf = (event: ExecutionEvent): string => {
  if (event.type === 'stdout' || event.type === 'stderr') return event.text;
  if (event.type === 'result' || event.type === 'display') return `${event.mime['text/plain'] ?? ''}\n`;
  if (event.type === 'error') return `${event.name}: ${event.value}\n`;
  return '';
};

/** Saves a file under an unused name. */
const save = async (file: Attachment): Promise<string> => {
  const name = basename(plain(file.name)) || 'file';
  for (let copy = 0; ; copy++) {
    const path = join(folder, copy === 0 ? name : `${copy}-${name}`);
    const isTaken = await access(path).then(
      () => true,
      () => false,
    );
    if (isTaken) continue;
    await mkdir(folder, { recursive: true });
    await writeFile(path, await agent.download(file), { flag: 'wx' });
    return path;
  }
};

const show = (event: AnswerEvent): void => {
  if (event.type === 'text') print(plain(event.text));
  if (event.type === 'code' && event.state === 'running') print(dim(`\n[${event.language}]\n${plain(event.code)}\n`));
  if (event.type === 'output') print(dim(plain(textOf(event.event))));
  if (event.type === 'image') print(dim(`[picture ${plain(event.image.name)}]\n`));
  if (event.type === 'notice') print(dim(`[${plain(event.text)}]\n`));
  if (event.type === 'error') print(`\nIt failed: ${plain(event.detail)}\n`);
};

const ask = async (question: string): Promise<void> => {
  const files = attached;
  attached = [];
  for await (const event of agent.ask(chat, question, files)) {
    show(event);
    if (event.type !== 'done') continue;
    print('\n');
    for (const file of event.files) print(dim(`[saved ${await save(file)}]\n`));
    if (event.status === 'stopped') print('[stopped]\n');
  }
};

const upload = async (path: string): Promise<void> => {
  const name = basename(path);
  await agent.upload(chat, name, await readFile(path));
  attached.push(name);
  print(dim(`[${name} will be attached to the next question]\n`));
};

const run = async (line: string): Promise<void> => {
  const [command, ...rest] = line.trim().split(' ');
  if (command === '') return;
  if (command === '/upload') return await upload(rest.join(' '));
  if (command === '/new') {
    chat = await agent.newChat();
    attached = [];
    return;
  }
  await ask(line);
};

if (isTerminal) print(dim('Ask something. /upload FILE, /stop, /new; Ctrl+D to exit.\n'));
const lines = createInterface({ input: process.stdin });
// Lines are processed in order, so that they can be piped in; only /stop takes effect at once.
let turn = Promise.resolve();
for await (const line of lines) {
  if (line.trim() === '/stop') await agent.stop(chat);
  else turn = turn.then(() => run(line)).catch((error: unknown) => void print(`${error}\n`));
}
await turn;
