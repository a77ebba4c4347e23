import type { IncomingMessage } from 'node:http';

/** The sandbox and the port that a request is for. */
export interface Address {
  sandbox: string;
  /** 0 for text that is no port. */
  port: number;
  /** What is wrong with the address; undefined for a good one. */
  fault?: string;
}

/** Ports that the gateway serves itself: the daemon for files and processes, and the code interpreter. */
export const ownPorts = { envd: 49_983, interpreter: 49_999 };

const idPattern = /^[a-z2-7]{1,60}$/;
/** Ids of sandboxes anywhere: one that cannot be of this gateway is as unknown as one that has ended. */
const anyId = '[a-z0-9]{1,60}';
const anyIdPattern = new RegExp(`^${anyId}$`);
const hostPattern = new RegExp(`^(\\d+)-(${anyId})$`);

/** The id of a sandbox is that of its box without the prefix: clients and hosts permit lower-case letters and digits only. */
export const toSandboxId = (box: string): string => box.slice('box-'.length);

/** Returns the box of a sandbox; undefined for text that cannot be the id of one. */
export const toBoxId = (sandbox: string): string | undefined =>
  idPattern.test(sandbox) ? `box-${sandbox}` : undefined;

/** Reads the address from the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port`, else from the host `<port>-<id>.<domain>`. */
export const readAddress = ({ headers }: IncomingMessage, domain: string): Address | undefined => {
  const [sandbox, port] = [headers['e2b-sandbox-id'], headers['e2b-sandbox-port']];
  if (sandbox !== undefined || port !== undefined) return toAddress(String(sandbox ?? ''), String(port ?? ''));
  const host = (headers.host ?? '').toLowerCase().replace(/:\d*$/, '');
  if (!host.endsWith(`.${domain}`)) return undefined;
  const [, label, id] = hostPattern.exec(host.slice(0, -domain.length - 1)) ?? [];
  return label === undefined || id === undefined ? undefined : toAddress(id, label);
};

const toAddress = (sandbox: string, text: string): Address => {
  if (sandbox === '') return { sandbox, port: 0, fault: 'Missing header: E2b-Sandbox-Id' };
  if (text === '') return { sandbox, port: 0, fault: 'Missing header: E2b-Sandbox-Port' };
  const port = /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : 0;
  if (!anyIdPattern.test(sandbox)) return { sandbox, port, fault: 'The sandbox id is invalid.' };
  return port === 0 ? { sandbox, port, fault: 'The sandbox port is invalid.' } : { sandbox, port };
};
