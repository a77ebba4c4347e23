import type { Context } from 'hono';
import { CodeBoxError, hasCode } from '#contract';
import { type BoxRef, refOf } from '../../../boxes/box-ref.ts';
import type { Caller } from '../../../http/admission/admission.ts';
import type { RouteParts } from '../../../http/app.ts';
import type { Env } from '../../../http/env.ts';
import { isSecure } from '../../../http/ports/scheme.ts';
import type { Tokens } from '../tokens.ts';

/** The reusable box of a tenant that keeps the files of its builds, for so long without use and for so long at all. */
const asked = {
  user: 'e2b/build-files',
  reuse: true,
  network: 'none',
  onIdle: 'delete',
  idleSeconds: 3600,
  maxLifetimeSeconds: 86_400,
} as const;
const uploadSeconds = 3600;
const uploadPath = /^\/templates\/([^/]+)\/files\/([0-9a-f]{64})$/;

/** What a token for an upload is for. */
const subjectOf = (template: string, hash: string, expires: string): string => `${template}/${hash}/${expires}`;

/** Returns the caller for whom the URL of an upload was made; undefined for any other request, and for an URL that has expired. */
export const readUpload = (c: Context<Env>, tokens: Tokens): Caller | undefined => {
  const [, template = '', hash = ''] = uploadPath.exec(c.req.path) ?? [];
  const expires = c.req.query('expires') ?? '';
  if (c.req.method !== 'PUT' || hash === '' || !(Number(expires) * 1000 > Date.now())) return undefined;
  return tokens.read('upload', c.req.query('token'), subjectOf(template, hash, expires));
};

/** Returns the URL to which the caller of a request can upload a file without its key. */
export const uploadUrl = (c: Context<Env>, tokens: Tokens, { template, hash }: { template: string; hash: string }) => {
  const incoming = c.env?.incoming;
  const { host } = new URL(c.req.url);
  const origin = `${incoming && isSecure(incoming) ? 'https' : 'http'}://${c.req.header('host') ?? host}`;
  const expires = String(Math.ceil(Date.now() / 1000) + uploadSeconds);
  const caller = { tenantId: c.get('tenant'), keyId: c.get('keyId') };
  const token = tokens.issue('upload', caller, subjectOf(template, hash, expires));
  return `${origin}/templates/${encodeURIComponent(template)}/files/${hash}?${new URLSearchParams({ expires, token })}`;
};

/** The path of the files with a hash, in the box that keeps them and in that of a build. */
export const archivePath = (hash: string): string => `.e2b-build/${hash}.tar`;

/** The archives of files that clients upload for builds of templates, in a box of their tenant. */
export const createBuildContext = ({ creation, files }: Pick<RouteParts, 'creation' | 'files'>) => ({
  async open(tenant: string): Promise<BoxRef> {
    return refOf((await creation.create(tenant, asked)).box);
  },

  async has(ref: BoxRef, hash: string): Promise<boolean> {
    try {
      return (await files.stat(ref, archivePath(hash))).kind !== 'folder';
    } catch (error) {
      if (error instanceof CodeBoxError && hasCode(error, 'not_found')) return false;
      throw error;
    }
  },
});
