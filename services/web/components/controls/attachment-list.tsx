import type { Attachment } from '#contract';
import { bytesText } from '../../state/wording.ts';
import { Icon } from './icon.tsx';

const FileLink = ({ path, name, url, sizeBytes }: Attachment) => (
  <a className="attachment" href={url} download={name} title={path}>
    <Icon name="file" />
    <span className="attachment-name">{name}</span>
    {sizeBytes !== null && <span className="attachment-size">{bytesText(sizeBytes)}</span>}
    <Icon name="download" />
  </a>
);

const GoneFile = ({ path, name }: Attachment) => (
  <span className="attachment" data-gone="true" title={path}>
    <Icon name="file" />
    <del className="attachment-name">{name}</del>
    <span className="attachment-size">deleted</span>
  </span>
);

/** Files with their size and a download link; files that were deleted since are struck out. */
export const AttachmentList = ({ files, label }: { files: readonly Attachment[]; label: string }) =>
  files.length === 0 ? null : (
    <ul className="attachments" aria-label={label}>
      {files.map((file) => (
        <li key={file.path}>{file.isGone ? <GoneFile {...file} /> : <FileLink {...file} />}</li>
      ))}
    </ul>
  );
