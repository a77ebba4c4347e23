import type { IncomingMessage } from 'node:http';

/** The sandbox and the port that a request is for. */
export interface Address {
  sandbox: string;
  port: number;
}

/** Ports that the gateway serves itself: the daemon for files and processes, and the code interpreter. */
export const ownPorts = { envd: 49_983, interpreter: 49_999 };

const idPattern = /^[a-z2-7]{1,60}$/;
const hostPattern = /^(\d{1,5})-([a-z2-7]{1,60})$/;

/** The id of a sandbox is that of its box without the prefix: clients and hosts permit lower-case letters and digits only. */
export const toSandboxId = (box: string): string => box.slice('box-'.length);

/** Returns the box of a sandbox; undefined for text that cannot be the id of one. */
export const toBoxId = (sandbox: string): string | undefined =>
  idPattern.test(sandbox) ? `box-${sandbox}` : undefined;

/** Reads the address from the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port`, else from the host `<port>-<id>.<domain>`. */
export const readAddress = ({ headers }: IncomingMessage, domain: string): Address | undefined => {
  const [sandbox, port] = [headers['e2b-sandbox-id'], headers['e2b-sandbox-port']];
  if (sandbox !== undefined || port !== undefined) return { sandbox: String(sandbox), port: toPort(String(port)) };
  const host = (headers.host ?? '').toLowerCase().replace(/:\d*$/, '');
  if (!host.endsWith(`.${domain}`)) return undefined;
  const [, label, id] = hostPattern.exec(host.slice(0, -domain.length - 1)) ?? [];
  return label === undefined || id === undefined ? undefined : { sandbox: id, port: toPort(label) };
};

/** Returns 0, which is no port, for text that is none. */
const toPort = (text: string): number => (/^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : 0);
