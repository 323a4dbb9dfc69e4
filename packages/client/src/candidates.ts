// Fetching records because of their scores. It shows the store which records a search found, and nothing the store says may make the client show another set for the same probe: what
// is shown depends on what was decrypted, and the store may have chosen that. So a set of candidates is shown once, the same handles are asked for again where that is needed, and a store
// that is shown sets without ever giving the records that prove its answer right is shown only a few.

import { HersError } from '@hers/service';
import { hex, sha256 } from './bytes.ts';
import { type Changer, contradiction } from './changes.ts';
import type { OpenedRecord } from './records.ts';
import { type ScoreCheck, type Scored, WrongScore } from './score-check.ts';
import type { Seen } from './versions.ts';
import { mayBeOvertaken, OutOfStep, pauseAfter, readRecords, type View } from './view.ts';

/** Sets that a store may have been shown without having been verified. */
export const MOST_UNVERIFIED = 3;
/** How often the same handles are asked for. */
const ATTEMPTS = 4;
/** A set that is not verified by then is written down: this process may be ended before it is. */
const WRITE_DOWN_MS = 50;
/** What closing waits for sets that are still on their way. */
const CLOSE_MS = 2000;

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

/** A set that was shown. */
interface Shown {
  readonly print: string;
  /** Asks for the same handles, and checks what comes. */
  readonly ask: () => Promise<FetchedByHandle>;
}

/** The candidate sets of one collection. */
export class Candidates {
  readonly #changer: Changer;
  /** Under way. */
  readonly #asked = new Map<Shown, Promise<void>>();
  /** Shown, and not verified. */
  readonly #failed = new Map<string, Shown>();
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
    candidates: readonly Wanted[],
    check: ScoreCheck,
    signal?: AbortSignal,
  ): Promise<FetchedByHandle> {
    signal?.throwIfAborted();
    const shown: Shown = {
      print: await fingerprint(candidates),
      ask: () => this.#ask(view, candidates, check),
    };
    await (signal ? aborted(this.#settle(), signal) : this.#settle());
    const done = await this.#turn(shown, signal);
    const asking = this.#show(shown).finally(done);
    asking.catch(() => {}); // heard of by the caller, unless the signal was first
    return signal ? aborted(asking, signal) : asking;
  }

  /** A search that would have fetched could not be decrypted, and the store sees that nothing is asked for: that is an answer, too. */
  async undecryptable(): Promise<void> {
    await this.#writeDown({ print: hex(crypto.getRandomValues(new Uint8Array(16))) });
  }

  /** A person has looked at it: fetching goes on. */
  async resume(): Promise<void> {
    this.#failed.clear();
    await this.#remember((seen) => ({ ...seen, unverified: [], stopped: false }));
  }

  /** Waits a little for what is under way, and writes down what is left. */
  async close(): Promise<void> {
    if (this.#asked.size === 0) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS);
    });
    await Promise.race([Promise.all(this.#asked.values()), late]);
    clearTimeout(timer);
    for (const shown of this.#asked.keys()) await this.#writeDown(shown).catch(() => {});
  }

  /** Resolves when this set may be shown, with what to call when it is done. At most so many are under way at a time as may stay unverified. */
  async #turn(shown: Shown, signal?: AbortSignal): Promise<() => void> {
    for (;;) {
      const seen = await this.#changer.memory.read(this.#changer.place);
      if (seen?.stopped) throw this.#refusal('what it decrypted for a record was not the score of that record');
      const asked = [...this.#asked.keys()].map(({ print }) => print);
      const open = new Set([...(seen?.unverified ?? []), ...this.#failed.keys(), ...asked]);
      // What was shown before is not shown by showing it again.
      open.delete(shown.print);
      if (open.size < MOST_UNVERIFIED) break;
      if (this.#asked.size === 0)
        throw this.#refusal(`${open.size} sets of candidates were shown to the store, and it never gave the records`);
      const next = Promise.race(this.#asked.values());
      await (signal ? aborted(next, signal) : next);
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#asked.set(shown, promise);
    return () => {
      this.#asked.delete(shown);
      resolve();
    };
  }

  #refusal(why: string): HersError {
    const { name } = this.#changer;
    return new HersError(
      'INTEGRITY',
      `nothing is fetched from collection ${JSON.stringify(name)} because of a score: ${why}. Find out why; then collection.resume(), or hers collections resume ${name}, goes on`,
    );
  }

  async #show(shown: Shown): Promise<FetchedByHandle> {
    let writing: Promise<void> | undefined;
    const timer = setTimeout(() => {
      writing = this.#writeDown(shown).catch(() => {}); // tried again when the set fails
    }, WRITE_DOWN_MS);
    (timer as { unref?: () => void }).unref?.();
    try {
      const fetched = await shown.ask();
      clearTimeout(timer);
      await writing;
      await this.#verified(shown);
      return fetched;
    } catch (error) {
      clearTimeout(timer);
      if (error instanceof WrongScore) await this.#stop();
      else {
        this.#failed.set(shown.print, shown);
        await this.#writeDown(shown);
      }
      throw error;
    }
  }

  async #verified({ print }: Shown): Promise<void> {
    this.#failed.delete(print);
    const seen = await this.#changer.memory.read(this.#changer.place);
    if (!seen?.unverified?.includes(print)) return;
    await this.#remember((now) => ({ ...now, unverified: (now.unverified ?? []).filter((other) => other !== print) }));
  }

  #writeDown({ print }: Pick<Shown, 'print'>): Promise<void> {
    return this.#remember((seen) => {
      const { unverified = [] } = seen;
      const isKnown = unverified.includes(print) || unverified.length > 2 * MOST_UNVERIFIED;
      return isKnown ? seen : { ...seen, unverified: [...unverified, print] };
    });
  }

  #stop(): Promise<void> {
    return this.#remember((seen) => ({ ...seen, stopped: true }));
  }

  async #remember(change: (seen: Seen) => Seen): Promise<void> {
    const { memory, place } = this.#changer;
    await memory.update(place, (seen) => seen && change(seen));
  }

  /** Asks again for sets of this process that were not verified: when it was the network, they are now. */
  #settle(): Promise<void> {
    this.#settling ??= (async () => {
      for (const shown of [...this.#failed.values()]) {
        try {
          await shown.ask();
        } catch (error) {
          if (!(error instanceof WrongScore)) continue;
          this.#failed.delete(shown.print);
          await this.#stop();
          throw error;
        }
        await this.#verified(shown);
      }
    })().finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  /**
   * Asks for these records and checks each as it comes. A record that is not there as it was, or not at all, is believed to have been changed when a newer manifest says so; then what
   * the manifest says is what counts. Nothing else is asked for.
   */
  async #ask(view: View, candidates: readonly Wanted[], check: ScoreCheck): Promise<FetchedByHandle> {
    const { service, name, keyring } = this.#changer;
    let latest = view;
    let wanted = candidates;
    for (let attempt = 1; ; attempt++) {
      const fetched = new Map<string, Fetched>();
      try {
        const handles = wanted.map(({ handle }) => handle);
        for await (const record of readRecords(service, name, keyring, handles, { newest: latest.manifest.epoch })) {
          const candidate = wanted[fetched.size];
          const isReplaced = record.version !== candidate.version;
          if (!isReplaced) await check.one(candidate, record);
          else if (latest === view || record.version !== latest.versionOf(candidate.id, candidate.handle))
            throw new OutOfStep('the store gave an older copy of a record than its list names');
          fetched.set(candidate.handle, { record, isReplaced });
        }
        check.together();
        return fetched;
      } catch (error) {
        if (!mayBeOvertaken(error)) throw error;
        if (attempt === ATTEMPTS) throw (error as HersError).code === 'STALE' ? contradiction() : notGiven();
        await pauseAfter(attempt);
        latest = await this.#changer.refresh();
        wanted = candidates.filter(({ id }) => latest.locate(id) !== undefined);
      }
    }
  }
}

function notGiven(): HersError {
  return new HersError('INTEGRITY', 'the store does not give a record as the manifest names it');
}

/** The same for the same handles, and for no others. */
async function fingerprint(candidates: readonly Wanted[]): Promise<string> {
  const handles = candidates.map(({ handle }) => handle).sort();
  return hex(await sha256(new TextEncoder().encode(handles.join(' ')))).slice(0, 32);
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
