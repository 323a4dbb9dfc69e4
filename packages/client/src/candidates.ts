// Fetching records because of their scores. It shows the store which records a search found, and that depends on what was decrypted, which the store may have chosen. So a set of candidates
// is shown once: the same handles are asked for again where that is needed, and nothing the store says makes the client scan again. And every set that was shown is written down before, and
// crossed out when its records have come and have the scores that were decrypted for them. A store that is shown sets without proving its answers right is shown only a few, by all clients
// that share a memory.

import { HersError } from '@hers/service';
import { bytesOf, concat, fromHex, hex } from './bytes.ts';
import { type Changer, contradiction } from './changes.ts';
import type { OpenedRecord } from './records.ts';
import { ScoreCheck, type Scored, WrongScore } from './score-check.ts';
import { seal } from './sealing.ts';
import type { Seen } from './versions.ts';
import { mayBeOvertaken, OutOfStep, pauseAfter, readRecords, type View } from './view.ts';

/** Sets that a store may have been shown without having been verified. */
export const MOST_UNVERIFIED = 3;
/** Written down at most, whatever happens. */
const MOST_WRITTEN = 8;
/** How often the same handles are asked for in a call while no newer manifest gives a reason to; and at all. */
const ATTEMPTS = 4;
const MOST_ATTEMPTS = 20;
/** Only as long after it was shown may a record have been replaced by somebody: later, the store may have waited for that. */
const REPLACED_MS = 10_000;
/** Sets that another process asked for longer ago than this are settled here; for younger ones it is waited. */
const OTHERS_MS = 5_000;
const POLL_MS = 20;
/** What closing waits for sets that are still on their way. */
const CLOSE_MS = 2_000;

/** A record that is wanted because of its score. */
export interface Wanted extends Scored {
  readonly id: string;
  /** As it was when it was compared. */
  readonly version: string;
}

export interface Fetched {
  readonly record: OpenedRecord;
  /** Somebody wrote the record again after it was compared: what was decrypted for it is not about this one. */
  readonly isReplaced: boolean;
}

type FetchedByHandle = ReadonlyMap<string, Fetched>;

/** A set as it is written down: whether it is on its way or was given up, when it was shown, a number, and what settling it takes, sealed. */
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

/** A clock that was set back must not make anybody wait for ever. */
const isYoung = ({ time }: Entry) => Math.abs(Date.now() - time) < OTHERS_MS;

const entriesIn = (seen: Seen | undefined) => (seen?.unverified ?? []).map(decodeEntry);
const withEntries = (seen: Seen, entries: readonly Entry[]): Seen => ({
  ...seen,
  unverified: entries.slice(0, MOST_WRITTEN).map(encodeEntry),
});

/** The candidate sets of one collection. */
export class Candidates {
  readonly #changer: Changer;
  /** On their way from here. */
  readonly #asked = new Map<string, Promise<void>>();
  #settling: Promise<void> | undefined;

  constructor(changer: Changer) {
    this.#changer = changer;
  }

  /**
   * The records of these candidates, by handle; those that were deleted meanwhile are left out. INTEGRITY when a score is wrong, or when too many sets were shown already. When the
   * signal aborts, the call ends and checking goes on: the set was shown.
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

  /** A search that would have fetched could not be decrypted, and the store sees that nothing is asked for: that is an answer, too. */
  async undecryptable(): Promise<void> {
    const entry: Entry = {
      state: 'failed',
      time: Date.now(),
      id: hex(crypto.getRandomValues(new Uint8Array(8))),
      sealed: '',
    };
    await this.#remember((seen) => withEntries(seen, [...entriesIn(seen), entry]));
  }

  /** A person has looked at it: fetching goes on. */
  async resume(): Promise<void> {
    await this.#remember((seen) => ({ ...seen, unverified: [], stopped: false }));
  }

  /** Waits a little for what is on its way; what is not done then stays written down. */
  async close(): Promise<void> {
    if (this.#asked.size === 0) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS);
    });
    await Promise.race([Promise.all(this.#asked.values()), late]);
    clearTimeout(timer);
  }

  /** Writes a set down before it is shown. Those on their way count, so it waits for them; for those that failed a person has to look. */
  async #reserve(entry: Entry, signal?: AbortSignal): Promise<void> {
    const { memory, place } = this.#changer;
    for (let isSettled = false; ; ) {
      let open: Entry[] = [];
      await memory.update(
        place,
        (seen) => {
          if (!seen || seen.stopped)
            throw this.#refusal('what was decrypted for a record was not the score of that record');
          open = entriesIn(seen);
          return open.length < MOST_UNVERIFIED ? withEntries(seen, [...open, entry]) : seen;
        },
        { isFleeting: true },
      );
      if (open.length < MOST_UNVERIFIED) return;
      const isComing = (each: Entry) => each.state === 'asked' && (this.#asked.has(each.id) || isYoung(each));
      if (!open.some(isComing) && !isSettled) {
        // Those of processes that ended meanwhile can be settled here.
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
    const { name } = this.#changer;
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
    const { memory, place } = this.#changer;
    await memory.update(place, (seen) => seen && change(seen), { isFleeting: true });
  }

  /** Asks again for sets that were not verified, whoever was shown asking: when it was the network, they are now. */
  #settle(): Promise<void> {
    this.#settling ??= (async () => {
      const seen = await this.#changer.memory.read(this.#changer.place);
      if (seen?.stopped) return; // refused with the reason when the set is to be written down
      for (const entry of entriesIn(seen)) {
        const { state, id, sealed } = entry;
        if (sealed === '' || this.#asked.has(id) || (state === 'asked' && isYoung(entry))) continue;
        try {
          const view = await this.#changer.view();
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
   * Asks for these records and checks each as it comes. A record that is not there as it was, or not at all, is believed to have been changed when a newer manifest says so; then what
   * the manifest says is what counts, unless all must be `asCompared`. Nothing else is asked for.
   */
  async #ask(view: View, wanted: readonly Wanted[], check: ScoreCheck, asCompared = false): Promise<FetchedByHandle> {
    const { service, name, keyring } = this.#changer;
    const began = performance.now();
    const mayDiffer = () => !asCompared && performance.now() - began < REPLACED_MS;
    let latest = view;
    let current = wanted;
    let inVain = 0;
    for (let attempt = 1; ; attempt++) {
      const fetched = new Map<string, Fetched>();
      try {
        const handles = current.map(({ handle }) => handle);
        for await (const record of readRecords(service, name, keyring, handles, { newest: latest.manifest.epoch })) {
          const candidate = current[fetched.size];
          const isReplaced = record.version !== candidate.version;
          if (!isReplaced) await check.one(candidate, record);
          else if (
            latest === view ||
            record.version !== latest.versionOf(candidate.id, candidate.handle) ||
            !mayDiffer()
          )
            throw new OutOfStep('the store gave an older copy of a record than its list names');
          fetched.set(candidate.handle, { record, isReplaced });
        }
        check.together();
        return fetched;
      } catch (error) {
        if (!mayBeOvertaken(error)) throw error;
        const giveUp = () => ((error as HersError).code === 'STALE' ? contradiction() : notGiven());
        if (asCompared || attempt === MOST_ATTEMPTS || inVain === ATTEMPTS - 1) throw giveUp();
        await pauseAfter(inVain + 1);
        const now = await this.#changer.refresh();
        inVain = now.manifest.version > latest.manifest.version ? 0 : inVain + 1;
        latest = now;
        if (mayDiffer()) current = wanted.filter(({ id }) => latest.locate(id) !== undefined);
      }
    }
  }

  /** What settling a set takes, for this process or another of the same key. */
  async #sealed(wanted: readonly Wanted[], probe: Float32Array): Promise<string> {
    const rows = wanted.map(({ id, version, handle, space, slot, decrypted }) => [
      ...[id, version, handle, space.epoch, slot ?? null, decrypted ?? null],
    ]);
    const plain = new TextEncoder().encode(JSON.stringify({ probe: hex(bytesOf(probe)), rows }));
    return hex(await seal(await this.#changer.keyring.manifestSealer(), plain, this.#about()));
  }

  #about(): Uint8Array {
    return concat(new TextEncoder().encode('candidates'), this.#changer.keyring.id);
  }

  async #opened(view: View, sealed: string): Promise<{ wanted: Wanted[]; probe: Float32Array }> {
    const plain = await (await this.#changer.keyring.manifestSealer()).open(fromHex(sealed), this.#about());
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

/** Ends with the signal's reason; what it waits for goes on. */
function aborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
    if (signal.aborted) stop();
  });
}
