// An answer as it is read here: what fetch gives, and what does the same.

export interface PieceReader {
  /** As `ReadableStreamDefaultReader` does. */
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  cancel(): Promise<void>;
  /** Frees the memory of a piece that nobody needs any more, where nothing else is in it. */
  free?(piece: Uint8Array): void;
}

export interface Answered {
  readonly status: number;
  readonly ok: boolean;
  readonly type: string;
  readonly headers: { get(name: string): string | null };
  readonly body: { getReader(): PieceReader; cancel(): Promise<void> } | null;
}
