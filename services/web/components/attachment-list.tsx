import type { Attachment } from '#contract';
import { bytesText } from '../state/wording.ts';
import { Icon } from './icon.tsx';

/** Files with their size, to be downloaded. */
export const AttachmentList = ({ files, label }: { files: readonly Attachment[]; label: string }) =>
  files.length === 0 ? null : (
    <ul className="attachments" aria-label={label}>
      {files.map((file) => (
        <li key={file.path}>
          <a className="attachment" href={file.url} download={file.name} title={file.path}>
            <Icon name="file" />
            <span className="attachment-name">{file.name}</span>
            {file.sizeBytes !== null && <span className="attachment-size">{bytesText(file.sizeBytes)}</span>}
            <Icon name="download" />
          </a>
        </li>
      ))}
    </ul>
  );
