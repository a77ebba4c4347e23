import type { RouteParts } from '../../http/app.ts';
import type { Endpoints } from '../../http/endpoint.ts';
import { receiveFiles } from '../files.ts';
import { fileId, isShared, type Sessions, uploaderOf } from './sessions.ts';

const described = { method: 'post', scope: 'files', tag: 'LibreChat', responses: {} } as const;

/** Uploads: each one begins a session, which ends again when it fails. */
export const addUploadRoutes = (
  { addRaw }: Endpoints,
  { files, endings }: Pick<RouteParts, 'files' | 'endings'>,
  sessions: Sessions,
): void => {
  for (const [path, summary] of [
    ['/librechat/upload', 'Upload a file to a new session'],
    ['/librechat/upload/batch', 'Upload files to a new session'],
  ] as const) {
    addRaw({ ...described, path, summary }, async ({ c, tenant }) => {
      const { id, ref } = await sessions.create(c, tenant, uploaderOf(c));
      let kind: string | undefined;
      const onField = (name: string, value: string) => {
        if (name === 'kind') kind = value;
      };
      const receive = async () => {
        const entries = await receiveFiles(c, files, ref, { onField });
        if (isShared(kind)) await sessions.share(ref);
        return entries;
      };
      const written = await receive().catch(async (error: unknown) => {
        await endings.delete(ref);
        throw error;
      });
      const list = written.map((entry) => ({ fileId: fileId(entry.path), filename: entry.path }));
      const session = { message: 'success', storage_session_id: id, session_id: id };
      if (!path.endsWith('/batch')) return c.json({ ...session, files: list });
      const all = list.map((file) => ({ status: 'success', ...file }));
      return c.json({ ...session, files: all, succeeded: all.length, failed: 0 });
    });
  }
};
