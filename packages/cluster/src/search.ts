// A search of all shards: one live replica of each, all shards of a node in one scan, answers
// passed on as they come. If a replica fails, falls silent or lags, others are asked for its
// shards, and what had been answered already is left out.

import { eitherSignal, HersError, peekResponse } from '@hers/service';
import { isGone, isPassing } from './quorum.ts';
import type { ShardSearch, ShardService } from './shard.ts';

export interface SearchedShard extends ShardSearch {
  /** Nodes that keep it, in the order in which they are asked. */
  readonly replicas: readonly string[];
}

/** How long a node may be silent while another replica could be asked; twice as long each time. */
const SILENCE_MS = 5_000;
/** Answers that wait for the client, in bytes, before nodes wait as well. */
const WAITING_BYTES = 2 ** 23;

interface Pending {
  readonly shard: SearchedShard;
  /** Nodes that were asked in vain. */
  readonly failed: Set<string>;
  error?: unknown;
}

/**
 * Responses of all shards. `partial`: shards of which no replica answers are left out, and counted
 * by `onMissing`; otherwise they are an error.
 */
export async function* searchShards(
  shards: readonly SearchedShard[],
  queries: readonly Uint8Array[],
  peer: (node: string) => ShardService,
  options: {
    readonly signal: AbortSignal;
    readonly views?: boolean | undefined;
    /** Called with nodes that fail or are silent. */
    readonly onSuspect: (node: string) => void;
    readonly onMissing?: ((shards: number) => void) | undefined;
  },
): AsyncGenerator<Uint8Array> {
  const { views = false } = options;
  const { signal: ending, stop, done } = eitherSignal(options.signal);
  const queue = new AnswerQueue();
  const seen = new Set<string>();
  let missing = 0;
  let lastError: unknown;

  const ask = async (node: string, group: readonly Pending[], silenceMs: number): Promise<void> => {
    const asking = eitherSignal(ending);
    const mayReplace = group.every(({ shard, failed }) =>
      shard.replicas.some((each) => each !== node && !failed.has(each)),
    );
    let timer: NodeJS.Timeout | undefined;
    const silent = () => asking.stop(new HersError('UNAVAILABLE', `node ${node} is silent`));
    const heard = () => {
      clearTimeout(timer);
      if (mayReplace) timer = setTimeout(silent, silenceMs);
    };
    try {
      heard();
      const asked = group.map(({ shard: { replicas: _, ...rest } }) => rest);
      for await (const response of peer(node).searchShards(asked, queries, { signal: asking.signal, views })) {
        // While the client is slow, the node is not to blame.
        clearTimeout(timer);
        const { queryId, blockId } = peekResponse(response);
        const key = Buffer.concat([queryId, blockId]).toString('latin1');
        if (!seen.has(key)) {
          seen.add(key);
          await queue.put(response);
        }
        heard();
      }
    } catch (error) {
      ending.throwIfAborted();
      // What a replica says of the question holds for all of them, except that it lags.
      const lags = error instanceof HersError && ['STALE', 'NOT_FOUND'].includes(error.code);
      if (!lags && !isPassing(error)) throw error;
      if (isGone(error)) options.onSuspect(node);
      // One of several shards may lag: then each is asked for alone, of the same node too.
      if (lags && group.length > 1) {
        await Promise.all(group.map((each) => ask(node, [each], silenceMs)));
        return;
      }
      for (const pending of group) {
        pending.failed.add(node);
        pending.error = error;
      }
      await askAll(group, 2 * silenceMs);
    } finally {
      clearTimeout(timer);
      asking.done();
    }
  };

  /** Each shard of its next replica, as few nodes as possible. */
  const askAll = async (pending: readonly Pending[], silenceMs: number): Promise<void> => {
    const groups = new Map<string, Pending[]>();
    for (const each of pending) {
      const left = each.shard.replicas.filter((node) => !each.failed.has(node));
      if (left.length === 0) {
        missing++;
        lastError = each.error;
        if (!options.onMissing) break;
        continue;
      }
      const node = left.find((candidate) => groups.has(candidate)) ?? left[0];
      groups.set(node, [...(groups.get(node) ?? []), each]);
    }
    if (missing > 0 && !options.onMissing) throw unanswered(missing, shards.length, lastError);
    // Shards that lag in a group of several are asked for one by one.
    const asked = [...groups].flatMap(([node, group]) => {
      const apart = group.some(({ failed }) => failed.size > 0);
      return (apart ? group.map((each) => [each]) : [group]).map((some) => ({ node, some }));
    });
    await Promise.all(asked.map(({ node, some }) => ask(node, some, silenceMs)));
  };

  const all = shards.map((shard) => ({ shard, failed: new Set<string>() }));
  const asking = askAll(all, SILENCE_MS).then(
    () => queue.end(),
    (error) => queue.end(error),
  );
  const onAbort = () => queue.end(options.signal.reason);
  options.signal.addEventListener('abort', onAbort, { once: true });
  try {
    options.signal.throwIfAborted();
    yield* queue.take();
    if (missing > 0) options.onMissing?.(missing);
  } finally {
    options.signal.removeEventListener('abort', onAbort);
    stop(new HersError('CLOSED', 'nobody waits for this search any more'));
    queue.end();
    await asking;
    done();
  }
}

function unanswered(missing: number, shards: number, error: unknown): unknown {
  // If every replica says that it is not there, too old, or damaged (a query, perhaps), it is.
  if (error instanceof HersError && ['STALE', 'NOT_FOUND', 'DAMAGED'].includes(error.code)) return error;
  return new HersError(
    'UNAVAILABLE',
    `no replica answers for ${missing} or more of ${shards} shards (${(error as Error)?.message}); try again`,
  );
}

/** Answers of many nodes on their way to one client. */
class AnswerQueue {
  #items: Uint8Array[] = [];
  #bytes = 0;
  #ended: { readonly error?: unknown } | undefined;
  #wake: () => void = () => {};
  readonly #room: (() => void)[] = [];

  async put(item: Uint8Array): Promise<void> {
    this.#items.push(item);
    this.#bytes += item.length;
    this.#wake();
    if (this.#bytes > WAITING_BYTES && !this.#ended) await new Promise<void>((resolve) => this.#room.push(resolve));
  }

  end(error?: unknown): void {
    this.#ended ??= error === undefined ? {} : { error };
    this.#wake();
    for (const go of this.#room.splice(0)) go();
  }

  async *take(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.#ended && 'error' in this.#ended) throw this.#ended.error;
      const items = this.#items;
      this.#items = [];
      for (const item of items) {
        this.#bytes -= item.length;
        yield item;
        if (this.#ended && 'error' in this.#ended) throw this.#ended.error;
      }
      for (const go of this.#room.splice(0)) go();
      if (this.#items.length > 0) continue;
      if (this.#ended) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}
