// A search of all shards: one live replica of each, all shards of a node in one scan, answers
// passed on as they come. If a replica fails, falls silent or lags, others are asked for its
// shards, and what had been answered already is left out. If one is much slower than its peers,
// another is asked as well, and the first to have answered for all counts.

import { peekAnyResponse } from '@hers/scheme';
import { eitherSignal, groupsOf, HersError, type SearchedShard, type ShardCoverage } from '@hers/service';
import { isCode } from './arguments.ts';
import { isGone, isPassing, missingEverywhere } from './quorum.ts';
import type { ShardService } from './shard.ts';

export interface PlacedShard extends SearchedShard {
  /** Nodes that keep it, in the order in which they are asked. */
  readonly replicas: readonly string[];
}

/** How long a node may be silent while another replica could be asked; twice as long each time. */
const SILENCE_MS = 5_000;
/**
 * A node that is silent for so long, and several times as long as its peers took for all they were
 * asked, is much slower than they are: another replica is asked as well. Where nothing is known of
 * peers, for the longer time (docs/tuning.md).
 */
const HEDGE_MS = 200;
const HEDGE_TIMES = 3;
const HEDGE_ALONE_MS = 1_500;
/** Answers that wait for the client, in bytes, before nodes wait as well. */
const WAITING_BYTES = 2 ** 23;

interface Pending {
  readonly shard: PlacedShard;
  /** Nodes that were asked in vain. */
  readonly failed: Set<string>;
  readonly errors: unknown[];
}

export interface SearchShardsOptions {
  readonly signal: AbortSignal;
  readonly views?: boolean | undefined;
  readonly onSuspect: (node: string) => void;
  /** Leaves out shards of which no replica answers, instead of failing. */
  readonly partial?: boolean | undefined;
  /** Called at the end with what became of the shards. */
  readonly onCoverage?: ((coverage: ShardCoverage) => void) | undefined;
}

/** Responses of all shards, each once, those that came together in one piece. */
export async function* searchShards(
  shards: readonly PlacedShard[],
  queries: readonly Uint8Array[],
  peer: (node: string) => ShardService,
  options: SearchShardsOptions,
): AsyncGenerator<readonly Uint8Array[]> {
  const { views = false, partial = false } = options;
  const { signal: ending, stop, done } = eitherSignal(options.signal);
  const queue = new AnswerQueue();
  const seen = new Set<string>();
  const missing: unknown[] = [];
  const took: number[] = [];
  const running = new Set<Promise<void>>();

  // Another replica may pack other blocks together: what is new in a response counts.
  const isNew = (response: Uint8Array) => {
    const { queryId, blocks } = peeked(response);
    const before = seen.size;
    const query = latin1(queryId);
    for (const { blockId } of blocks) seen.add(query + latin1(blockId));
    return seen.size > before;
  };

  const ask = async (
    node: string,
    group: readonly Pending[],
    silenceMs: number,
    signal: AbortSignal,
  ): Promise<void> => {
    const asking = eitherSignal(signal);
    const mayReplace = group.every(({ shard, failed }) =>
      shard.replicas.some((each) => each !== node && !failed.has(each)),
    );
    const began = performance.now();
    const timers: NodeJS.Timeout[] = [];
    let hedge: { readonly answers: Promise<boolean>; stop(reason: unknown): void } | undefined;
    const rest = () => {
      for (const timer of timers.splice(0)) clearTimeout(timer);
    };
    const heard = () => {
      rest();
      const silent = () => asking.stop(new HersError('TIMED_OUT', `node ${node} is silent`));
      if (mayReplace || partial) timers.push(setTimeout(silent, silenceMs));
      if (!mayReplace || hedge) return;
      const typical = took.length > 0 ? Math.max(HEDGE_MS, HEDGE_TIMES * Math.max(...took)) : HEDGE_ALONE_MS;
      if (typical < silenceMs) timers.push(setTimeout(askOthers, typical));
    };
    /** The same of other replicas. Whoever has answered for all first is the one that counts. */
    const askOthers = () => {
      const { signal: hedging, stop: end, done: release } = eitherSignal(signal);
      const same = group.map(({ shard, failed }) => ({
        shard,
        failed: new Set([...failed, node]),
        errors: [],
      }));
      const answers = askAll(same, silenceMs, hedging, true)
        .then(
          () => true,
          () => false,
        )
        .finally(release);
      hedge = { answers, stop: end };
      void answers.then((answered) => answered && asking.stop(new HersError('UNAVAILABLE', `node ${node} is slow`)));
    };
    try {
      heard();
      const asked = group.map(({ shard: { replicas: _, ...rest } }) => rest);
      const answers = peer(node).searchShards(asked, queries, { signal: asking.signal, views });
      for await (const group of groupsOf(answers)) {
        // A node that goes on though nobody listens is not listened to.
        asking.signal.throwIfAborted();
        // While the client is slow, the node is not to blame.
        rest();
        await queue.put(group.filter(isNew));
        heard();
      }
      took.push(performance.now() - began);
    } catch (error) {
      rest();
      signal.throwIfAborted();
      if (await hedge?.answers) return;
      signal.throwIfAborted();
      // What a replica says of the question holds for all of them, except that it lags.
      const lags = isCode(error, 'STALE', 'NOT_FOUND');
      if (!lags && !isPassing(error)) throw error;
      if (isGone(error)) options.onSuspect(node);
      // One of several shards may lag: then each is asked for alone, of the same node too.
      if (lags && group.length > 1) {
        await Promise.all(group.map((each) => ask(node, [each], silenceMs, signal)));
        return;
      }
      for (const pending of group) {
        pending.failed.add(node);
        pending.errors.push(error);
      }
      await askAll(group, 2 * silenceMs, signal, false);
    } finally {
      rest();
      hedge?.stop(new HersError('CLOSED', 'another replica has answered'));
      await hedge?.answers;
      asking.done();
    }
  };

  /** Each shard of its next replica. */
  const askAll = async (
    pending: readonly Pending[],
    silenceMs: number,
    signal: AbortSignal,
    isHedge: boolean,
  ): Promise<void> => {
    const groups = new Map<string, Pending[]>();
    for (const each of pending) {
      const left = each.shard.replicas.filter((node) => !each.failed.has(node));
      if (left.length === 0) {
        if (isHedge) throw new HersError('UNAVAILABLE', 'no other replica is left');
        missing.push(each.errors.at(-1));
        if (!partial) throw unanswered(missing.length, shards.length, each);
        continue;
      }
      // At first every node gets its share. What a node that failed leaves goes to few others.
      const isFirst = each.failed.size === 0;
      const node = (isFirst ? undefined : left.find((candidate) => groups.has(candidate))) ?? left[0];
      groups.set(node, [...(groups.get(node) ?? []), each]);
    }
    // Shards that lag in a group of several are asked for one by one.
    const asked = [...groups].flatMap(([node, group]) => {
      const apart = !isHedge && group.some(({ failed }) => failed.size > 0);
      return (apart ? group.map((each) => [each]) : [group]).map((some) => ({ node, some }));
    });
    const asks = asked.map(({ node, some }) => ask(node, some, silenceMs, signal));
    for (const each of asks) {
      running.add(each);
      const ended = () => running.delete(each);
      each.then(ended, ended);
    }
    await Promise.all(asks);
  };

  const all = shards.map((shard) => ({ shard, failed: new Set<string>(), errors: [] }));
  const asking = askAll(all, SILENCE_MS, ending, false).then(
    () => queue.end(),
    (error) => queue.end(error),
  );
  const onAbort = () => queue.end(options.signal.reason);
  options.signal.addEventListener('abort', onAbort, { once: true });
  try {
    options.signal.throwIfAborted();
    yield* queue.take();
    const timedOut = missing.filter((error) => isCode(error, 'TIMED_OUT')).length;
    const failed = missing.length - timedOut;
    options.onCoverage?.({ answered: shards.length - missing.length, failed, timedOut });
  } finally {
    options.signal.removeEventListener('abort', onAbort);
    stop(new HersError('CLOSED', 'nobody waits for this search any more'));
    queue.end();
    await Promise.allSettled([asking, ...running]);
    done();
  }
}

function unanswered(missing: number, shards: number, { shard, errors }: Pending): unknown {
  const said = (code: string) => errors.filter((error) => isCode(error, code));
  // That a replica lags, or is damaged, says nothing of the others.
  const [stale] = said('STALE');
  if (stale) return stale;
  const [damaged] = said('DAMAGED').length === shard.replicas.length ? said('DAMAGED') : [];
  return (
    missingEverywhere(errors, shard.replicas.length) ??
    damaged ?? // a query, perhaps
    new HersError(
      'UNAVAILABLE',
      `no replica answers for ${missing} or more of ${shards} shards (${(errors.at(-1) as Error)?.message}); try again`,
    )
  );
}

const latin1 = ({ buffer, byteOffset, length }: Uint8Array) =>
  Buffer.from(buffer, byteOffset, length).toString('latin1');

/** Answers of many nodes on their way to one client. */
class AnswerQueue {
  #items: Uint8Array[] = [];
  #bytes = 0;
  #ended: { readonly error?: unknown } | undefined;
  #wake: () => void = () => {};
  readonly #room: (() => void)[] = [];

  async put(items: readonly Uint8Array[]): Promise<void> {
    if (this.#ended) return;
    this.#items.push(...items);
    for (const { length } of items) this.#bytes += length;
    this.#wake();
    if (this.#bytes > WAITING_BYTES && !this.#ended) await new Promise<void>((resolve) => this.#room.push(resolve));
  }

  end(error?: unknown): void {
    this.#ended ??= error === undefined ? {} : { error };
    this.#wake();
    for (const go of this.#room.splice(0)) go();
  }

  /** All that is there, again and again. */
  async *take(): AsyncGenerator<readonly Uint8Array[]> {
    for (;;) {
      if (this.#ended && 'error' in this.#ended) throw this.#ended.error;
      const items = this.#items;
      this.#items = [];
      if (items.length > 0) yield items;
      // What the client has not taken yet is held here.
      for (const { length } of items) this.#bytes -= length;
      for (const go of this.#room.splice(0)) go();
      if (this.#items.length > 0) continue;
      if (this.#ended) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/** Whose response it is; DAMAGED where that cannot be read. */
function peeked(response: Uint8Array): ReturnType<typeof peekAnyResponse> {
  try {
    return peekAnyResponse(response);
  } catch {
    throw new HersError('DAMAGED', 'a node gives answers that cannot be read');
  }
}
