import {
  type ChatEntry,
  CodeBoxError,
  chatFolderSchema,
  encodePath,
  pathOf,
  problemSchema,
  type Transport,
  type Uploaded,
  uploadedSchema,
} from '#contract';

export interface UploadOptions {
  signal: AbortSignal;
  /** From 0 to 1. */
  onProgress: (share: number) => void;
}

const filePath = (chat: string, encodedPath: string): string => `${pathOf('chats', chat, 'files')}/${encodedPath}`;

/** The files of a chat's box. */
export const createFiles = (transport: Transport, key: string | null) => ({
  list: (chat: string, path: string) =>
    transport.json(chatFolderSchema, { path: pathOf('chats', chat, 'files'), query: { path } }),

  delete: (chat: string, { path, encodedPath = encodePath(path) }: ChatEntry): Promise<void> =>
    transport.done({ method: 'DELETE', path: filePath(chat, encodedPath) }),

  /**
   * Uploads one file; rejects with `precondition_failed` when its name is taken. `fetch` reports no upload progress, so
   * this is an XMLHttpRequest.
   */
  upload: (chat: string, path: string, file: Blob, { signal, onProgress }: UploadOptions): Promise<Uploaded> =>
    new Promise((resolve, reject) => {
      // It may have been cancelled while its chat was created.
      if (signal.aborted) return reject(signal.reason);
      const request = new XMLHttpRequest();
      request.open('PUT', filePath(chat, encodePath(path)));
      if (key !== null) request.setRequestHeader('authorization', `Bearer ${key}`);
      request.setRequestHeader('content-type', 'application/octet-stream');
      request.setRequestHeader('if-none-match', '*');
      request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
      request.onerror = () => reject(new CodeBoxError('unavailable', 'The upload was interrupted.'));
      request.onabort = () => reject(signal.reason);
      request.onload = () => {
        const uploaded = uploadedSchema.safeParse(asJson(request.responseText));
        if (request.status < 300 && uploaded.success) return resolve(uploaded.data);
        const problem = problemSchema.safeParse(asJson(request.responseText)).data;
        reject(
          new CodeBoxError(problem?.code ?? 'internal', problem?.detail ?? `The upload failed (${request.status}).`),
        );
      };
      signal.addEventListener('abort', () => request.abort(), { once: true });
      request.send(file);
    }),
});

const asJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    // The body comes from a proxy, so only the status is used.
    return undefined;
  }
};
