import { randomUUID } from 'node:crypto';
import type { KernelMessage } from '@jupyterlab/services';
import { serialize } from '@jupyterlab/services/lib/kernel/serialize.js';
import { z } from 'zod';
import { jsonExcess, longJson } from '../../../json/json-bounds.ts';

/** The protocol with one binary frame per message; without it messages are JSON text, or binary frames when they have buffers. */
export const binaryProtocol = 'v1.kernel.websocket.jupyter.org';

const text = z.string().max(200);
const headerSchema = z.looseObject({
  msg_id: text.min(1),
  msg_type: text.min(1),
  session: text.default(''),
  username: text.default(''),
});
const object = z.record(z.string(), z.unknown()).nullish();

const messageSchema = z.object({
  channel: z.enum(['shell', 'control', 'stdin']).default('shell'),
  header: headerSchema,
  parent_header: object,
  metadata: object,
  content: object,
});

export type Header = z.infer<typeof headerSchema>;

/** A message of a client. */
export interface ClientMessage {
  channel: 'shell' | 'control' | 'stdin';
  header: Header;
  parent_header: Record<string, unknown>;
  metadata: Record<string, unknown>;
  content: Record<string, unknown>;
  buffers: DataView[];
}

/** A message of the server, or of a kernel. */
export interface ServerMessage {
  channel: string;
  msg_id: string;
  msg_type: string;
  header: object;
  parent_header: object;
  metadata: object;
  content: object;
  buffers: DataView[];
}

const messageVersion = '5.4';
const maxParts = 1000;

/** Makes a message of a kernel in response to `parent`; a message that is sent again has the same `id`. */
export const toMessage = (
  parent: Header | undefined,
  { channel, type, content, id = randomUUID() }: { channel: string; type: string; content: object; id?: string },
): ServerMessage => {
  const date = new Date().toISOString();
  const session = parent?.session ?? '';
  const header = { msg_id: id, msg_type: type, session, username: 'codebox', date, version: messageVersion };
  return {
    channel,
    msg_id: id,
    msg_type: type,
    header,
    parent_header: parent ?? {},
    metadata: {},
    content,
    buffers: [],
  };
};

/** Writes a message as the data of one frame. */
export const encode = (message: ServerMessage | ClientMessage, protocol = ''): string | Uint8Array => {
  const wire = serialize({ ...message } as unknown as KernelMessage.IMessage, protocol);
  return typeof wire === 'string' ? wire : new Uint8Array(wire);
};

/** Reads the parts of a binary frame, which do not overlap; undefined when it has none. */
const readParts = (data: Buffer, protocol: string): Buffer[] | undefined => {
  const isNew = protocol === binaryProtocol;
  const width = isNew ? 8 : 4;
  const read = (at: number) => (isNew ? Number(data.readBigUInt64LE(at)) : data.readUInt32BE(at));
  const count = data.length < width ? 0 : read(0);
  if (count < 1 || count > maxParts || data.length < (count + 1) * width) return undefined;
  const offsets = Array.from({ length: count }, (_, at) => read((at + 1) * width));
  // The older format does not contain the end of its last part.
  if (!isNew) offsets.push(data.length);
  const isAscending = offsets.every((offset, at) => offset >= (offsets[at - 1] ?? 0) && offset <= data.length);
  return isAscending ? offsets.slice(1).map((end, at) => data.subarray(offsets[at], end)) : undefined;
};

const parse = (json: Buffer | undefined): unknown => {
  if (!json || jsonExcess(json, longJson) !== undefined) return undefined;
  try {
    return JSON.parse(json.toString('utf8'));
  } catch {
    return undefined;
  }
};

const readMessage = (data: Buffer, isBinary: boolean, protocol: string) => {
  if (!isBinary) return { value: parse(data), buffers: [] };
  const parts = readParts(data, protocol);
  if (!parts) return { value: undefined, buffers: [] };
  if (protocol !== binaryProtocol) return { value: parse(parts[0]), buffers: parts.slice(1) };
  const [channel, header, parent_header, metadata, content, ...buffers] = parts;
  const parsed = { header, parent_header, metadata, content };
  const fields = Object.fromEntries(Object.entries(parsed).map(([name, part]) => [name, parse(part)]));
  return { value: { channel: channel?.toString('latin1'), ...fields }, buffers };
};

/** A view of its own memory, as the serializer of Jupyter writes all the memory behind a view. */
const toView = (part: Buffer) => new DataView(new Uint8Array(part).buffer);

/** Reads the frame of a client; undefined when it is not a message. */
export const decodeClient = (data: Buffer, isBinary: boolean, protocol: string): ClientMessage | undefined => {
  const { value, buffers } = readMessage(data, isBinary, protocol);
  const parsed = messageSchema.safeParse(value);
  if (!parsed.success) return undefined;
  const { parent_header, metadata, content, ...rest } = parsed.data;
  return {
    ...rest,
    parent_header: parent_header ?? {},
    metadata: metadata ?? {},
    content: content ?? {},
    buffers: buffers.map(toView),
  };
};

const kernelHeaderSchema = z.looseObject({ msg_id: z.string(), msg_type: z.string() });

/** The routing fields of a message from a kernel, which are read without parsing its content. */
export interface KernelFrame {
  channel: string;
  type: string;
  /** The message of the client that it responds to. */
  parentId: string | undefined;
  /** The whole message; undefined when the kernel has sent none. */
  read: () => ServerMessage | undefined;
}

/** Reads a frame of a box in the binary protocol; undefined when it is not a message. */
export const decodeKernel = (data: Buffer): KernelFrame | undefined => {
  const [channel, rawHeader, rawParent, rawMetadata, rawContent, ...rest] = readParts(data, binaryProtocol) ?? [];
  const header = kernelHeaderSchema.safeParse(parse(rawHeader)).data;
  const parent = parse(rawParent) as { msg_id?: unknown } | null | undefined;
  if (!header || !channel || typeof parent !== 'object') return undefined;
  return {
    channel: channel.toString('latin1'),
    type: header.msg_type,
    parentId: typeof parent?.msg_id === 'string' ? parent.msg_id : undefined,
    read: () => {
      const [metadata, content] = [object, object].map((schema, at) =>
        schema.safeParse(parse([rawMetadata, rawContent][at])),
      );
      if (!metadata?.success || !content?.success) return undefined;
      return {
        channel: channel.toString('latin1'),
        msg_id: header.msg_id,
        msg_type: header.msg_type,
        header,
        parent_header: parent ?? {},
        metadata: metadata.data ?? {},
        content: content.data ?? {},
        buffers: rest.map(toView),
      };
    },
  };
};
