// Kills nodes and servers of NATS while a client enrols, deletes and searches, and checks the
// history: every answer is that of a version which was acknowledged when the search began or later,
// and in the end every acknowledged change is there.

import assert from 'node:assert/strict';
import { HttpService } from '@hers/client/transport';
import { type Block, HersError } from '@hers/scheme';
import type { SealedRecord, Service } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';
import type { Part, TestCluster } from './cluster.ts';

export interface FaultOptions {
  readonly seconds: number;
  readonly seed: number;
  readonly onEvent?: (event: string) => void;
}

export interface FaultTrial {
  readonly kills: number;
  /** Changes that were acknowledged. */
  readonly changes: number;
  /** Searches that were answered, each checked against the version that it was of. */
  readonly searches: number;
  /** Calls that failed with UNAVAILABLE. */
  readonly unavailable: number;
}

/** What the collection holds at a version. */
interface State {
  readonly records: ReadonlyMap<string, SealedRecord>;
  readonly blocks: ReadonlyMap<string, Block>;
}

const NAME = 'faults';
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const sorted = (all: Iterable<Uint8Array>) => [...all].map(hex).sort();
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const isCode = (error: unknown, ...codes: string[]) => error instanceof HersError && codes.includes(error.code);

export async function faultTrial(cluster: TestCluster, options: FaultOptions): Promise<FaultTrial> {
  const { seconds, seed, onEvent = () => {} } = options;
  const samples = new Samples(seed);
  const open = (first: number): Service =>
    new HttpService([...cluster.urls.slice(first), ...cluster.urls.slice(0, first)], { token: cluster.token });
  const [writer, reader] = [open(0), open(1)];
  const manifestOf = (version: number) => new TextEncoder().encode(`version ${version}, ${hex(samples.id())}`);
  const states = new Map<number, State>([[1, { records: new Map(), blocks: new Map() }]]);
  await writer.createCollection(NAME, { id: samples.id(), descriptor: new Uint8Array(1), manifest: manifestOf(1) });
  let acknowledged = 1;
  let running = true;
  const counts = { kills: 0, changes: 0, searches: 0, unavailable: 0 };

  /** One change, retried with the same manifest until it is acknowledged. */
  const change = async () => {
    const version = acknowledged + 1;
    const before = states.get(acknowledged)!;
    const added = samples.records(4);
    const block = samples.block();
    const [removed] = before.records.values();
    const [dropped] = version % 3 === 0 ? before.blocks.values() : [];
    const records = new Map(before.records);
    if (removed) records.delete(hex(removed.handle));
    for (const record of added) records.set(hex(record.handle), record);
    const blocks = new Map(before.blocks);
    if (dropped) blocks.delete(hex(dropped.blockId));
    blocks.set(hex(block.blockId), block);
    const manifest = manifestOf(version);
    // It may become visible before it is acknowledged.
    states.set(version, { records, blocks });
    for (;;) {
      try {
        const stages = {
          records: [await writer.stageRecords(NAME, added)],
          blocks: [await writer.stageBlock(NAME, [encodeBlock(block)])],
        };
        const made = await writer.commit(NAME, {
          expected: acknowledged,
          manifest,
          ...stages,
          removed: removed ? [removed.handle] : [],
          dropped: dropped ? [dropped.blockId] : [],
        });
        assert.equal(made, version);
        break;
      } catch (error) {
        // NOT_FOUND: what was staged did not reach a majority, and is staged again.
        if (!isCode(error, 'UNAVAILABLE', 'NOT_FOUND', 'OVERLOADED')) throw error;
        counts.unavailable++;
        await pause(50);
      }
    }
    acknowledged = version;
    counts.changes++;
  };

  const search = async () => {
    const least = acknowledged;
    const query = samples.query();
    try {
      const { version } = await reader.getManifest(NAME);
      assert.ok(version >= least, `version ${version} was read after ${least} was acknowledged`);
      const request = { version, queries: [encodeQuery(query)] };
      const found = await Array.fromAsync(reader.search(NAME, request));
      assert.deepEqual(sorted(found), sorted(expectedResponses(states.get(version)!.blocks.values(), [query])));
      counts.searches++;
    } catch (error) {
      if (!isCode(error, 'UNAVAILABLE', 'STALE', 'OVERLOADED')) throw error;
      counts.unavailable++;
      await pause(20);
    }
  };

  /** One at a time: with three replicas, a majority stays. */
  const killer = async () => {
    const parts: readonly Part[] = [...cluster.nodes, ...cluster.nats];
    while (running) {
      const victim = parts[(counts.kills * 4 + seed) % parts.length];
      onEvent(`kill ${victim.name}`);
      await victim.kill();
      counts.kills++;
      await pause(200 + samples.below(800));
      await victim.start();
      onEvent(`started ${victim.name}`);
      await pause(300 + samples.below(700));
    }
  };

  const until = async (work: () => Promise<void>) => {
    while (running) await work();
  };
  const timer = setTimeout(() => {
    running = false;
  }, 1000 * seconds);
  try {
    await Promise.all([killer(), until(change), until(search)]);
  } finally {
    running = false;
    clearTimeout(timer);
  }

  // All of it is there, whichever node is asked.
  const final = states.get(acknowledged)!;
  for (const first of cluster.urls.keys()) {
    const service = open(first);
    const wanted = [...final.records.values()];
    const found = await Array.fromAsync(
      service.getRecords(
        NAME,
        wanted.map(({ handle }) => handle),
      ),
    );
    assert.deepEqual(
      found.map(({ sealed }) => hex(sealed)),
      wanted.map(({ sealed }) => hex(sealed)),
    );
    const { version, records } = await service.getCollection(NAME);
    assert.deepEqual([version, records], [acknowledged, wanted.length]);
    await service.close();
  }
  await writer.deleteCollection(NAME);
  await Promise.all([writer.close(), reader.close()]);
  return counts;
}
