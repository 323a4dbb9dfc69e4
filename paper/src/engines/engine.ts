// One interface for every cryptographic engine, so that their answers, their traffic and their
// times can be compared. A client has the keys, a server has what it was sent, and only bytes pass
// between them.

export interface ScorePart {
  /** Index of the first template in the gallery; the others follow. */
  readonly first: number;
  /**
   * Inner products of vectors rounded to 1/250, that is, in steps of 1/250². An engine that is not
   * exact returns the nearest step.
   */
  readonly integers: Int32Array;
}

export interface EngineQuery {
  /** What the server gets. */
  readonly bytes: Uint8Array;
  /** Decrypts one of the server's responses. */
  read(response: Uint8Array): ScorePart;
  close(): void;
}

export interface EngineClient {
  /** What the server needs before anything else; empty if it needs nothing. */
  readonly keys: Uint8Array;
  /**
   * Encrypts templates for the places after those enrolled so far: any number of uploads, which
   * must reach the server in order.
   */
  enrol(vectors: Float64Array): Iterable<Uint8Array>;
  query(vector: ArrayLike<number>): EngineQuery;
  close(): void;
}

export interface EngineServer {
  /** Templates enrolled. */
  readonly size: number;
  /** Bytes of the gallery in memory. */
  readonly galleryBytes: number;
  enrol(upload: Uint8Array): void | Promise<void>;
  /** Responses, each as soon as it is ready. */
  search(query: Uint8Array): Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
  close(): void | Promise<void>;
}

export interface Engine {
  readonly name: string;
  /** Whether scores are exact. */
  readonly exact: boolean;
  readonly client: EngineClient;
  readonly server: EngineServer;
  /** Closes both sides, and what they share. */
  close(): Promise<void>;
}

/** Enrols vectors, one after the other in one array. */
export async function enrol({ client, server }: Engine, vectors: Float64Array): Promise<void> {
  for (const upload of client.enrol(vectors)) await server.enrol(upload);
}

/** The scores of the whole gallery. */
export async function search({ client, server }: Engine, vector: ArrayLike<number>): Promise<Int32Array> {
  const scores = new Int32Array(server.size);
  const query = client.query(vector);
  try {
    for await (const response of server.search(query.bytes)) {
      const { first, integers } = query.read(response);
      scores.set(integers, first);
    }
  } finally {
    query.close();
  }
  return scores;
}
