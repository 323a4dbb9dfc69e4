// One string for equal ones: the dictionaries of many blocks name the same countries.

/** How many strings are kept. Values that are worth it come back soon, so the first will do. */
const LIMIT = 65536;

/** Bounded: a field in which every record has a value of its own must not fill the memory. */
export class Interned {
  readonly #strings = new Map<string, string>();

  /** An equal string that was seen before, or this one. */
  of(text: string): string {
    const known = this.#strings.get(text);
    if (known !== undefined) return known;
    if (this.#strings.size < LIMIT) this.#strings.set(text, text);
    return text;
  }
}
