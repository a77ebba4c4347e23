import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { boxPathSchema, codeSchema, packageSpecSchema } from '#contract';
import { largeJson } from '../../../json/json-bounds.ts';
import { idOfNumber, numberOf } from '../../../postgres/id.ts';
import type { BoxRef } from '../../boxes/box-ref.ts';
import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { receiveFiles, respondWithFile } from '../files.ts';
import { createAbandonedRuns } from './abandoned-runs.ts';
import { toOutput } from './outputs.ts';
import { createRuns, restartCode } from './runs.ts';

/** The client waits for 270 s. */
const runSeconds = 265;
const maxFiles = 1000;
const params = z.object({ box: z.string() });
const described = { scope: 'run', tag: 'CodeBoxAPI 0.1', responses: {} } as const;

/** The box of a session, whose id is that of its box as a decimal number: the client makes a UUID of it. */
export const boxOfSession = (text: string): string | undefined =>
  /^\d{1,39}$/.test(text) && BigInt(text) < 1n << 128n ? idOfNumber('box', BigInt(text)) : undefined;

const keyOf = ({ tenant, box }: BoxRef): string => `${tenant}/${box}/`;

/** `/api/v1/codebox/{box}`: sessions that the client starts and stops. */
export const addV1Routes = ({ add, addRaw }: Endpoints, parts: RouteParts): void => {
  const { creation, directory, endings, files } = parts;
  const runs = createRuns(parts);
  const abandoned = createAbandonedRuns();

  add(
    {
      ...described,
      method: 'get',
      path: '/api/v1/codebox/start',
      scope: 'boxes:write',
      summary: 'Start a session',
    },
    async ({ c, tenant }) => {
      const { box } = await creation.create(tenant, {});
      // Written as text: ids exceed `MAX_SAFE_INTEGER`.
      return c.body(`{"id": ${numberOf(box.id)}}`, 200, { 'Content-Type': 'application/json' });
    },
  );

  add(
    {
      ...described,
      method: 'get',
      path: '/api/v1/codebox/{box}/',
      scope: 'boxes:read',
      summary: 'Read the status of a session',
      params,
    },
    async ({ c, tenant, params: { box } }) => {
      const { endedAt } = await directory.find({ tenant, box });
      return c.json({ status: endedAt === null ? 'running' : 'stopped' });
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/api/v1/codebox/{box}/run',
      summary: 'Run code and wait for its output',
      params,
      body: z.object({ code: codeSchema }),
      bounds: largeJson,
    },
    async ({ c, tenant, params: { box }, body: { code } }) => {
      const ref = { tenant, box };
      const key = `${keyOf(ref)}${code}`;
      const start = async () => {
        const request = { code, kernel: 'ipython' as const, timeoutSeconds: runSeconds };
        return await toOutput(await runs.start(ref, request, new AbortController().signal));
      };
      // A client that loses its connection sends the request again, which must not run the code twice. Node may report the end of the
      // connection two turns after it has read the new request.
      await nextTurn();
      await nextTurn();
      if (code.trim() === restartCode) abandoned.forgetBox(keyOf(ref));
      const output = abandoned.find(key) ?? start();
      const outgoing = c.env?.outgoing;
      let hasLeft = false;
      const abandon = () => {
        if (outgoing?.writableFinished) return;
        hasLeft = true;
        abandoned.keep(key, output);
      };
      if (outgoing?.destroyed) abandon();
      else outgoing?.once('close', abandon);
      const found = await output;
      // A caller who has the output and sends the code again wants another run.
      if (!hasLeft) abandoned.forget(key, output);
      return c.json(found);
    },
  );

  addRaw(
    { ...described, method: 'post', path: '/api/v1/codebox/{box}/upload', summary: 'Upload a file', params },
    async ({ c, tenant, params: { box } }) => {
      const [{ path: name } = { path: '' }] = await receiveFiles(c, files, { tenant, box });
      return c.json({ status: `${name} uploaded successfully` });
    },
  );

  // This GET has a body.
  add(
    {
      ...described,
      method: 'get',
      path: '/api/v1/codebox/{box}/download',
      summary: 'Download a file',
      params,
      body: z.object({ file_name: boxPathSchema }),
    },
    async ({ c, tenant, params: { box }, body: { file_name: name } }) => {
      // The client parses everything after the first = as the name. A header consists of bytes, which the client may decode as UTF-8.
      const disposition = `attachment; filename=${Buffer.from(name).toString('latin1')}`;
      return await respondWithFile(c, files, { tenant, box }, name, { 'content-disposition': disposition });
    },
  );

  add(
    { ...described, method: 'get', path: '/api/v1/codebox/{box}/files', summary: 'List files', params },
    async ({ c, tenant, params: { box } }) => {
      const { items } = await files.list({ tenant, box }, '', { limit: maxFiles });
      return c.json({ files: items.flatMap(({ name, type }) => (type === 'file' ? [name] : [])) });
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/api/v1/codebox/{box}/install',
      summary: 'Install a package',
      params,
      body: z.object({ package_name: packageSpecSchema }),
    },
    async ({ c, tenant, params: { box }, body: { package_name: name } }) => {
      await runs.install({ tenant, box }, [name]);
      return c.json({ status: `${name} installed successfully` });
    },
  );

  add(
    { ...described, method: 'post', path: '/api/v1/codebox/{box}/restart', summary: 'Restart the kernel', params },
    async ({ c, tenant, params: { box } }) => {
      const ref = { tenant, box };
      abandoned.forgetBox(keyOf(ref));
      await runs.restart(ref);
      // That the caller of an earlier run has left may have become known only now.
      abandoned.forgetBox(keyOf(ref));
      return c.json({ status: 'restarted' });
    },
  );

  add(
    {
      ...described,
      method: 'post',
      path: '/api/v1/codebox/{box}/stop',
      scope: 'boxes:write',
      summary: 'End a session',
      params,
    },
    async ({ c, tenant, params: { box } }) => {
      await endings.delete({ tenant, box });
      return c.json({ status: 'stopped' });
    },
  );
};
