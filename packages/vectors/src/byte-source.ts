// Bytes as they come, taken in the portions that a format needs: memory is bounded by the largest
// portion.

export class ByteSource {
  /** What errors call it. */
  readonly name: string;
  /** Bytes in all, where that is known beforehand. */
  readonly size: number | undefined;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #held: Uint8Array[] = [];
  #length = 0;
  #ended = false;
  #position = 0;

  constructor(name: string, chunks: AsyncIterable<Uint8Array>, size?: number) {
    this.name = name;
    this.size = size;
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Bytes taken so far. */
  get position(): number {
    return this.#position;
  }

  async #fill(length: number): Promise<void> {
    while (this.#length < length && !this.#ended) {
      const { value, done } = await this.#chunks.next();
      if (done) this.#ended = true;
      else if (value.length > 0) {
        this.#held.push(value);
        this.#length += value.length;
      }
    }
  }

  #joined(): Uint8Array {
    if (this.#held.length > 1) this.#held = [Buffer.concat(this.#held)];
    return this.#held[0] ?? new Uint8Array(0);
  }

  /** The next bytes, which stay where they are; fewer at the end. */
  async peek(length: number): Promise<Uint8Array> {
    await this.#fill(length);
    return this.#joined().subarray(0, length);
  }

  /** The next bytes; fewer at the end. */
  async take(length: number): Promise<Uint8Array> {
    await this.#fill(length);
    const all = this.#joined();
    const taken = all.subarray(0, length);
    this.#held = taken.length < all.length ? [all.subarray(length)] : [];
    this.#length -= taken.length;
    this.#position += taken.length;
    return taken;
  }

  /** Whatever comes next, as it comes; empty at the end. */
  async some(): Promise<Uint8Array> {
    await this.#fill(1);
    return this.take(this.#length);
  }

  /** All that is left, in the portions it comes in. */
  async *rest(): AsyncGenerator<Uint8Array> {
    for (let chunk = await this.some(); chunk.length > 0; chunk = await this.some()) yield chunk;
  }

  async close(): Promise<void> {
    this.#ended = true;
    await this.#chunks.return?.();
  }
}
