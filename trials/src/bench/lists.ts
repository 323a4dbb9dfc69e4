// `npm run bench -- filters --lists-only`: what a client keeps of a collection in memory, without a
// collection: lists, the table of places and the columns of three fields, of up to 100 million
// records, how long an id takes to be found, and how long filters take.
//
// Values are drawn for the first blocks, and the others hold copies of them, each in memory of its
// own: to draw them all would take longer than everything that is measured.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  type BlockContent,
  Column,
  columnOf,
  Interned,
  List,
  Numbers,
  passing,
  Texts,
  viewOf,
} from '@hers/client/testing/view';
import { progress, type Report, type Result } from '@hers/paper/lab/report';
import { machine } from '@hers/vectors/machine';
import { FILTERS, idOf, personOf, SCALAR_FIELDS } from './filtered-gallery.ts';

/** Records of a block at 16 dimensions, beside its canaries. */
const BLOCK = 2040;
const DRAWN_BLOCKS = 64;
const LOOKUPS = 1_000_000;
const ID_BYTES = 12;
const VERSION_BYTES = 16;

const encoder = new TextEncoder();

type Columns = Map<string, Column>;

function drawnColumns(block: number, interned: Interned): Columns {
  const people = Array.from({ length: BLOCK }, (_, slot) => personOf(block * BLOCK + slot));
  return new Map(
    Object.entries(SCALAR_FIELDS).map(([field, type]) => [
      field,
      columnOf(
        type,
        people.map((person) => person[field as keyof typeof person]),
        interned,
      ),
    ]),
  );
}

function copyOf({ type, dictionary, codes }: Column, count: number, interned: Interned): Column {
  const own =
    dictionary instanceof Numbers
      ? new Numbers(dictionary.list.slice())
      : dictionary instanceof Texts
        ? new Texts([...dictionary.list], BLOCK, interned)
        : dictionary; // Steps take no memory.
  return new Column(type, own, codes.slice(0, count));
}

function listOf(first: number, count: number): List {
  const ids = new Uint8Array(ID_BYTES * count);
  const ends = new Uint32Array(count);
  const versions = new Uint8Array(VERSION_BYTES * count);
  const order = new Uint16Array(count);
  for (let slot = 0; slot < count; slot++) {
    encoder.encodeInto(idOf(first + slot), ids.subarray(ID_BYTES * slot));
    ends[slot] = ID_BYTES * (slot + 1);
    order[slot] = slot;
  }
  return new List(ids, ends, versions, order);
}

function* blocksOf(count: number): Generator<BlockContent> {
  const interned = new Interned();
  const drawn = Array.from({ length: Math.min(DRAWN_BLOCKS, Math.ceil(count / BLOCK)) }, (_, block) =>
    drawnColumns(block, interned),
  );
  for (let block = 0; block * BLOCK < count; block++) {
    const records = Math.min(BLOCK, count - block * BLOCK);
    const columns = new Map(
      [...drawn[block % drawn.length]].map(([field, column]) => [field, copyOf(column, records, interned)]),
    );
    if (block % 5000 === 4999) progress(`  ${block * BLOCK} of ${count}`);
    yield { list: listOf(block * BLOCK, records), columns };
  }
}

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

/** Of everything that is alive, and of the memory of arrays in it. */
function usedBytes(): { readonly all: number; readonly arrays: number } {
  for (let i = 0; i < 3; i++) collectGarbage();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return { all: heapUsed + external, arrays: arrayBuffers };
}

function timed<T>(work: () => T): { readonly value: T; readonly ms: number } {
  const start = performance.now();
  const value = work();
  return { value, ms: performance.now() - start };
}

export async function run({ count }: { readonly count: number }): Promise<Report> {
  const before = usedBytes();
  progress('making lists and columns');
  const made = timed(() => viewOf(blocksOf(count), SCALAR_FIELDS));
  const view = made.value;
  const withoutTable = usedBytes();
  progress('making the table of places');
  const table = timed(() => view.locate(idOf(0)));
  const after = usedBytes();
  const places = after.arrays - withoutTable.arrays;
  const sum = (numbers: Iterable<number>) => [...numbers].reduce((all, each) => all + each, 0);
  const lists = sum([...view.entries.values()].map(({ bytes }) => bytes));
  const fields = sum([...view.columns.values()].map((each) => sum([...each.values()].map(({ bytes }) => bytes))));

  progress('looking ids up');
  const numbers = Float64Array.from({ length: LOOKUPS }, (_, i) => Math.floor((i * 7919.77) % count));
  const hits = timed(() => numbers.forEach((number) => checkPlace(view.locate(idOf(number)), number)));
  const misses = timed(() => numbers.forEach((_, i) => checkPlace(view.locate(`nobody${i}`), undefined)));
  for (const number of numbers.subarray(0, 1000)) checkFields(view, number);

  progress('filtering');
  const filters = Object.entries(FILTERS).filter(([name]) => name !== 'tags');
  const evaluated = filters.flatMap(([name, make]): Result[] => {
    const runs = Array.from({ length: 3 }, (_, i) => timed(() => passing(view, make(i))));
    return [
      { name: `filter-${name}-share`, value: runs[0].value / count, unit: 'share' },
      { name: `filter-${name}-evaluate-ms`, value: Math.min(...runs.map(({ ms }) => ms)), unit: 'ms' },
    ];
  });
  const each = (name: string, bytes: number): Result => ({ name, value: bytes / count, unit: 'bytes' });
  return {
    bench: 'filters',
    parameters: { count, listsOnly: true, fields: Object.keys(SCALAR_FIELDS), blocks: view.manifest.blocks.length },
    machine: machine(),
    results: [
      each('bytes-per-record', lists + places + fields),
      each('lists-bytes-per-record', lists),
      each('places-bytes-per-record', places),
      each('fields-bytes-per-record', fields),
      each('process-bytes-per-record', after.all - before.all),
      { name: 'make-ms', value: made.ms, unit: 'ms' },
      { name: 'places-ms', value: table.ms, unit: 'ms' },
      { name: 'find-us', value: (1000 * hits.ms) / LOOKUPS, unit: 'us' },
      { name: 'find-nothing-us', value: (1000 * misses.ms) / LOOKUPS, unit: 'us' },
      ...evaluated,
    ],
  };
}

type View = ReturnType<typeof viewOf>;

function checkPlace(place: ReturnType<View['locate']>, number: number | undefined): void {
  const found = typeof place === 'object' ? Number(place.block.id) * BLOCK + place.slot : undefined;
  if (found !== number) throw new Error(`record ${number} was looked for, and ${found} was found`);
}

function checkFields({ columns }: View, number: number): void {
  const [block, slot] = [Math.floor(number / BLOCK), number % BLOCK];
  const person = personOf((block % DRAWN_BLOCKS) * BLOCK + slot);
  for (const [field, column] of columns.get(String(block))!)
    if (column.value(slot) !== person[field as keyof typeof person])
      throw new Error(`the ${field} of record ${number} is not what it was`);
}
