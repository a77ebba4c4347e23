import type { Attachment, Image, Part } from '#contract';

/** A file as it is kept: where it is, without an address, which is made anew whenever it is told. */
export interface StoredFile extends Pick<Attachment, 'path' | 'name' | 'sizeBytes' | 'mime' | 'isGone'> {
  /** Of a copy in the blob store; null for the file in the box itself. */
  blob: string | null;
}

/** A picture in the blob store, and the data of its chart. */
export interface StoredImage extends Pick<Image, 'name' | 'mime'> {
  blob: string;
  chartBlob: string | null;
}

type CodePart = Extract<Part, { type: 'code' }>;

export type StoredCode = Omit<CodePart, 'images' | 'files'> & { images: StoredImage[]; files: StoredFile[] };

/** A part of a message without the addresses in it. Its text has `sandbox:` links as the model wrote them. */
export type StoredPart = Exclude<Part, { type: 'code' }> | StoredCode;

/** What is asked of an answer that another agent makes: decisions about calls that wait. */
export type Asked = Record<string, { approved: boolean; reason?: string | undefined }>;
