// What clients do, and how the results are judged.

import {
  type Collection,
  HersError,
  type Match,
  type SearchOptions,
  type SearchResult,
  type UpsertResult,
} from '@hers/client';
import { type Scores, type Sight, samePlain, wrongIn } from './answers.ts';
import type { Client } from './clients.ts';
import type { Dice } from './dice.ts';
import {
  COPY,
  type Content,
  DIMENSION,
  type HistoryNode,
  idOf,
  NAMES,
  PEOPLE,
  type Plain,
  plainOf,
  REVISIONS,
  SCRATCH,
  vectorOf,
} from './truth.ts';

/** Ids that are written most often. */
const FEW = 4;

export interface Task {
  readonly what: string;
  readonly name: string;
  /** What a commit of it does. */
  readonly effect?: (content: Content) => Content;
  readonly run: (client: Client) => Promise<unknown>;
  /** What is wrong with the result, if anything. */
  readonly check: (result: never, seen: Sight) => string | undefined | Promise<string | undefined>;
  /** Whether its answer depends on decrypted scores alone. */
  readonly isPlain?: boolean;
}

export interface Bench {
  readonly scores: Scores;
  readonly models: readonly Uint8Array[];
  /** Opens a collection, and records what the client knows since. */
  readonly open: (client: Client, name: string) => Promise<Collection>;
  readonly judge: (error: unknown) => void;
}

export class Tasks {
  readonly #bench: Bench;

  constructor(bench: Bench) {
    this.#bench = bench;
  }

  any(dice: Dice): Task {
    const name = dice.weighted([
      [4, NAMES[0]],
      [3, NAMES[1]],
      [3, NAMES[2]],
      [4, NAMES[3]],
    ]);
    // Half of the time one of a few: then clients write to records that others have changed without
    // their knowledge.
    const people = (most: number) =>
      dice.happens(0.5)
        ? [dice.below(FEW)]
        : [...new Set(Array.from({ length: 1 + dice.below(most) }, () => dice.below(PEOPLE)))];
    const on = (
      what: string,
      run: (collection: Collection) => Promise<unknown>,
      check: Task['check'],
      more: Partial<Task> = {},
    ): Task => ({ what, name, run: async (client) => run(await this.#bench.open(client, name)), check, ...more });
    const probe = this.#probe(dice);
    const searching = (what: string, options: SearchOptions) => this.#searching(what, name, probe, options);
    const limit = 1 + dice.below(12);
    const exact = name !== 'compact' && name !== 'strong';
    const tasks: [number, () => Task][] = [
      [
        16,
        () => {
          const records = people(6).map((person): [string, Plain] => [
            idOf(person),
            plainOf(person, dice.below(REVISIONS)),
          ]);
          return on(
            'upsert',
            (collection) => collection.upsert(records.map(([id, plain]) => ({ id, ...plain }))),
            ({ written, unchanged, repeated }: UpsertResult, sight) => {
              if (written + unchanged + repeated !== records.length) return 'an upsert that forgets records';
              return this.#acknowledged(records, sight);
            },
            { effect: (content) => content.with(records) },
          );
        },
      ],
      [
        8,
        () => {
          const ids = people(4).map(idOf);
          const gone = ids.map((id): [string, undefined] => [id, undefined]);
          return on(
            'delete',
            (collection) => collection.delete(ids),
            (count: number, sight) =>
              count > ids.length ? 'more was deleted than asked for' : this.#acknowledged(gone, sight),
            { effect: (content) => content.with(gone) },
          );
        },
      ],
      [12, () => searching('search', { limit })],
      [3, () => searching('search threshold', { limit, threshold: dice.next() - 0.3 })],
      [10, () => searching('search payload', { limit, payload: true })],
      [8, () => searching('search rerank', { limit, rerank: dice.happens(0.5) ? true : limit + dice.below(20) })],
      [3, () => searching('search rerank payload', { limit, rerank: true, payload: true, threshold: -0.5 })],
      [exact ? 4 : 0, () => searching('search enough', { limit, rerank: 40, enough: dice.next() })],
      [
        4,
        () => {
          const probes = [probe, this.#probe(dice), this.#probe(dice)];
          const options: SearchOptions = { limit, ...(dice.happens(0.5) ? { payload: true } : {}) };
          return on(
            'searchBatch',
            (collection) => collection.searchBatch(probes, options),
            async (results: SearchResult[], sight) => {
              if (results.length !== probes.length) return 'another number of answers than of questions';
              for (const [i, result] of results.entries()) {
                const wrong = await wrongIn(this.#bench.scores, result, probes[i], options, sight);
                if (wrong) return wrong;
              }
              return undefined;
            },
            { isPlain: !options.payload },
          );
        },
      ],
      [
        4,
        () => {
          const probes = [probe, this.#probe(dice), this.#probe(dice), this.#probe(dice), this.#probe(dice)];
          const options: SearchOptions = { limit, payload: true };
          return on(
            'searches at once',
            async (collection) => {
              const all = await Promise.allSettled(probes.map((each) => collection.search(each, options)));
              const failed = all.filter((each) => each.status === 'rejected');
              for (const { reason } of failed) this.#bench.judge(reason);
              // The worst first.
              const told =
                failed.find(({ reason }) => String(reason?.message).includes('does not have the score')) ?? failed[0];
              if (told) throw told.reason;
              return all.map((each) => (each as PromiseFulfilledResult<SearchResult>).value);
            },
            async (results: SearchResult[], sight) => {
              for (const [i, result] of results.entries()) {
                const wrong = await wrongIn(this.#bench.scores, result, probes[i], options, sight);
                if (wrong) return wrong;
              }
              return undefined;
            },
          );
        },
      ],
      [
        2,
        () => {
          const afterMs = dice.below(30);
          const options: SearchOptions = { limit, payload: true };
          return on(
            'search that is given up',
            (collection) => {
              const ending = new AbortController();
              setTimeout(() => ending.abort(), afterMs);
              return collection.search(probe, { ...options, signal: ending.signal });
            },
            (result: SearchResult, sight) => wrongIn(this.#bench.scores, result, probe, options, sight),
          );
        },
      ],
      [6, () => this.#verifying(name, idOf(dice.below(PEOPLE)), probe, dice.happens(0.5))],
      [
        6,
        () => {
          const ids = people(8).map(idOf);
          return on(
            'get',
            (collection) => collection.get(ids),
            (records: (Plain & { id: string })[], { nodes }) => {
              const isRight = ({ content }: HistoryNode) => {
                const wanted = ids.filter((id) => content.get(id));
                return (
                  wanted.length === records.length &&
                  records.every((record, i) => record.id === wanted[i] && samePlain(record, content.get(record.id)))
                );
              };
              return nodes.some(isRight) ? undefined : 'records that were never so together';
            },
          );
        },
      ],
      [
        3,
        () =>
          on(
            'list',
            (collection) => Array.fromAsync(collection.list()),
            (ids: string[], { nodes }) => {
              const found = new Set(ids);
              const isRight = ({ content }: HistoryNode) => {
                const entries = content.entries();
                return entries.length === ids.length && entries.every(([id]) => found.has(id));
              };
              return nodes.some(isRight) ? undefined : 'ids that were never so together';
            },
          ),
      ],
      [
        3,
        () =>
          on(
            'count',
            (collection) => collection.count(),
            (count: number, { nodes }) =>
              nodes.some(({ content }) => content.entries().length === count) ? undefined : 'a count that never was',
          ),
      ],
      [
        5,
        () =>
          on(
            'optimize',
            (collection) => collection.optimize(),
            () => undefined,
          ),
      ],
      [
        3,
        () =>
          on(
            'rotateKey',
            (collection) => collection.rotateKey(),
            () => undefined,
          ),
      ],
      [
        name === 'short' ? 4 : 0,
        () => {
          const model = dice.of([...this.#bench.models, null]);
          return on(
            'reindex',
            (collection) => collection.reindex(model),
            () => undefined,
          );
        },
      ],
      [2, () => this.#describing(name)],
      [1, () => this.#listing()],
      [3, () => this.#scratch(dice)],
      [1, () => this.#copying(name)],
      [2, () => this.#searching('search', COPY, probe, { limit })],
    ];
    return dice.weighted(tasks)();
  }

  #searching(what: string, name: string, probe: Float32Array, options: SearchOptions): Task {
    return {
      what,
      name,
      run: async (client) => (await this.#bench.open(client, name)).search(probe, options),
      check: (result: SearchResult, sight) => wrongIn(this.#bench.scores, result, probe, options, sight),
      isPlain: !options.payload && !options.rerank,
    };
  }

  /** Anything that shows candidates. */
  fetching(dice: Dice, name: string): Task {
    const probe = this.#probe(dice);
    const limit = 1 + dice.below(10);
    if (dice.happens(0.2)) return this.#verifying(name, idOf(dice.below(PEOPLE)), probe, true);
    return dice.happens(0.5)
      ? this.#searching('search payload', name, probe, { limit, payload: true })
      : this.#searching('search rerank', name, probe, { limit, rerank: true });
  }

  #verifying(name: string, id: string, probe: Float32Array, rerank: boolean): Task {
    return {
      what: rerank ? 'verify rerank' : 'verify',
      name,
      run: async (client) => (await this.#bench.open(client, name)).verify(id, probe, { rerank }),
      check: (result: { score: number; scoreOrigin: Match['scoreOrigin'] }, sight) =>
        this.#verified({ id, ...result }, probe, rerank, sight),
      isPlain: !rerank,
    };
  }

  #probe(dice: Dice): Float32Array {
    const near = vectorOf(dice.below(PEOPLE * REVISIONS));
    const away = vectorOf(1_000_000 + dice.below(1000));
    const distance = dice.next();
    const probe = near.map((x, i) => x + distance * away[i]);
    const norm = Math.hypot(...probe);
    return probe.map((x) => x / norm);
  }

  /** Whether an acknowledged write can be read. */
  #acknowledged(
    changes: readonly (readonly [string, Plain | undefined])[],
    { nodes, after }: Sight,
  ): string | undefined {
    const isIn = ({ content }: HistoryNode) => changes.every(([id, plain]) => samePlain(content.get(id), plain));
    if (after && isIn(after)) return undefined;
    return nodes.some(isIn)
      ? 'a write found nothing to do in a view that others had overtaken'
      : 'a write was acknowledged that nobody was told of';
  }

  async #verified(
    match: Match,
    probe: Float32Array,
    rerank: boolean,
    { nodes, admitted }: Sight,
  ): Promise<string | undefined> {
    for (const { world, content } of nodes) {
      const record = content.get(match.id);
      const unnoticed = rerank ? 0 : admitted;
      if (record && (await this.#bench.scores.fits(world, match, record, probe, unnoticed))) return undefined;
    }
    return `a verification that is wrong: ${JSON.stringify(match)}`;
  }

  #describing(name: string): Task {
    return {
      what: 'describe',
      name,
      run: ({ database }) => database.describe(name),
      check: ({ records }: { records: number }, { nodes }) =>
        nodes.length === 0 || nodes.some(({ content }) => content.entries().length === records)
          ? undefined
          : 'a description with another number of records',
    };
  }

  #listing(): Task {
    return {
      what: 'listCollections',
      name: SCRATCH,
      run: ({ database }) => database.listCollections(),
      check: () => undefined,
    };
  }

  #scratch(dice: Dice): Task {
    const person = dice.below(PEOPLE);
    const record: [string, Plain] = [idOf(person), plainOf(person, dice.below(REVISIONS))];
    return dice.weighted<Task>([
      [
        2,
        {
          what: 'create',
          name: SCRATCH,
          run: ({ database, known }) => {
            known.delete(SCRATCH);
            return database.createCollection(SCRATCH, { dimension: DIMENSION });
          },
          check: () => undefined,
        },
      ],
      [
        1,
        {
          what: 'delete collection',
          name: SCRATCH,
          run: ({ database, known }) => {
            known.delete(SCRATCH);
            return database.deleteCollection(SCRATCH);
          },
          check: () => undefined,
        },
      ],
      [
        3,
        {
          what: 'upsert',
          name: SCRATCH,
          run: async (client) => (await this.#bench.open(client, SCRATCH)).upsert({ id: record[0], ...record[1] }),
          effect: (content) => content.with([record]),
          check: (_: never, sight) => this.#acknowledged([record], sight),
        },
      ],
    ]);
  }

  #copying(name: string): Task {
    return {
      what: 'restore',
      name: COPY,
      run: async (client) => {
        const pieces = await Array.fromAsync((await this.#bench.open(client, name)).snapshot());
        await client.database.deleteCollection(COPY).catch((error) => {
          if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
        });
        client.known.delete(COPY);
        return client.database.restore(COPY, pieces, { acceptOlder: true });
      },
      check: () => undefined,
    };
  }
}
