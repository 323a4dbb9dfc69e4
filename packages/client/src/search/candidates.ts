// Fetching records because of their scores. It shows the store which records a search found. That
// depends on what was decrypted, which the store may have chosen. So a set of candidates is shown
// once: a retry asks for the same handles, and nothing the store says makes the client scan again.
// Every set is written down before it is shown, and crossed out when its records have come with the
// scores that were decrypted for them. A store that does not prove its answers right is shown only
// a few sets, by all clients that share a memory.

import { HersError } from '@hers/service';
import { bytesOf, concat, fromHex, hex } from '../bytes.ts';
import type { PlainRecord } from '../formats/records.ts';
import { seal } from '../sealing/sealing.ts';
import { InconsistentRead, mayBeOvertaken, pauseAfter } from '../session/reader.ts';
import { type CollectionSession, contradiction } from '../session/session.ts';
import type { Seen } from '../session/versions.ts';
import type { View } from '../session/view.ts';
import { ScoreCheck, type Scored, WrongScore } from './score-check.ts';

/** Sets that a store may have been shown without having been verified. */
export const MAX_UNVERIFIED = 3;
/** The largest number of sets that are written down, whatever happens. */
const MAX_WRITTEN = 8;
/**
 * How often one call asks for the same handles: without a newer manifest as a reason, and at all.
 */
const ATTEMPTS = 4;
const MAX_ATTEMPTS = 20;
/**
 * A record may have been replaced only this long after it was shown: later, the store may have
 * waited for that.
 */
const REPLACED_MS = 10_000;
/**
 * Sets that another process asked for longer ago than this are settled here; younger ones are
 * awaited.
 */
const OTHERS_MS = 5_000;
const POLL_MS = 20;
/** How long closing waits for sets that are under way. */
const CLOSE_MS = 2_000;

export interface Wanted extends Scored {
  readonly id: string;
  /** As it was when it was compared. */
  readonly version: string;
}

export interface Fetched {
  readonly record: PlainRecord;
  /**
   * Another writer replaced the record after it was compared: the decrypted score is not about this
   * version.
   */
  readonly isReplaced: boolean;
}

type FetchedByHandle = ReadonlyMap<string, Fetched>;

/**
 * A set as it is written down: whether it is under way or was given up, when it was shown, an id,
 * and, sealed, what is needed to settle it.
 */
interface Entry {
  readonly state: 'asked' | 'failed';
  readonly time: number;
  readonly id: string;
  readonly sealed: string;
}

const encodeEntry = ({ state, time, id, sealed }: Entry) => [state, time, id, sealed].join('.');

function decodeEntry(text: string): Entry {
  const [state, time, id, sealed = ''] = text.split('.');
  return { state: state === 'asked' ? 'asked' : 'failed', time: Number(time), id, sealed };
}

/** A clock that was set back must not make anybody wait forever. */
const isYoung = ({ time }: Entry) => Math.abs(Date.now() - time) < OTHERS_MS;

const entriesIn = (seen: Seen | undefined) => (seen?.unverified ?? []).map(decodeEntry);
const withEntries = (seen: Seen, entries: readonly Entry[]): Seen => ({
  ...seen,
  unverified: entries.slice(0, MAX_WRITTEN).map(encodeEntry),
});

export class Candidates {
  readonly #session: CollectionSession;
  /** Sets that this process has asked for. */
  readonly #asked = new Map<string, Promise<void>>();
  #settling: Promise<void> | undefined;

  constructor(session: CollectionSession) {
    this.#session = session;
  }

  /**
   * The records of these candidates, by handle; those that were deleted meanwhile are left out.
   * INTEGRITY when a score is wrong, or when too many sets were shown already. When the signal
   * aborts, the call ends and checking continues: the set was shown.
   */
  async fetch(
    view: View,
    wanted: readonly Wanted[],
    check: ScoreCheck,
    signal?: AbortSignal,
  ): Promise<FetchedByHandle> {
    signal?.throwIfAborted();
    const sealed = await this.#sealed(wanted, check.probe);
    await (signal ? aborted(this.#settle(), signal) : this.#settle());
    const id = hex(crypto.getRandomValues(new Uint8Array(8)));
    await this.#reserve({ state: 'asked', time: Date.now(), id, sealed }, signal);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#asked.set(id, promise);
    const asking = this.#show(id, () => this.#ask(view, wanted, check)).finally(() => {
      this.#asked.delete(id);
      resolve();
    });
    asking.catch(() => {}); // heard of by the caller, unless the signal was first
    return signal ? aborted(asking, signal) : asking;
  }

  /**
   * Counts a search that would have fetched but could not be decrypted: that nothing is asked for
   * tells the store something, too.
   */
  async undecryptable(): Promise<void> {
    const id = hex(crypto.getRandomValues(new Uint8Array(8)));
    const entry: Entry = { state: 'failed', time: Date.now(), id, sealed: '' };
    await this.#remember((seen) => withEntries(seen, [...entriesIn(seen), entry]));
  }

  /**
   * Under the profile `open`: INTEGRITY after an answer that did not decrypt to what it must. All
   * answers are under the same secrets there, so a store that cheats gets no second try.
   */
  async checkSearching(): Promise<void> {
    const { memory, place } = this.#session;
    if ((await memory.read(place))?.stopped)
      throw new HersError(
        'INTEGRITY',
        `collection ${JSON.stringify(place.name)} is not searched: an answer of its store was not computed from its blocks. Find out why; then collection.resume(), or hers collections resume ${place.name}, goes on`,
      );
  }

  /** An answer did not decrypt to what it must. */
  async stopSearching(): Promise<void> {
    await this.#remember((seen) => ({ ...seen, stopped: true }));
  }

  /** A person has looked at it: fetching is allowed again. */
  async resume(): Promise<void> {
    await this.#remember((seen) => ({ ...seen, unverified: [], stopped: false }));
  }

  /** Waits a little for sets that are under way; what is not done by then stays written down. */
  async close(): Promise<void> {
    if (this.#asked.size === 0) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS);
    });
    await Promise.race([Promise.all(this.#asked.values()), late]);
    clearTimeout(timer);
  }

  /**
   * Writes a set down before it is shown. Sets under way count, so it waits for them; those that
   * failed need a person to look.
   */
  async #reserve(entry: Entry, signal?: AbortSignal): Promise<void> {
    const { memory, place } = this.#session;
    for (let isSettled = false; ; ) {
      let open: Entry[] = [];
      await memory.update(
        place,
        (seen) => {
          if (!seen || seen.stopped)
            throw this.#refusal('what was decrypted for a record was not the score of that record');
          open = entriesIn(seen);
          return open.length < MAX_UNVERIFIED ? withEntries(seen, [...open, entry]) : seen;
        },
        { isFleeting: true },
      );
      if (open.length < MAX_UNVERIFIED) return;
      const isComing = (each: Entry) => each.state === 'asked' && (this.#asked.has(each.id) || isYoung(each));
      if (!open.some(isComing) && !isSettled) {
        // Sets of processes that have ended can be settled here.
        await (signal ? aborted(this.#settle(), signal) : this.#settle());
        isSettled = true;
        continue;
      }
      if (!open.some(isComing))
        throw this.#refusal(`${open.length} sets of candidates were shown to the store, and it never gave the records`);
      const next = Promise.race([...this.#asked.values(), new Promise<void>((done) => setTimeout(done, POLL_MS))]);
      await (signal ? aborted(next, signal) : next);
    }
  }

  #refusal(why: string): HersError {
    const { name } = this.#session;
    return new HersError(
      'INTEGRITY',
      `nothing is fetched from collection ${JSON.stringify(name)} because of a score: ${why}. Find out why; then collection.resume(), or hers collections resume ${name}, goes on`,
    );
  }

  async #show(id: string, ask: () => Promise<FetchedByHandle>): Promise<FetchedByHandle> {
    let fetched: FetchedByHandle;
    try {
      fetched = await ask();
    } catch (error) {
      await this.#failed(id, error);
      throw error;
    }
    await this.#verified(id);
    return fetched;
  }

  #verified(id: string): Promise<void> {
    return this.#remember((seen) =>
      withEntries(
        seen,
        entriesIn(seen).filter((entry) => entry.id !== id),
      ),
    );
  }

  #failed(id: string, error: unknown): Promise<void> {
    return this.#remember((seen) => {
      const entries = entriesIn(seen).map((entry) =>
        entry.id === id ? { ...entry, state: 'failed' as const } : entry,
      );
      return { ...withEntries(seen, entries), ...(error instanceof WrongScore ? { stopped: true } : {}) };
    });
  }

  async #remember(change: (seen: Seen) => Seen): Promise<void> {
    const { memory, place } = this.#session;
    await memory.update(place, (seen) => seen && change(seen), { isFleeting: true });
  }

  /**
   * Asks again for sets that were not verified, whichever process showed them: if the network was
   * the reason, they are verified now.
   */
  #settle(): Promise<void> {
    this.#settling ??= (async () => {
      const seen = await this.#session.memory.read(this.#session.place);
      if (seen?.stopped) return; // refused with the reason when the set is to be written down
      for (const entry of entriesIn(seen)) {
        const { state, id, sealed } = entry;
        if (sealed === '' || this.#asked.has(id) || (state === 'asked' && isYoung(entry))) continue;
        try {
          const view = await this.#session.view();
          const { wanted, probe } = await this.#opened(view, sealed);
          await this.#ask(view, wanted, new ScoreCheck(probe), true);
        } catch (error) {
          await this.#failed(id, error);
          if (error instanceof WrongScore) throw error;
          continue;
        }
        await this.#verified(id);
      }
    })().finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  /**
   * Asks for these records and checks each as it comes. If a record is missing or differs, only a
   * newer manifest proves that it was changed; then the manifest counts, unless all records must be
   * `asCompared`. Nothing else is asked for.
   */
  async #ask(view: View, wanted: readonly Wanted[], check: ScoreCheck, asCompared = false): Promise<FetchedByHandle> {
    const began = performance.now();
    const mayDiffer = () => !asCompared && performance.now() - began < REPLACED_MS;
    let latest = view;
    let current = wanted;
    let inVain = 0;
    for (let attempt = 1; ; attempt++) {
      const fetched = new Map<string, Fetched>();
      try {
        const handles = current.map(({ handle }) => handle);
        for await (const record of this.#session.reader.records(handles, { newest: latest.manifest.epoch })) {
          const candidate = current[fetched.size];
          const isReplaced = record.version !== candidate.version;
          if (!isReplaced) await check.one(candidate, record);
          else if (latest === view || record.version !== latest.versionOf(candidate.id) || !mayDiffer())
            throw new InconsistentRead('the store gave an older copy of a record than its list names');
          fetched.set(candidate.handle, { record, isReplaced });
        }
        check.together();
        return fetched;
      } catch (error) {
        if (!mayBeOvertaken(error)) throw error;
        const giveUp = () => ((error as HersError).code === 'STALE' ? contradiction() : notGiven());
        if (asCompared || attempt === MAX_ATTEMPTS || inVain === ATTEMPTS - 1) throw giveUp();
        await pauseAfter(inVain + 1);
        const now = await this.#session.refresh();
        inVain = now.manifest.version > latest.manifest.version ? 0 : inVain + 1;
        latest = now;
        if (mayDiffer()) current = wanted.filter(({ id }) => latest.locate(id) !== undefined);
      }
    }
  }

  /** What is needed to settle a set, for any process with the same key. */
  async #sealed(wanted: readonly Wanted[], probe: Float32Array): Promise<string> {
    const rows = wanted.map(({ id, version, handle, space, slot, decrypted }) => [
      ...[id, version, handle, space.epoch, slot ?? null, decrypted ?? null],
    ]);
    const plain = new TextEncoder().encode(JSON.stringify({ probe: hex(bytesOf(probe)), rows }));
    return hex(await seal(await this.#session.keyring.manifestSealer(), plain, this.#associatedData()));
  }

  #associatedData(): Uint8Array {
    return concat(new TextEncoder().encode('candidates'), this.#session.keyring.id);
  }

  async #opened(view: View, sealed: string): Promise<{ wanted: Wanted[]; probe: Float32Array }> {
    const plain = await (await this.#session.keyring.manifestSealer()).open(fromHex(sealed), this.#associatedData());
    const { probe, rows } = JSON.parse(new TextDecoder().decode(plain));
    const wanted = rows.map(([id, version, handle, epoch, slot, decrypted]: Row): Wanted => {
      const space = view.spaces.get(epoch);
      if (!space) throw notGiven(); // compared under a key that is gone
      const compared = { ...(slot === null ? {} : { slot }), ...(decrypted === null ? {} : { decrypted }) };
      return { id, version, handle, space, ...compared };
    });
    return { wanted, probe: new Float32Array(fromHex(probe).slice().buffer) };
  }
}

type Row = [string, string, string, number, number | null, number | null];

function notGiven(): HersError {
  return new HersError('INTEGRITY', 'the store does not give a record as the manifest names it');
}

/** Ends with the signal's reason; the work itself continues. */
function aborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
    if (signal.aborted) stop();
  });
}
