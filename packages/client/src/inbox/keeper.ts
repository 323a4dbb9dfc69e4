// The keeper's side of an inbox: takes what devices have posted, checks who says it, has the store
// scan questions, decrypts and ranks, and indexes enrolments as far as their devices may.
//
// Nothing that the store sees depends on a score, or on what a query holds: items are taken at
// fixed times, every question of a known device is scanned whatever is in it, and every item is
// dropped a fixed time after it was seen. Whoever reads the answers slowly delays nothing: they
// wait here. What was given out is written down before, so it is given once, whatever the store
// does and whenever this process ends.
//
// A collection loads this file when somebody uses its devices: most programs never do.

import { readOpenQuery } from '@hers/scheme/secret/open';
import {
  decodeEnvelope,
  type Envelope,
  HersError,
  type InboxItem,
  type OptionNames,
  refuseUnknown,
} from '@hers/service';
import { fromHex, hex } from '../bytes.ts';
import { invalid } from '../fields/field.ts';
import type { ManifestDevice } from '../formats/manifest.ts';
import type { Payload } from '../formats/records.ts';
import type { Searching } from '../search/scan.ts';
import { type AnswerOptions, answer, checkOptions, type Match, type SearchResult } from '../search/search.ts';
import { evaluationOf, OWN_DEVICE } from '../session/draft.ts';
import type { CollectionSession } from '../session/session.ts';
import type { View } from '../session/view.ts';
import { pause } from '../transport/retry.ts';
import { upsert } from '../writing/upsert.ts';
import { isSignedBy, openRecord } from './envelopes.ts';
import { InMemoryNonces, type NonceMemory } from './memory.ts';
import { revokedIn } from './registry.ts';

export { addDevice, listDevices, revokeDevice } from './registry.ts';

/** What a device asked, and who that is. */
export interface Question {
  /** The name of the device. */
  readonly device: string;
  /** By the clock of the device. */
  readonly time: Date;
  /** 32 hexadecimal digits, as `ask` returned them to the device. */
  readonly nonce: string;
  /** Best first. */
  readonly matches: readonly Match[];
  /** How many records were compared, and how many there are. */
  readonly coverage: SearchResult['coverage'];
}

/** A record that a device has enrolled, and that was indexed. */
export interface EnrolledByDevice {
  /** The name of the device. */
  readonly device: string;
  /** By the clock of the device. */
  readonly time: Date;
  /** As `enrol` returned it to the device. */
  readonly nonce: string;
  /** Of the record. */
  readonly id: string;
}

/**
 * Why an item was not answered:
 *
 * - `malformed`: it is no envelope, or no query, or no record.
 * - `collection`: it is for another collection.
 * - `unknown`, `revoked`: no such device, or not any more.
 * - `signature`: its device has not signed it.
 * - `clock`: it is from the future.
 * - `age`: it is older than the keeper remembers nonces.
 * - `repeated`: it was answered before.
 * - `interrupted`: it was given out just when the keeper ended, and is not given again.
 * - `key`: the collection has another key by now; renew the device.
 * - `dishonest`: its query is none that an honest device makes.
 * - `policy`: its device may not enrol, or no more, or not this record.
 * - `gone`: the store does not have it any more.
 */
export type RefusalReason =
  | 'malformed'
  | 'collection'
  | 'unknown'
  | 'revoked'
  | 'signature'
  | 'clock'
  | 'age'
  | 'repeated'
  | 'interrupted'
  | 'key'
  | 'dishonest'
  | 'policy'
  | 'gone';

/** An item that was not answered. */
export interface Refusal {
  /** Why. */
  readonly reason: RefusalReason;
  /** The same in words. */
  readonly message: string;
  /** The name of the device, where its signature is right. */
  readonly device?: string;
  /** Its time, where its signature is right. */
  readonly time?: Date;
  /** As it was returned to the device. */
  readonly nonce?: string;
}

/** How questions are answered. */
export interface QuestionOptions extends AnswerOptions {
  /**
   * Remembers which nonces were answered, so that a store that gives an item again, or a keeper
   * that was ended, does not have it answered twice. By default in memory; `NonceFile` of
   * `@hers/client/keeper` keeps it in a file.
   */
  readonly memory?: NonceMemory;
  /** Milliseconds between two looks into the inbox; 1000 by default. */
  readonly pollMs?: number;
  /** Whether to wait for further questions when all are answered; true by default. */
  readonly wait?: boolean;
  /** Whether enrolments are indexed; true by default. They stay in the inbox otherwise. */
  readonly enrol?: boolean;
  /** Called with every record that a device has enrolled. */
  readonly onEnrolled?: (enrolled: EnrolledByDevice) => void;
  /** Called with every item that is not answered. */
  readonly onRefused?: (refusal: Refusal) => void;
}

const OPTIONS: OptionNames<QuestionOptions> = {
  ...{ limit: true, threshold: true, filter: true, partitions: true, select: true, groupBy: true, signal: true },
  ...{ memory: true, pollMs: true, wait: true, enrol: true, onEnrolled: true, onRefused: true },
};

/** How far ahead the clock of a device may be. */
const AHEAD_MS = 5 * 60_000;
/** Items that are older are refused, and nonces kept as long: a day more than stores keep items. */
const AGE_MS = 8 * 86_400_000;
/** Items taken at a time, and questions scanned in one search. */
const TAKEN = 64;
const SCANNED = 8;
/** How long an item stays in the store after it was seen, whatever became of it. */
const DROP_MS = 20_000;
/** Answers that wait for whoever reads them; beyond that nothing is taken. */
const MAX_WAITING = 10_000;

/** A question that passed all checks that need no decryption. */
interface Pending {
  readonly item: InboxItem;
  readonly envelope: Envelope;
  readonly device: ManifestDevice;
  /** Describes it for callbacks. */
  readonly about: Pick<Question, 'device' | 'time' | 'nonce'>;
}

const INTERRUPTED = 'the keeper ended just when it gave this out';

/** Answers what devices ask, one after the other, as they come. */
export async function* questions(searching: Searching, options: QuestionOptions = {}): AsyncGenerator<Question> {
  const { session } = searching;
  refuseUnknown(options, OPTIONS, 'questions');
  const { memory = new InMemoryNonces(), pollMs = 1000, wait = true, enrol = true } = options;
  const { onEnrolled, onRefused, memory: _m, pollMs: _p, wait: _w, enrol: _e, ...given } = options;
  checkOptions(given);
  if (!(Number.isFinite(pollMs) && pollMs >= 0)) throw invalid('pollMs is a number from 0');
  session.checkWhole('answering questions');
  if (session.keyring.plan.profile !== 'open')
    throw invalid('only collections of the profile open have questions of devices');
  const keeper = new Keeper(searching, memory, given, { enrol, onEnrolled, onRefused });
  const ending = new AbortController();
  const stop = () => ending.abort(given.signal?.reason);
  given.signal?.addEventListener('abort', stop, { once: true });
  if (given.signal?.aborted) stop();
  const pump = keeper.run(pollMs, wait, ending.signal);
  pump.catch(() => {}); // reported below
  try {
    for (;;) {
      const next = await keeper.next();
      if (!next) break;
      // Before it is given out: whatever happens afterwards, it is not given out again.
      if ((await memory.read(next.nonce)) !== undefined) continue;
      const known = { nonce: next.nonce, device: next.number, time: next.question.time.getTime() };
      await memory.write({ ...known, state: 'begun' });
      try {
        yield next.question;
      } finally {
        // Also where the loop that reads it is left.
        await memory.write({ ...known, state: 'answered' });
      }
    }
    await pump;
  } finally {
    given.signal?.removeEventListener('abort', stop);
    ending.abort(new HersError('CLOSED', 'nobody reads these questions any more'));
    await pump.catch(() => {});
  }
}

interface Callbacks {
  readonly enrol: boolean;
  readonly onEnrolled: QuestionOptions['onEnrolled'];
  readonly onRefused: QuestionOptions['onRefused'];
}

interface Ready {
  readonly nonce: string;
  readonly number: number;
  readonly question: Question;
}

class Keeper {
  readonly #searching: Searching;
  readonly #session: CollectionSession;
  readonly #memory: NonceMemory;
  readonly #options: AnswerOptions;
  readonly #callbacks: Callbacks;
  readonly #ready: Ready[] = [];
  /** Seen and not dropped yet: when. */
  readonly #seen = new Map<number, number>();
  #last = 0;
  #ended: { readonly error?: unknown } | undefined;
  #changing = Promise.withResolvers<void>();

  constructor(searching: Searching, memory: NonceMemory, options: AnswerOptions, callbacks: Callbacks) {
    this.#searching = searching;
    this.#session = searching.session;
    this.#memory = memory;
    this.#options = options;
    this.#callbacks = callbacks;
  }

  /** The next answer; undefined when there are no more. */
  async next(): Promise<Ready | undefined> {
    for (;;) {
      const ready = this.#ready.shift();
      if (ready) return ready;
      if (this.#ended) {
        if ('error' in this.#ended) throw this.#ended.error;
        return undefined;
      }
      await this.#changing.promise;
    }
  }

  #changed(): void {
    this.#changing.resolve();
    this.#changing = Promise.withResolvers();
  }

  async run(pollMs: number, wait: boolean, signal: AbortSignal): Promise<void> {
    try {
      // Those are known now, and are not found in the inbox as begun again.
      for (const known of await this.#memory.begun()) {
        const device = (await this.#session.view()).manifest.devices?.[known.device - 1]?.name;
        const about = { nonce: known.nonce, time: new Date(known.time) };
        this.#refuse('interrupted', INTERRUPTED, device === undefined ? about : { device, ...about });
        await this.#memory.write({ ...known, state: 'refused' });
      }
      const { service, name } = this.#session;
      let told: string | undefined;
      for (;;) {
        signal.throwIfAborted();
        const began = Date.now();
        const items = await this.#take(signal);
        if (items.length > 0 || told === undefined) {
          const view = await this.#session.refresh();
          // A store that was restored, or did not hear of it when a device was revoked.
          const revoked = revokedIn(view.manifest.devices ?? []);
          if (told !== revoked.join()) await service.refuseDevices(name, revoked, { signal });
          told = revoked.join();
          await this.#look(view, items, signal);
        }
        await this.#drop(signal);
        if (items.length === TAKEN) continue;
        await this.#memory.forget(began - AGE_MS);
        if (!wait) break;
        await pause(pollMs, signal);
        while (this.#ready.length > MAX_WAITING) await pause(pollMs, signal);
      }
      this.#ended = {};
    } catch (error) {
      this.#ended = { error: signal.aborted ? (signal.reason ?? error) : error };
      throw error;
    } finally {
      this.#changed();
    }
  }

  /**
   * Takes what is new. A store whose numbers went back, because an older copy of it was brought
   * back, has an item with a number that was not seen: then all begins again, and nonces tell what
   * was answered.
   */
  async #take(signal: AbortSignal): Promise<InboxItem[]> {
    const { service, name } = this.#session;
    const after = (number: number, limit: number) =>
      Array.fromAsync(service.takeInbox(name, { after: number, limit }, { signal }));
    const items = await after(this.#last, TAKEN);
    if (items.length > 0 || this.#last === 0) return items;
    const [first] = await after(0, 1);
    if (!first || this.#seen.has(first.number)) return [];
    this.#seen.clear();
    this.#last = 0;
    return after(0, TAKEN);
  }

  async #look(view: View, items: readonly InboxItem[], signal: AbortSignal): Promise<void> {
    const asked: Pending[] = [];
    for (const item of items) {
      this.#last = item.number;
      const checked = await this.#check(view, item);
      const isEnrolment = checked !== undefined && checked !== 'repeated' && checked.envelope.kind === 'enrolment';
      // What was answered before is of no more use there; what is to be left stays.
      const isLeft = isEnrolment && !this.#callbacks.enrol;
      const since = checked === 'repeated' ? 0 : isLeft ? Number.POSITIVE_INFINITY : Date.now();
      this.#seen.set(item.number, since);
      if (isEnrolment && !isLeft) await this.#enrol(checked, signal);
      else if (checked !== undefined && checked !== 'repeated' && !isEnrolment) asked.push(checked);
    }
    for (let at = 0; at < asked.length; at += SCANNED) await this.#answer(view, asked.slice(at, at + SCANNED), signal);
  }

  /** Drops what was seen so long ago, whatever became of it. */
  async #drop(signal: AbortSignal): Promise<void> {
    const until = Date.now() - DROP_MS;
    const numbers = [...this.#seen].filter(([, time]) => time <= until).map(([number]) => number);
    if (numbers.length === 0) return;
    await this.#session.service.dropInbox(this.#session.name, numbers.slice(0, 1000), { signal });
    for (const number of numbers.slice(0, 1000)) this.#seen.delete(number);
  }

  #refuse(reason: RefusalReason, message: string, about: Omit<Refusal, 'reason' | 'message'> = {}): undefined {
    this.#callbacks.onRefused?.({ reason, message, ...about });
  }

  /** Who says it, and whether it was answered before; undefined where it is refused. */
  async #check(view: View, item: InboxItem): Promise<Pending | 'repeated' | undefined> {
    let envelope: Envelope;
    try {
      envelope = decodeEnvelope(item.envelope);
    } catch (error) {
      return this.#refuse('malformed', (error as Error).message);
    }
    if (hex(envelope.collection) !== hex(this.#session.keyring.id))
      return this.#refuse('collection', 'it is for another collection');
    const device = view.manifest.devices?.[envelope.device - 1];
    if (!device) return this.#refuse('unknown', `there is no device ${envelope.device}`);
    if (!isSignedBy(fromHex(device.key), envelope))
      return this.#refuse('signature', `device ${envelope.device} has not signed it`);
    const about = { device: device.name, time: new Date(envelope.time), nonce: hex(envelope.nonce) };
    const refuse = (reason: RefusalReason, message: string) => this.#refuse(reason, message, about);
    if (device.revoked !== undefined) return refuse('revoked', `${device.name} was revoked`);
    const now = Date.now();
    if (envelope.time > now + AHEAD_MS) return refuse('clock', `the clock of ${device.name} is ahead`);
    if (envelope.time < now - AGE_MS) return refuse('age', 'it is older than nonces are remembered');
    const known = await this.#memory.read(about.nonce);
    // An enrolment that was begun is done again: that changes nothing where it was done.
    if (known && !(known.state === 'enrolling' && envelope.kind === 'enrolment'))
      return refuse('repeated', 'it was answered before') ?? 'repeated';
    return { item, envelope, device, about };
  }

  async #answer(view: View, all: readonly Pending[], signal: AbortSignal): Promise<void> {
    const readable = ({ item, envelope, device, about }: Pending) => {
      const space = [view.space, ...view.spaces.values()].find(({ epoch }) => epoch === envelope.epoch);
      const evaluation = space && evaluationOf(view.manifest, space);
      if (!space || !evaluation)
        return this.#refuse('key', 'the key of the collection was rotated since; renew the device', about);
      try {
        const read = readOpenQuery(space.key(), envelope.body, evaluation.generation);
        // Both numbers are there for the store to see.
        if (read.device !== (device.own?.secret ?? OWN_DEVICE))
          return this.#refuse('malformed', 'it is encrypted under another key than that of its device', about);
        if (read.device !== OWN_DEVICE && !evaluation.devices?.[read.device])
          return this.#refuse(
            'key',
            `there are no evaluation keys for ${device.name} any more; renew the device`,
            about,
          );
        const { isHonest, ...question } = read;
        return { ...question, isIgnored: !isHonest, number: item.number, epoch: space.epoch };
      } catch (error) {
        const isKey = error instanceof HersError && error.code === 'KEY_MISMATCH';
        return this.#refuse(isKey ? 'key' : 'malformed', (error as Error).message, about);
      }
    };
    const asked = all.flatMap((each) => {
      const read = readable(each);
      return read ? [{ ...each, read }] : [];
    });
    if (asked.length === 0) return;
    let results: Awaited<ReturnType<typeof answer>>;
    try {
      const reads = asked.map(({ read }) => read);
      results = await answer(this.#searching, reads, { ...this.#options, signal });
    } catch (error) {
      const code = error instanceof HersError ? error.code : undefined;
      if (code !== 'NOT_FOUND' && code !== 'KEY_MISMATCH') throw error;
      // One of them was too old and is gone, or its device was just revoked, or the collection is
      // gone.
      if (asked.length > 1) for (const each of asked) await this.#answer(view, [each], signal);
      else if (code === 'KEY_MISMATCH') this.#refuse('key', (error as Error).message, asked[0].about);
      else if (await isThere(this.#session))
        this.#refuse('gone', 'the store does not have it any more', asked[0].about);
      else throw error;
      return;
    }
    for (const [i, { about, read, device }] of asked.entries()) {
      if (read.isIgnored) {
        this.#refuse('dishonest', 'its query is none that an honest device makes', about);
        continue;
      }
      const { matches, coverage } = results[i];
      this.#ready.push({ nonce: about.nonce, number: device.number, question: { ...about, matches, coverage } });
    }
    this.#changed();
  }

  async #enrol({ envelope, device, about }: Pending, signal: AbortSignal): Promise<void> {
    const { nonce } = about;
    const known = { nonce, device: device.number, time: envelope.time };
    const refuse = async (reason: RefusalReason, message: string) => {
      this.#refuse(reason, message, about);
      await this.#memory.write({ ...known, state: 'refused' });
    };
    const policy = device.enrol;
    if (!policy) return refuse('policy', `${device.name} may not enrol`);
    if ((await this.#memory.enrolled(device.number)) >= policy.most)
      return refuse('policy', `${device.name} has enrolled ${policy.most} records, and may enrol no more`);
    const { sealing, signing } = this.#session.keyring.keeperKeys();
    signing.fill(0);
    let record: Awaited<ReturnType<typeof openRecord>>;
    try {
      record = await openRecord(sealing, envelope, envelope.body);
    } catch (error) {
      return refuse('malformed', (error as Error).message);
    } finally {
      sealing.fill(0);
    }
    const isBegun = (await this.#memory.read(nonce))?.state === 'enrolling';
    const view = await this.#session.view();
    if (!isBegun && view.locate(record.id) !== undefined)
      return refuse('policy', `there is a record of that id already, and ${device.name} may not replace it`);
    const payload = partitioned(record.payload, view.manifest.partitionBy, policy.partition);
    if (payload === WRONG_PARTITION) return refuse('policy', `${device.name} may not enrol into that partition`);
    await this.#memory.write({ ...known, state: 'enrolling' });
    const { id, vector } = record;
    try {
      const written = { id, vector, ...(payload === undefined ? {} : { payload: payload as Payload }) };
      await upsert(this.#session, written, {
        signal,
        onInvalid: ({ error }) => {
          throw error;
        },
      });
    } catch (error) {
      if (!(error instanceof HersError && ['INVALID_ARGUMENT', 'INVALID_VECTOR'].includes(error.code))) throw error;
      return refuse('malformed', error.message);
    }
    await this.#memory.write({ ...known, state: 'enrolled' });
    this.#callbacks.onEnrolled?.({ ...about, id });
  }
}

const WRONG_PARTITION = Symbol('wrong partition');

/** The payload with the partition that the device may enrol into. */
function partitioned(payload: unknown, field: string | undefined, partition: string | undefined): unknown {
  if (field === undefined) return payload;
  const fields = (payload ?? {}) as Record<string, unknown>;
  if (typeof fields !== 'object' || Array.isArray(fields)) return WRONG_PARTITION;
  if (fields[field] !== undefined && fields[field] !== partition) return WRONG_PARTITION;
  return { ...fields, [field]: partition };
}

async function isThere({ service, name }: CollectionSession): Promise<boolean> {
  return (await service.getCollection(name).catch(() => undefined)) !== undefined;
}
