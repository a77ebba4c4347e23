import { type DragEvent, useCallback, useEffect, useRef, useState } from 'react';
import type { ChatEntry } from '#contract';
import type { AgentClient } from '../api/agent-client.ts';
import { freshenMs, isExpiring } from '../state/expiry.ts';
import { faultText } from '../state/fault.ts';
import { useStore } from '../state/store.ts';
import { createUploads } from '../state/uploads.ts';
import { bytesText } from '../state/wording.ts';
import type { Workspace } from '../state/workspace.ts';
import { Confirm } from './controls/dialog.tsx';
import { Icon } from './controls/icon.tsx';
import { UploadList } from './controls/upload-list.tsx';

export interface FilesPanelProps {
  client: AgentClient;
  workspace: Workspace;
  onClose: () => void;
}

/** The folders on the way to a path, including the path itself. */
const trailOf = (path: string): { name: string; path: string }[] => {
  const names = path === '' ? [] : path.split('/');
  return [
    { name: 'Files', path: '' },
    ...names.map((name, index) => ({ name, path: names.slice(0, index + 1).join('/') })),
  ];
};

/** The files of the chat's computer: browse, upload, download and delete. */
export const FilesPanel = ({ client, workspace, onClose }: FilesPanelProps) => {
  const chat = useStore(workspace.chat);
  const { isAnswering } = useStore(workspace.conversation.store);
  const [uploads] = useState(() => createUploads(client, workspace.ensureChat));
  const sent = useStore(uploads.store);
  const [path, setPath] = useState('');
  const [entries, setEntries] = useState<readonly ChatEntry[] | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const [removed, setRemoved] = useState<ChatEntry | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const reads = useRef(0);
  const chatId = chat?.id ?? null;
  const sentCount = sent.filter(({ done }) => done !== null).length;

  const read = useCallback(async () => {
    if (chatId === null) return setEntries([]);
    reads.current += 1;
    const number = reads.current;
    // The response about a folder that the reader has left may be the last to arrive.
    const isNewest = () => number === reads.current;
    try {
      const { items } = await client.files.list(chatId, path);
      if (!isNewest()) return;
      setEntries(items);
      setFault(null);
    } catch (error) {
      if (isNewest()) setFault(faultText(error));
    }
  }, [client, chatId, path]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: an upload or an answer that has ended brings files.
  useEffect(() => void read(), [read, sentCount, isAnswering]);

  // The page may stay open for days. Nobody needs links in a tab that is hidden, and reading would wake the computer.
  useEffect(() => {
    const freshen = () => {
      if (entries !== null && isExpiring(entries) && !document.hidden) void read();
    };
    const timer = setInterval(freshen, freshenMs);
    return () => clearInterval(timer);
  }, [entries, read]);

  const remove = async (entry: ChatEntry) => {
    if (chatId === null) return;
    const refusal = await client.files.delete(chatId, entry).then(() => null, faultText);
    await Promise.all([read(), workspace.conversation.readAgain(chatId)]);
    // Reading the folder has removed earlier errors.
    if (refusal !== null) setFault(refusal);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    uploads.add(event.dataTransfer.files, path);
  };

  return (
    <aside className="files" aria-label="Files" onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
      <div className="files-head">
        <nav aria-label="Folder" className="trail">
          {trailOf(path).map((folder, index, trail) => (
            <button
              key={folder.path}
              type="button"
              className="link-button"
              aria-current={index === trail.length - 1 ? 'location' : undefined}
              onClick={() => setPath(folder.path)}
            >
              {folder.name}
            </button>
          ))}
        </nav>
        <button type="button" className="quiet-button" onClick={() => void read()}>
          Refresh
        </button>
        <button type="button" className="icon-button" aria-label="Close the files" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <ul className="file-list">
        {entries?.map((entry) => (
          <li key={entry.encodedPath ?? entry.path} className="file-row">
            <Icon name={entry.type === 'directory' ? 'folder' : 'file'} />
            {entry.type === 'directory' ? (
              <button type="button" className="file-name" onClick={() => setPath(entry.path)}>
                {entry.name}
              </button>
            ) : (
              <a className="file-name" href={entry.url ?? undefined} download={entry.name}>
                {entry.name}
              </a>
            )}
            <span className="file-size">{entry.type === 'file' ? bytesText(entry.sizeBytes) : ''}</span>
            <button
              type="button"
              className="icon-button"
              aria-label={`Delete ${entry.name}`}
              onClick={() => setRemoved(entry)}
            >
              <Icon name="trash" />
            </button>
          </li>
        ))}
      </ul>
      {entries === null && fault === null && <p className="hint">Loading …</p>}
      {entries?.length === 0 && fault === null && (
        <p className="hint">
          {path === '' ? 'There are no files yet. Drop some here, or let code create them.' : 'This folder is empty.'}
        </p>
      )}
      {fault !== null && (
        <p className="notice" data-kind="error" role="alert">
          <Icon name="warning" />
          <span>{fault}</span>
        </p>
      )}
      <UploadList uploads={sent.filter(({ done }) => done === null)} onRemove={uploads.remove} />
      <div className="files-foot">
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Files to upload"
          onChange={(event) => {
            uploads.add(event.target.files ?? [], path);
            event.target.value = '';
          }}
        />
        <button type="button" className="button" onClick={() => picker.current?.click()}>
          <Icon name="upload" /> Upload
        </button>
      </div>
      {removed !== null && (
        <Confirm
          title={`Delete ${removed.name}?`}
          text={
            removed.type === 'directory'
              ? 'The folder is deleted with all its contents.'
              : 'The file cannot be restored.'
          }
          action="Delete"
          onConfirm={() => void remove(removed)}
          onClose={() => setRemoved(null)}
        />
      )}
    </aside>
  );
};
