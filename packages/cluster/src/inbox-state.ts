// What is in the inbox of a collection: the manifest of the shard that keeps it. The envelopes are
// its records.

import { createHash, randomBytes } from 'node:crypto';
import { decodeMessage, type EnvelopeHead, encodeMessage, HANDLE_BYTES } from '@hers/service';
import { checkRoom, type InboxLimits, type InboxSize, inboxFull } from '@hers/store/inbox';
import { checkFormat, FORMAT } from './arguments.ts';

export interface InboxEntry extends Pick<EnvelopeHead, 'device' | 'nonce'> {
  readonly number: number;
  /** Milliseconds since 1970. */
  readonly posted: number;
  readonly bytes: number;
}

const ENTRY_BYTES = 40;
const AT = { number: 0, posted: 8, device: 16, bytes: 20, nonce: 24 } as const;
/** Of one inbox: what is in it is written again with every change. */
const MAX_ENTRIES = 2 ** 18;

const nameOf = ({ device, nonce }: Pick<InboxEntry, 'device' | 'nonce'>) =>
  `${device} ${Buffer.from(nonce).toString('latin1')}`;

export function handleOf({ device, nonce }: Pick<InboxEntry, 'device' | 'nonce'>): Uint8Array {
  const hash = createHash('sha256').update(`inbox ${device} `).update(nonce).digest();
  return new Uint8Array(hash.subarray(0, HANDLE_BYTES));
}

export class InboxState {
  /** The highest number that an item ever had. */
  last: number;
  /** Devices that may not post, ascending. */
  refused: readonly number[];
  /** By device and nonce, in the order of their numbers. */
  readonly #entries: Map<string, InboxEntry>;
  readonly #sizes = new Map<number, { items: number; bytes: number }>();
  readonly #all = { items: 0, bytes: 0 };

  private constructor(last: number, refused: readonly number[], entries: Iterable<InboxEntry>) {
    this.last = last;
    this.refused = refused;
    this.#entries = new Map();
    for (const entry of entries) this.#add(entry);
  }

  static empty(): InboxState {
    return new InboxState(0, [], []);
  }

  static decode(manifest: Uint8Array): InboxState {
    const { head, parts } = decodeMessage(manifest, 2);
    const { format, last } = head as { format: number; last: number };
    checkFormat(format);
    const bytes = Buffer.from(parts[0]);
    const entries = Array.from({ length: bytes.length / ENTRY_BYTES }, (_, i): InboxEntry => {
      const at = i * ENTRY_BYTES;
      return {
        number: Number(bytes.readBigUInt64LE(at + AT.number)),
        posted: Number(bytes.readBigUInt64LE(at + AT.posted)),
        device: bytes.readUInt32LE(at + AT.device),
        bytes: bytes.readUInt32LE(at + AT.bytes),
        nonce: new Uint8Array(bytes.subarray(at + AT.nonce, at + ENTRY_BYTES)),
      };
    });
    const refused = Buffer.from(parts[1]);
    const devices = Array.from({ length: refused.length / 4 }, (_, i) => refused.readUInt32LE(4 * i));
    return new InboxState(last, devices, entries);
  }

  /** No two are alike: replicas are told apart by what they have. */
  encode(): Uint8Array {
    const bytes = Buffer.alloc(this.#entries.size * ENTRY_BYTES);
    let at = 0;
    for (const entry of this.#entries.values()) {
      bytes.writeBigUInt64LE(BigInt(entry.number), at + AT.number);
      bytes.writeBigUInt64LE(BigInt(entry.posted), at + AT.posted);
      bytes.writeUInt32LE(entry.device, at + AT.device);
      bytes.writeUInt32LE(entry.bytes, at + AT.bytes);
      bytes.set(entry.nonce, at + AT.nonce);
      at += ENTRY_BYTES;
    }
    const refused = Buffer.alloc(4 * this.refused.length);
    for (const [i, device] of this.refused.entries()) refused.writeUInt32LE(device, 4 * i);
    const mark = randomBytes(8).toString('hex');
    return encodeMessage({ format: FORMAT, last: this.last, mark }, [bytes, refused]);
  }

  #count({ device, bytes }: InboxEntry, sign: 1 | -1): void {
    const own = this.#sizes.get(device) ?? { items: 0, bytes: 0 };
    this.#sizes.set(device, own);
    for (const size of [own, this.#all]) {
      size.items += sign;
      size.bytes += sign * bytes;
    }
  }

  #add(entry: InboxEntry): void {
    this.#entries.set(nameOf(entry), entry);
    this.#count(entry, 1);
  }

  get size(): InboxSize {
    return this.#all;
  }

  find(sought: Pick<InboxEntry, 'device' | 'nonce'>): InboxEntry | undefined {
    return this.#entries.get(nameOf(sought));
  }

  entries(): InboxEntry[] {
    return [...this.#entries.values()];
  }

  /** Adds one item and returns its number; INBOX_FULL if there is no room. */
  put(name: string, item: Omit<InboxEntry, 'number'>, limits: Required<InboxLimits>): number {
    const own = this.#sizes.get(item.device) ?? { items: 0, bytes: 0 };
    checkRoom(name, item, { own, all: this.#all }, limits);
    if (this.#all.items >= MAX_ENTRIES) throw inboxFull(name);
    this.#add({ ...item, number: ++this.last });
    return this.last;
  }

  drop(goes: (entry: InboxEntry) => boolean): InboxEntry[] {
    const gone = this.entries().filter(goes);
    for (const entry of gone) {
      this.#entries.delete(nameOf(entry));
      this.#count(entry, -1);
    }
    return gone;
  }
}
