import type { Upload } from '../../state/uploads.ts';
import { bytesText } from '../../state/wording.ts';
import { Icon } from './icon.tsx';

const stateText = ({ done, fault, share, sizeBytes }: Upload): string => {
  if (fault !== null) return fault;
  return done === null ? `${Math.floor(share * 100)} %` : bytesText(sizeBytes);
};

/** Uploads with their progress, which can be removed. */
export const UploadList = ({ uploads, onRemove }: { uploads: readonly Upload[]; onRemove: (id: string) => void }) =>
  uploads.length === 0 ? null : (
    <ul className="uploads" aria-label="Files of this message">
      {uploads.map((upload) => (
        <li key={upload.id} className="upload" data-failed={upload.fault !== null}>
          <Icon name={upload.fault === null ? 'file' : 'warning'} />
          <span className="upload-name" title={upload.name}>
            {upload.name}
          </span>
          <span className="upload-state">{stateText(upload)}</span>
          {upload.done === null && upload.fault === null && (
            <progress max={1} value={upload.share} aria-label={`Upload of ${upload.name}`} />
          )}
          <button
            type="button"
            className="icon-button"
            aria-label={`${upload.done === null && upload.fault === null ? 'Cancel' : 'Remove'} ${upload.name}`}
            onClick={() => onRemove(upload.id)}
          >
            <Icon name="close" />
          </button>
        </li>
      ))}
    </ul>
  );
