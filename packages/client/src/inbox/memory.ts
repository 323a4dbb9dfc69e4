// What a keeper remembers of an inbox: which nonces it has answered, so that nothing is answered
// twice whatever a store gives again; and how many records each device has enrolled.

import { HersError } from '@hers/service';

/**
 * What became of an item: a question is `begun` when it is given out and `answered` afterwards; a
 * record is `enrolling` until it is `enrolled`.
 */
export type NonceState = 'begun' | 'answered' | 'enrolling' | 'enrolled' | 'refused';

/** What is known of a nonce. */
export interface KnownNonce {
  /** 32 hexadecimal digits. */
  readonly nonce: string;
  /** The number of the device that chose it. */
  readonly device: number;
  /** Of the device's clock: milliseconds since 1970. */
  readonly time: number;
  /** What became of the item. */
  readonly state: NonceState;
}

/**
 * Remembers for a keeper: in memory (`InMemoryNonces`) or in a file (`NonceFile`).
 *
 * @throws {HersError} STORAGE, DAMAGED: where it cannot be read or written.
 */
export interface NonceMemory {
  /**
   * What is known of a nonce.
   *
   * @param nonce - 32 hexadecimal digits.
   */
  read(nonce: string): Promise<KnownNonce | undefined>;
  /**
   * Writes down what became of an item. It is kept when this resolves, also after a crash.
   *
   * @param known - The nonce, its device and time, and what became of it.
   */
  write(known: KnownNonce): Promise<void>;
  /**
   * How many records a device has enrolled.
   *
   * @param device - Its number.
   */
  enrolled(device: number): Promise<number>;
  /** Returns questions that were begun and not answered, as after a crash. */
  begun(): Promise<readonly KnownNonce[]>;
  /**
   * Forgets nonces of items that are older than this, which the keeper refuses by their time.
   *
   * @param before - Milliseconds since 1970.
   */
  forget(before: number): Promise<void>;
}

const STATES: readonly NonceState[] = ['begun', 'answered', 'enrolling', 'enrolled', 'refused'];

/** The nonces of one collection, and their journal, line by line. */
export class Nonces {
  readonly #known = new Map<string, KnownNonce>();
  readonly #enrolled = new Map<number, number>();

  get(nonce: string): KnownNonce | undefined {
    return this.#known.get(nonce);
  }

  get size(): number {
    return this.#known.size;
  }

  set(known: KnownNonce): void {
    const before = this.#known.get(known.nonce);
    if (known.state === 'enrolled' && before?.state !== 'enrolled')
      this.#enrolled.set(known.device, this.enrolled(known.device) + 1);
    this.#known.set(known.nonce, known);
  }

  enrolled(device: number): number {
    return this.#enrolled.get(device) ?? 0;
  }

  begun(): KnownNonce[] {
    return [...this.#known.values()].filter(({ state }) => state === 'begun');
  }

  /** Returns whether there were any. */
  forget(before: number): boolean {
    const old = [...this.#known.values()].filter(({ time }) => time < before);
    for (const { nonce } of old) this.#known.delete(nonce);
    return old.length > 0;
  }

  lines(): string[] {
    const counts = [...this.#enrolled].map(([device, count]) => `enrolled ${device} ${count}`);
    // Records that are kept were counted.
    return [...counts, ...[...this.#known.values()].map((known) => `kept ${lineOf(known)}`)];
  }

  /** Takes a line; DAMAGED where it is none. */
  take(line: string): void {
    const words = line.split(' ');
    if (words[0] === 'enrolled' && words.length === 3 && words.slice(1).every(isWhole))
      this.#enrolled.set(Number(words[1]), Number(words[2]));
    else if (words[0] === 'kept') this.#known.set(words[1]!, knownOf(words.slice(1)));
    else this.set(knownOf(words));
  }
}

const isWhole = (word: string | undefined) => /^\d{1,16}$/.test(word ?? '');

export function lineOf({ nonce, device, time, state }: KnownNonce): string {
  return `${nonce} ${device} ${time} ${state}`;
}

function knownOf([nonce, device, time, state, ...more]: readonly string[]): KnownNonce {
  if (
    !/^[0-9a-f]{32}$/.test(nonce ?? '') ||
    !isWhole(device) ||
    !isWhole(time) ||
    !STATES.includes(state as NonceState) ||
    more.length > 0
  )
    throw new HersError('DAMAGED', "the keeper's file of nonces holds a line that it never wrote; restore a copy");
  return { nonce: nonce!, device: Number(device), time: Number(time), state: state as NonceState };
}

/**
 * Remembers as long as the process runs. A store that gives an item again after that has it
 * answered twice: use a `NonceFile`.
 */
export class InMemoryNonces implements NonceMemory {
  readonly #nonces = new Nonces();

  async read(nonce: string): Promise<KnownNonce | undefined> {
    return this.#nonces.get(nonce);
  }

  async write(known: KnownNonce): Promise<void> {
    this.#nonces.set(known);
  }

  async enrolled(device: number): Promise<number> {
    return this.#nonces.enrolled(device);
  }

  async begun(): Promise<readonly KnownNonce[]> {
    return this.#nonces.begun();
  }

  async forget(before: number): Promise<void> {
    this.#nonces.forget(before);
  }
}
