import type { Attachment, Image, Part } from '#contract';

/** A stored file: it has a path but no URL, which is created anew for each response. */
export interface StoredFile extends Pick<Attachment, 'path' | 'name' | 'sizeBytes' | 'mime' | 'isGone'> {
  /** The name of a copy in the blob store; null for the file in the box itself. */
  blob: string | null;
}

/** A picture in the blob store, and the data of its chart. */
export interface StoredImage extends Pick<Image, 'name' | 'mime'> {
  blob: string;
  chartBlob: string | null;
}

type CodePart = Extract<Part, { type: 'code' }>;

export type StoredCode = Omit<CodePart, 'images' | 'files'> & { images: StoredImage[]; files: StoredFile[] };

/** A part of a message without URLs. Its text has `sandbox:` links as the model wrote them. */
export type StoredPart = Exclude<Part, { type: 'code' }> | StoredCode;

/** Decisions about calls that wait for approval, by call: requests to the agent that generates the answer. */
export type Decisions = Record<string, { approved: boolean; reason?: string | undefined }>;
