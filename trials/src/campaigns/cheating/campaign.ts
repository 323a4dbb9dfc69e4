// A store that cheats at random, in every way it can, while clients keep working. Nothing it does
// may cause a wrong match, a wrong payload or a lost write without an error, more candidate sets
// than it may see, an error that is not ours, or a call that never ends.
//
// The clients' truth is a tree of manifests. Every commit that is sent becomes a node, whether or
// not the store executes it. Its parent is the one that the manifest names (the campaign has the
// key), and its content follows from the parent's. A client must read the content of one node that
// follows from the last one it knew. So a swallowed commit, a fork and a rollback need no special
// cases: their nodes follow from nothing that was seen, and a client that reads them without an
// error fails the campaign.
//
// What SECURITY.md admits is admitted here, in these places and no other:
// - "Right single scores under `compact` from a server that cheats": `admitted`, where the store
//   changed one score (`ADMITTED` in liar.ts), in matches of searches that fetch nothing, and in
//   what `verify` says. A response that was computed from other rows, for another query, from an
//   older state, or moved, is noticed under `compact`, too. With `integrity: 'strong'` only what
//   checksum canaries need not notice is admitted, less than any score that the store changes.
// - "A server that only lowers scores, or moves a record at the edge of what is fetched by less
//   than its noise, is not [caught]: the record is just not asked for": under compact, what is
//   found at all. "Under `exact` all of that is noticed": there every answer is held to what it
//   would be if nothing had been altered, fetched or not; all blocks are of this program.
// - "A record that another client replaced or deleted within ten seconds of being shown is taken as
//   it is now": matches that were fetched may be of more nodes than one.
// - "a first contact trusts what it is shown": a client is held to what it has opened; accepting by
//   a person is a first contact.
// - "by one that has missed more than 128 versions": `HISTORY`.
// - "between clients of which neither ever sees what the other has written (each has its own
//   history, and both are right)": a client is held to its own memory.
// - "A server may also keep showing what a client has seen last, as if nobody had written since":
//   the last node that was known follows from itself.
// And two things besides. A snapshot restored beside its original has the same keys and versions of
// its own, and a client that restored it knows it under both names: a store could show the newer of
// the two for the other, for it follows from what was seen. And a write onto another history is
// counted, not refused: `grafts` in liar.ts says why.

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Collection,
  type CollectionOptions,
  HersError,
  InMemoryVersions,
  MasterSeed,
  type SearchOptions,
} from '@hers/client';
import { VersionFile } from '@hers/client/versions';
import { columns } from '@hers/paper/lab/report';
import type { Service } from '@hers/service';
import { openStore } from '@hers/store';
import { fit, load } from '@hers/training';
import { leastNoticed, Scores, type Sight, samePlain, wrongIn } from './answers.ts';
import { Client, Remembering, secretsOf } from './clients.ts';
import { Dice } from './dice.ts';
import { type Doing, Liar, type Route } from './liar.ts';
import { type Task, Tasks } from './tasks.ts';
import {
  Content,
  DIMENSION,
  follows,
  type HistoryNode,
  hashOf,
  idOf,
  NAMES,
  PEOPLE,
  type Plain,
  plainOf,
  vectorOf,
} from './truth.ts';

const KEPT = 8;
/** Some groups of checksum canaries, the last of them short. */
const STRONG_RECORDS = 300;
/** Hashes that a manifest names. */
const HISTORY = 128;
const HANG_MS = 60_000;
/** Calls between two checkpoints, at which the store is honest and everything is checked. */
const ROUND = 40;
const LAST_CALLS = 12;
/** Calls that accept what the store shows: a person confirms it. */
const TRUSTING = new Set(['accept', 'restore']);
/** Calls that read the manifest, and so must agree with everything their memory holds. */
const READING = new Set(['get', 'list', 'count', 'describe']);
/** Consecutive calls in which the store only probes what its own ciphertexts decrypt to. */
const SIEGE = 10;

export interface CheatingOptions {
  /** How long, or how many calls. */
  readonly seconds?: number;
  readonly calls?: number;
  /** The same seed makes the same calls, and the store cheats at the same ones. */
  readonly seed: number;
  readonly log?: (line: string) => void;
  /** The honest store beneath the one that cheats; a folder by default. It is closed. */
  readonly store?: Service;
}

export async function cheating(options: CheatingOptions): Promise<boolean> {
  const { seconds, calls, seed, log = console.log } = options;
  const folder = await mkdtemp(join(tmpdir(), 'hers-cheating-'));
  const store = options.store ?? (await openStore(join(folder, 'gallery')));
  const unheard: unknown[] = [];
  const hear = (error: unknown) => unheard.push(error);
  process.on('unhandledRejection', hear);
  try {
    const campaign = await Campaign.begin(store, folder, seed);
    const until = performance.now() + 1000 * (seconds ?? 0);
    const goesOn = () => (calls === undefined ? performance.now() < until : campaign.calls < calls);
    while (goesOn() && campaign.violations.length === 0) {
      await campaign.round();
      for (const error of unheard.splice(0)) campaign.violations.push(`a rejection that nobody handled: ${error}`);
      if (process.stderr.isTTY)
        process.stderr.write(`\r${campaign.calls} calls, ${campaign.cheats} times cheated, seed ${seed}   `);
    }
    if (process.stderr.isTTY) process.stderr.write('\n');
    campaign.report(log);
    await campaign.close();
    return campaign.violations.length === 0;
  } finally {
    process.off('unhandledRejection', hear);
    await store.close();
    await rm(folder, { recursive: true, force: true });
  }
}

class Campaign {
  readonly #seed: number;
  readonly #key: MasterSeed;
  readonly #liar: Liar;
  readonly #models: readonly Uint8Array[];
  readonly #scores: Scores;
  readonly #tasks: Tasks;
  readonly #shared = new Remembering('memory', new InMemoryVersions());
  readonly #filed: Remembering;
  readonly #backups = new Map<string, Uint8Array[]>();
  readonly #last: string[] = [];
  readonly #ended = new Map<string, number>();
  #faithful: Client;
  #others: Client[] = [];
  #secrets: Buffer[] = [];
  calls = 0;
  cheats = 0;
  looked = 0;
  accepted = 0;
  resumed = 0;
  healed = 0;

  private constructor(
    seed: number,
    folder: string,
    key: MasterSeed,
    liar: Liar,
    models: readonly Uint8Array[],
    scores: Scores,
  ) {
    this.#seed = seed;
    this.#key = key;
    this.#liar = liar;
    this.#models = models;
    this.#scores = scores;
    this.#tasks = new Tasks({
      scores,
      models,
      open: (client, name) => this.#open(client, name),
      judge: (error) => this.#judge(error, liar.doing!.thrown),
    });
    this.#filed = new Remembering('file', new VersionFile(join(folder, 'versions')));
    this.#faithful = new Client('long-lived', this.#shared, liar, key);
  }

  get violations(): string[] {
    return this.#liar.violations;
  }

  static async begin(store: Service, folder: string, seed: number): Promise<Campaign> {
    const key = MasterSeed.generate();
    const liar = new Liar(store, key);
    const training = Float32Array.from(Array.from({ length: 200 }, (_, i) => [...vectorOf(-1 - i)]).flat());
    const fitted = [KEPT, KEPT - 2].map((dimension) =>
      fit('pca', training.slice(), undefined, { inputDimension: DIMENSION, dimension }),
    );
    const models = (await Promise.all(fitted)).map((model) => model.save());
    const scores = new Scores(await Promise.all(models.map((model) => load(model))));
    const campaign = new Campaign(seed, folder, key, liar, models, scores);
    await campaign.#setUp();
    return campaign;
  }

  async #setUp(): Promise<void> {
    const { database } = this.#faithful;
    const options: Record<(typeof NAMES)[number], CollectionOptions> = {
      compact: { dimension: DIMENSION },
      exact: { dimension: DIMENSION, profile: 'exact', metric: this.#seed % 2 === 0 ? 'cosine' : 'euclidean' },
      short: { dimension: DIMENSION, profile: 'exact', compressor: this.#models[0] },
      strong: { dimension: DIMENSION, integrity: 'strong' },
    };
    for (const name of NAMES) {
      this.#liar.main.set(name, name);
      this.#liar.doing = this.#honestly();
      const collection = await database.createCollection(name, options[name]);
      // More than one block where that is cheap.
      const { n } = collection.plan.parameters;
      const count = name === 'compact' ? n + 30 : name === 'strong' ? STRONG_RECORDS : 30;
      const people = Array.from({ length: count }, (_, i): [string, Plain] => [idOf(i), plainOf(i, 0)]);
      this.#liar.doing = this.#honestly(() => new Content(new Map(people)));
      await collection.upsert(people.map(([id, plain]) => ({ id, ...plain })));
      this.#liar.doing = this.#honestly();
      if (name !== 'compact') await collection.optimize();
    }
    const ids = [...new Set([...this.#liar.nodes.values()].map(({ id }) => id))];
    this.#secrets = secretsOf(this.#key, ids, [0, 1, 5, 77].map(vectorOf));
  }

  #honestly(effect?: (content: Content) => Content): Doing {
    return this.#doing(new Dice(0), { probability: 0, effect });
  }

  #doing(dice: Dice, some: Partial<Doing>): Doing {
    return {
      number: this.calls,
      dice,
      probability: 0,
      at: undefined,
      effect: undefined,
      routes: new Map(),
      cheats: [],
      thrown: new Set(),
      isTampered: false,
      calls: 0,
      sent: undefined,
      isSiege: false,
      ...some,
    };
  }

  /** Calls to a cheating store, then to an honest one. */
  async round(): Promise<void> {
    for (let i = 0; i < ROUND && this.violations.length === 0; i++) await this.#step();
    if (this.violations.length === 0) await this.#settle();
  }

  async #client(dice: Dice): Promise<Client> {
    for (const gone of this.#others.filter(({ left }) => left <= 0)) await gone.database.close();
    this.#others = this.#others.filter(({ left }) => left > 0);
    if (dice.happens(0.35)) return this.#faithful;
    if (this.#others.length > 0 && dice.happens(0.7)) return dice.of(this.#others);
    const [name, remembering, left] = dice.weighted<[string, Remembering, number]>([
      [5, ['fresh', this.#shared, 1 + dice.below(8)]],
      [2, ['of a file', this.#filed, 1 + dice.below(5)]],
      [1, ['of nothing', new Remembering('none', new InMemoryVersions()), 1 + dice.below(5)]],
    ]);
    const client = new Client(name, remembering, this.#liar, this.#key, left);
    this.#others.push(client);
    return client;
  }

  async #step(): Promise<void> {
    const number = this.calls;
    const dice = new Dice(this.#seed, number, 1);
    const client = await this.#client(dice);
    client.left--;
    if (this.#besieged.left-- <= 0 && dice.happens(0.01)) this.#besieged = { name: dice.of(NAMES), left: SIEGE };
    const siege = this.#besieged.left > 0 ? this.#besieged.name : undefined;
    const task = siege ? this.#tasks.fetching(dice, siege) : this.#tasks.any(dice);
    const storeDice = new Dice(this.#seed, number, 2);
    if (siege) {
      await this.#perform(client, task, this.#doing(storeDice, { isSiege: true }));
      return;
    }
    const mood = storeDice.weighted<Partial<Doing>>([
      [3, {}],
      [4, { at: storeDice.below(6) }],
      [3, { probability: 0.3 }],
      [1, { probability: 1 }],
    ]);
    const routes = await this.#routes(storeDice, task.name);
    await this.#perform(
      client,
      task,
      this.#doing(storeDice, { ...mood, routes, ...(task.effect ? { effect: task.effect } : {}) }),
    );
    await this.#afterwards(storeDice, task.name, routes);
  }

  /** Sometimes the store shows another side under a name. */
  async #routes(dice: Dice, name: string): Promise<Map<string, Route>> {
    const routes = new Map<string, Route>();
    const liar = this.#liar;
    if (!(NAMES as readonly string[]).includes(name) || !dice.happens(0.15)) return routes;
    const forks = (liar.forks.get(name) ?? []).filter((real) => real !== liar.main.get(name));
    const reads = ['getManifest', 'getRecords', 'getLists', 'getBlock', 'search', 'getCollection'];
    const others = NAMES.filter((other) => other !== name).map((other) => liar.main.get(other)!);
    const [kind, route] = await dice.weighted<() => Promise<[string, Route]>>([
      [2, async () => ['a side of its own', { real: await liar.fork(name) }]],
      [2, async () => ['a side that is spoiled', { real: await liar.fork(name), spoils: true }]],
      [forks.length, async () => ['an older side', { real: dice.of(forks) }]],
      [
        forks.length,
        async () => ['an older side in part', { real: dice.of(forks), methods: new Set([dice.of(reads)]) }],
      ],
      [1, async () => ['another collection', { real: dice.of(others) }]],
      [1, async () => ['another collection in part', { real: dice.of(others), methods: new Set([dice.of(reads)]) }]],
    ])();
    if (route.spoils) liar.spoiled.add(route.real);
    routes.set(name, route);
    this.#routeKind = kind;
    return routes;
  }

  #routeKind = '';
  #besieged: { name: string; left: number } = { name: '', left: 0 };

  /** A side that clients have written to may become the real one. */
  async #afterwards(dice: Dice, name: string, routes: ReadonlyMap<string, Route>): Promise<void> {
    const liar = this.#liar;
    const real = routes.get(name)?.real;
    const isFork = real !== undefined && liar.forks.get(name)?.includes(real);
    if (isFork && !liar.spoiled.has(real) && dice.happens(0.3)) {
      const before = liar.main.get(name)!;
      liar.main.set(name, real);
      liar.forks.set(name, [...liar.forks.get(name)!.filter((each) => each !== real), before]);
    }
    await liar.forget(name, 2);
  }

  async #nodeOf({ remembering }: Client, name: string): Promise<HistoryNode | undefined> {
    const seen = await remembering.memory.read({ gallery: '', name });
    if (!seen || seen.deleted || seen.hash === undefined) return undefined;
    const node = this.#liar.nodes.get(seen.hash);
    if (!node) this.violations.push(`a memory holds a manifest of ${name} that nobody wrote`);
    return node;
  }

  async #perform(client: Client, task: Task, doing: Doing): Promise<void> {
    const liar = this.#liar;
    const { name } = task;
    this.calls++;
    const sent: Uint8Array[] | undefined = doing.number % 7 === 0 ? [] : undefined;
    liar.doing = { ...doing, sent };
    const now = liar.doing;
    const before = await this.#nodeOf(client, name);
    const idBefore = (await client.remembering.memory.read({ gallery: '', name }))?.id;
    if (doing.routes.size > 0) now.cheats.push(`all: ${this.#routeKind}`);
    const nodesBefore = liar.nodes.size;
    const began = performance.now();
    const outcome = await within(task.run(client));
    const took = Math.round(performance.now() - began);
    const { cheats, thrown } = now;
    this.cheats += cheats.length;
    const after = await this.#nodeOf(client, name);
    const seenAfter = await client.remembering.memory.read({ gallery: '', name });
    if (seenAfter?.id !== idBefore) client.remembering.candidates(name).resume();
    const error = 'error' in outcome ? outcome.error : undefined;
    const how = 'error' in outcome ? (error instanceof HersError ? error.code : `${(error as Error)?.name}`) : 'ok';
    this.#last.push(
      `${now.number} ${client.name}: ${task.what} of ${name}, ${how} in ${took} ms${cheats.length > 0 ? `; the store: ${cheats.join(', ')}` : ''}${'error' in outcome ? `; ${(error as Error)?.message}` : ''}`,
    );
    if (this.#last.length > LAST_CALLS) this.#last.shift();
    this.#ended.set(`${task.what} ${how}`, (this.#ended.get(`${task.what} ${how}`) ?? 0) + 1);
    const admitted = now.isTampered && after ? leastNoticed(after.world.plan) : 0;
    const ended = 'error' in outcome ? how : admitted > 0 && task.isPlain ? 'admitted' : 'harmless';
    for (const kind of cheats) {
      const row = liar.tally.get(kind) ?? new Map<string, number>();
      row.set(ended, (row.get(ended) ?? 0) + 1);
      liar.tally.set(kind, row);
    }
    if (sent) this.#search(sent);
    if (
      before &&
      after &&
      !follows(after, before) &&
      after.version - before.version <= HISTORY &&
      !TRUSTING.has(task.what)
    )
      if (after.id === before.id)
        this.violations.push(
          `the memory of ${name} went from version ${before.version} to ${after.version}, which does not follow`,
        );
      else if (task.what !== 'create' && task.what !== 'delete collection')
        this.violations.push(`the memory of ${name} went over to another collection`);
    if ('error' in outcome) {
      this.#judge(error, thrown);
      if (error instanceof HersError) await this.#person(client, name, error, now.dice);
      return;
    }
    if (outcome.value === HUNG) {
      this.violations.push(`a call did not end within ${HANG_MS / 1000} seconds`);
      return;
    }
    const known = client.known.get(name);
    const isReading = READING.has(task.what);
    const from = (isReading && before ? [before] : [known, before]).filter((node) => node !== undefined);
    const nodes = this.#following(from, after);
    const sight: Sight = { nodes, after, admitted };
    const wrong = await task.check(outcome.value as never, sight);
    if (wrong) this.violations.push(wrong);
    const isScanning = task.what.startsWith('search') || task.what.startsWith('verify');
    if (wrong === undefined && isScanning && before && known && before !== known && follows(before, known)) {
      // Only the older of the two explains it.
      const again = await task.check(outcome.value as never, { ...sight, nodes: this.#following([before], after) });
      if (again) this.violations.push(`an answer from a view that the memory was beyond: ${again}`);
    }
    if ((isReading || liar.nodes.size > nodesBefore) && after) client.known.set(name, after);
  }

  /** Nodes that follow from one of these, newest first. */
  #following(from: readonly HistoryNode[], after: HistoryNode | undefined): HistoryNode[] {
    const lowest = Math.min(...from.map(({ version }) => version));
    const all = [...this.#liar.nodes.values()].filter(
      (node) =>
        node.version >= lowest &&
        from.some((each) => node.id === each.id && (follows(node, each) || node.version > each.version + HISTORY)),
    );
    return [...new Set([...(after ? [after] : []), ...all.reverse()])];
  }

  /**
   * Errors are ours, or exactly those that the store threw: over a connection, a client would have
   * turned those into its own.
   */
  #judge(error: unknown, thrown: ReadonlySet<unknown>): void {
    const isOurs = error instanceof HersError || thrown.has(error);
    const isAbort = error instanceof Error && error.name === 'AbortError';
    if (!isOurs && !isAbort) this.violations.push(`an error that is none of ours: ${(error as Error)?.stack ?? error}`);
  }

  async #person(client: Client, name: string, error: HersError, dice: Dice): Promise<void> {
    const { remembering } = client;
    if (error.message.includes('does not have the score')) remembering.candidates(name).isStopped = true;
    if (error.message.includes('.resume()') && dice.happens(0.4)) {
      await this.#perform(
        client,
        { what: 'resume', name, run: (c) => this.#resume(c, name), check: () => undefined },
        this.#doing(dice, {}),
      );
    }
    const named = /database\.accept\("([^"]*)"\)/.exec(error.message)?.[1];
    if (named === name && dice.happens(0.3)) {
      this.accepted++;
      const some = dice.happens(0.5) ? {} : { probability: 0.2 };
      await this.#perform(
        client,
        { what: 'accept', name, run: (c) => c.database.accept(name), check: () => undefined },
        this.#doing(dice, some),
      );
      client.known.delete(name);
    }
  }

  async #resume(client: Client, name: string): Promise<void> {
    const collection = await this.#open(client, name);
    // Counted again before the first set that is shown from now on.
    client.remembering.candidates(name).resume();
    await collection.resume();
    this.resumed++;
  }

  async #open(client: Client, name: string): Promise<Collection> {
    const collection = await client.database.collection(name);
    if (!client.known.has(name)) {
      const node = await this.#nodeOf(client, name);
      if (node) client.known.set(name, node);
    }
    return collection;
  }

  #search(sent: readonly Uint8Array[]): void {
    this.looked++;
    const all = Buffer.concat(sent);
    for (const needle of this.#secrets)
      if (all.includes(needle)) this.violations.push(`a secret was sent: ${needle.toString('hex')}`);
  }

  /**
   * The store is honest: every client finds what is stored, and a client that was shown something
   * else reports that first.
   */
  async #settle(): Promise<void> {
    const liar = this.#liar;
    for (const client of this.#others.splice(0)) await client.database.close();
    liar.doing = this.#honestly();
    await this.#heal();
    const clients = [
      this.#faithful,
      new Client('fresh', this.#shared, liar, this.#key),
      new Client('of a file', this.#filed, liar, this.#key),
    ];
    for (const client of clients) for (const name of NAMES) await this.#found(client, name);
    for (const client of clients.slice(1)) await client.database.close();
    if (this.calls % (4 * ROUND) === 0) {
      await this.#faithful.database.close();
      this.#faithful = new Client('long-lived', this.#shared, liar, this.#key);
    }
    for (const name of NAMES) this.#backups.set(name, await Array.fromAsync(liar.store.snapshot(liar.main.get(name)!)));
  }

  /**
   * A write on top of another history leaves a manifest that names missing data. Such a side is
   * reset to its earlier state.
   */
  async #heal(): Promise<void> {
    const liar = this.#liar;
    for (const name of NAMES) {
      const real = liar.main.get(name)!;
      if (!liar.spoiled.has(real)) continue;
      this.healed++;
      const healed = `${name}.healed${this.calls}`;
      await liar.store.restore(healed, this.#backups.get(name)!);
      const { manifest } = await liar.store.getManifest(healed);
      liar.heads.set(healed, liar.nodes.get(hashOf(manifest))!);
      liar.main.set(name, healed);
      await liar.drop(name, real);
    }
  }

  async #found(client: Client, name: string): Promise<void> {
    const liar = this.#liar;
    const head = liar.heads.get(liar.main.get(name)!)!;
    const say = (what: string) =>
      this.violations.push(`${what}, by the client ${client.name} in ${name}, with an honest store`);
    const before = await this.#nodeOf(client, name);
    const isFitting = !before || (before.id === head.id && follows(head, before));
    const first = await within((async () => (await this.#open(client, name)).count())());
    if ('error' in first) {
      const error = first.error as Error;
      if (!(error instanceof HersError)) return void say(`an error that is none of ours: ${error.stack}`);
      if (isFitting) return void say(`refused although it fits (${error.message})`);
      if (!error.message.includes('.accept('))
        return void say(`refused with a sentence that does not help (${error.message})`);
      await client.database.accept(name);
      this.accepted++;
    } else if (!isFitting && head.version - before.version <= HISTORY)
      say('a history that does not follow was not noticed');
    client.known.set(name, head);
    try {
      const collection = await client.database.collection(name);
      client.remembering.candidates(name).resume();
      await collection.resume();
      const entries = head.content.entries();
      if ((await collection.count()) !== entries.length) return void say('another count than what was acknowledged');
      const ids = new Set(await Array.fromAsync(collection.list()));
      const missing = entries.find(([id]) => !ids.has(id));
      if (missing) return void say(`${missing[0]} was acknowledged and is gone`);
      const dice = new Dice(this.#seed, this.calls, 3);
      const some = Array.from({ length: 3 }, () => dice.of(entries));
      const all: SearchOptions[] = [{}, { payload: true }, { rerank: true, payload: true }];
      for (const [i, options] of all.entries()) {
        const [id, plain] = some[i];
        const result = await collection.search(plain.vector, { limit: 5, ...options });
        const sight = { nodes: [head], after: head, admitted: 0 };
        const wrong = await wrongIn(this.#scores, result, plain.vector, { limit: 5, ...options }, sight);
        if (wrong) say(wrong);
        // With a compressor, or with duplicates, another record may score as well.
        if (!result.matches.some((match) => match.id === id) && name !== 'short')
          say(`${id} is not found by its own vector`);
      }
      const got = await collection.get(entries.slice(-PEOPLE).map(([id]) => id));
      if (got.length !== Math.min(PEOPLE, entries.length)) say('records are missing');
      for (const record of got)
        if (!samePlain(record, head.content.get(record.id))) say(`${record.id} is not as it was acknowledged`);
    } catch (error) {
      say(`an error: ${(error as Error).stack}`);
    }
  }

  report(log: (line: string) => void): void {
    const { tally, searches, fetches, mostOpen, served, grafts } = this.#liar;
    const rows = [['what the store did', 'times', 'how it ended']];
    for (const [kind, ends] of [...tally].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const all = [...ends].sort(([, a], [, b]) => b - a);
      const sum = all.reduce((total, [, count]) => total + count, 0);
      rows.push([kind, String(sum), all.map(([end, count]) => `${end} ${count}`).join(', ')]);
    }
    log(columns(rows, new Set([1])));
    const ends = [...this.#ended].sort(([a], [b]) => (a < b ? -1 : 1)).map(([what, count]) => `${what} ${count}`);
    log(`\nhow calls ended: ${ends.join(', ')}`);
    log(
      `\n${this.calls} calls of clients, ${served} of the store, which cheated ${this.cheats} times; ${searches} searches, ${fetches} times candidates were asked for, ${mostOpen} sets at most not verified at a time; ` +
        `a person accepted ${this.accepted} and resumed ${this.resumed} times; what ${this.looked} calls sent was searched for secrets`,
    );
    log(`${grafts} writes were made onto another history (${this.healed} times what they spoiled was taken back)`);
    log(`seed ${this.#seed}`);
    if (this.violations.length === 0) log('Nothing wrong came without an error.');
    else {
      log('\nNOT as it should be:');
      for (const violation of this.violations.slice(0, 10)) log(`  ${violation}`);
      log(`\nThe last calls; --seed ${this.#seed} makes them again:`);
      for (const line of this.#last) log(`  ${line}`);
    }
  }

  async close(): Promise<void> {
    for (const { database } of [this.#faithful, ...this.#others]) await database.close();
  }
}

const HUNG = Symbol('hung');

async function within(work: Promise<unknown>): Promise<{ value: unknown } | { error: unknown }> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof HUNG>((resolve) => {
    timer = setTimeout(() => resolve(HUNG), HANG_MS);
  });
  try {
    return { value: await Promise.race([work, late]) };
  } catch (error) {
    return { error };
  } finally {
    clearTimeout(timer);
  }
}
