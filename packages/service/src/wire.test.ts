import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/scheme';
import fc from 'fast-check';
import { frame } from './frames.ts';
import { BLOCK_ID_BYTES, HANDLE_BYTES, LIST_ID_BYTES } from './service.ts';
import {
  COMMIT_PARTS,
  type CommitHead,
  checkCollectionName,
  decodeCommit,
  decodeError,
  decodeInfo,
  decodeMessage,
  decodeSearch,
  decodeShardSearch,
  encodeCommit,
  encodeError,
  encodeInfo,
  encodeMessage,
  encodeSearch,
  encodeShardSearch,
  ITEM_KIND,
  isCollectionName,
  isLoopback,
  MAX_REMOVED,
  type Message,
  packIds,
  printable,
  readItemGroups,
  readItems,
  SEARCH_PARTS,
  type SearchHead,
  type ShardSearchHead,
  unpackIds,
} from './wire.ts';

const failsWith = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;
const malformed = failsWith('MALFORMED');
const bytes = fc.uint8Array({ maxLength: 60 });

it('messages come back as they went, wherever they lie in memory', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(bytes), fc.nat(9), (head, parts, offset) => {
      const encoded = encodeMessage(head, parts);
      const moved = new Uint8Array(offset + encoded.length);
      moved.set(encoded, offset);
      const decoded = decodeMessage(moved.subarray(offset));
      assert.deepEqual(decoded.head, JSON.parse(JSON.stringify(head)));
      assert.deepEqual(decoded.parts, parts);
    }),
  );
});

it('the first part of a message lies at a whole place', () => {
  for (let i = 0; i < 20; i++) {
    const { parts } = decodeMessage(encodeMessage({ x: 'y'.repeat(i) }, [new Uint8Array(8)]));
    assert.equal(parts[0].byteOffset % 8, 0);
  }
});

it('what is no message is MALFORMED, and nothing else', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (garbage) => {
      try {
        decodeMessage(garbage);
      } catch (error) {
        assert.ok(malformed(error));
      }
    }),
  );
  const notJson = encodeMessage({ a: 1 }, []);
  notJson[notJson.length - 1] = 0x2c;
  assert.throws(() => decodeMessage(notJson), malformed);
  const whole = encodeMessage({ a: 1 }, [new Uint8Array(9)]);
  assert.throws(() => decodeMessage(new Uint8Array(0)), malformed);
  for (let length = 1; length < whole.length; length++) {
    const cut = whole.subarray(0, length);
    // Cut between two parts it is a message with fewer: the path says how many there must be.
    if (length === 4 + 8) assert.deepEqual(decodeMessage(cut).parts, []);
    else assert.throws(() => decodeMessage(cut), malformed);
  }
});

const item = (content: Uint8Array, kind: number) => frame(Uint8Array.from([...content, kind]));
/** One by one and in groups, which must agree, also in what comes before an error. */
const collect = async (pieces: Uint8Array[]) => {
  const [single, grouped]: Uint8Array[][] = [[], []];
  const all = async () => {
    for await (const each of readItems(pieces)) single.push(new Uint8Array(each));
  };
  const inGroups = async () => {
    for await (const group of readItemGroups(pieces, undefined, true))
      for (const each of group) grouped.push(new Uint8Array(each));
  };
  const [one, other] = await Promise.allSettled([all(), inGroups()]);
  assert.deepEqual(other, one);
  assert.deepEqual(grouped, single);
  if (one.status === 'rejected') throw one.reason;
  return single;
};

it('items come back until the end; a stream without one was cut off', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(bytes), fc.integer({ min: 1, max: 50 }), async (items, cut) => {
      const whole = Buffer.concat([
        ...items.map((each) => item(each, ITEM_KIND.item)),
        item(new Uint8Array(0), ITEM_KIND.end),
      ]);
      const pieces: Uint8Array[] = [];
      for (let at = 0; at < whole.length; at += cut) pieces.push(whole.subarray(at, at + cut));
      assert.deepEqual(
        (await collect(pieces)).map((each) => [...each]),
        items.map((each) => [...each]),
      );
    }),
  );
  await assert.rejects(collect([]), failsWith('UNAVAILABLE'));
  await assert.rejects(collect([item(new Uint8Array(3), ITEM_KIND.item)]), failsWith('UNAVAILABLE'));
  const end = item(new Uint8Array(0), ITEM_KIND.end);
  await assert.rejects(collect([end, end]), malformed);
  await assert.rejects(collect([item(new Uint8Array(3), 7)]), malformed);
  await assert.rejects(collect([frame(new Uint8Array(0))]), malformed);
});

it('an error in the middle of a stream is thrown as what it was', async () => {
  const error = new HersError('DAMAGED', 'segments/1.segment is damaged');
  const json = new TextEncoder().encode(JSON.stringify(encodeError(error)));
  await assert.rejects(collect([item(new Uint8Array(3), ITEM_KIND.item), item(json, ITEM_KIND.failed)]), (thrown) => {
    assert.ok(failsWith('DAMAGED')(thrown));
    assert.equal((thrown as Error).message, error.message);
    return true;
  });
  await assert.rejects(collect([item(new TextEncoder().encode('{"code":"X"}'), ITEM_KIND.failed)]), malformed);
});

it('nothing is told of errors that are not ours, and a closed folder is a server that goes down', () => {
  assert.ok(!JSON.stringify(encodeError(new TypeError('SECRET'))).includes('SECRET'));
  assert.equal(encodeError(new HersError('CLOSED', 'x')).code, 'UNAVAILABLE');
  assert.equal(decodeError({ code: 'constructor', message: 'x' }), undefined);
  assert.equal(decodeError(null), undefined);
  assert.equal(decodeError({ code: 'STALE', message: 'x' })?.retryable, true);
});

it('ids of one length travel one behind the other', () => {
  const ids = [new Uint8Array(16).fill(1), new Uint8Array(16).fill(2)];
  assert.deepEqual(unpackIds(packIds(ids, 16, 'an id'), 16, 'an id'), ids);
  assert.throws(() => packIds([new Uint8Array(3)], 16, 'an id'), failsWith('INVALID_ARGUMENT'));
  assert.throws(() => unpackIds(new Uint8Array(17), 16, 'an id'), malformed);
});

it('descriptions of collections come back as they went', () => {
  const info = {
    name: 'faces',
    id: Uint8Array.from({ length: 16 }, (_, i) => i * 16),
    descriptor: Uint8Array.from({ length: 256 }, (_, i) => i),
    version: 3,
    records: 4,
    blocks: 5,
    bytes: 6,
  };
  assert.deepEqual(decodeInfo(JSON.parse(JSON.stringify(encodeInfo(info)))), info);
});

it('what is no description of a collection is MALFORMED, and nothing else', () => {
  const good = { name: 'faces', id: '00'.repeat(16), descriptor: '', version: 0, records: 0, blocks: 0, bytes: 0 };
  assert.equal(decodeInfo({ ...good, more: 1 }).descriptor.length, 0);
  assert.ok(!('more' in decodeInfo({ ...good, more: 1 })));
  assert.equal(decodeInfo({ ...good, descriptor: 'A'.repeat(2 ** 16) }).descriptor.length, 49_152);
  fc.assert(
    fc.property(fc.constantFrom(...Object.keys(good)), fc.jsonValue(), (field, value) => {
      try {
        decodeInfo({ ...good, [field]: value });
      } catch (error) {
        assert.ok(malformed(error));
      }
      assert.throws(() => decodeInfo(value), malformed);
    }),
  );
});

it('a message has no more parts than it may have, and an item no more bytes', async () => {
  const parts = Array.from({ length: 3 }, () => new Uint8Array(0));
  assert.equal(decodeMessage(encodeMessage({}, parts), 3).parts.length, 3);
  for (const room of [0, 3, 1000]) {
    const message = encodeMessage({ a: 1 }, [new Uint8Array(9)], new Uint8Array(room).fill(7));
    assert.deepEqual(new Uint8Array(message), encodeMessage({ a: 1 }, [new Uint8Array(9)]));
  }
  assert.throws(() => decodeMessage(encodeMessage({}, parts), 2), malformed);
  assert.throws(() => decodeMessage(encodeMessage({}, Array<Uint8Array>(2 ** 16 + 1).fill(parts[0]))), malformed);
  const stream = [item(new Uint8Array(9), ITEM_KIND.item), item(new Uint8Array(0), ITEM_KIND.end)];
  assert.equal((await Array.fromAsync(readItems(stream, 9))).length, 1);
  await assert.rejects(Array.fromAsync(readItems(stream, 8)), malformed);
});

it('words from elsewhere are cut short and move no cursor', () => {
  assert.equal(printable('no collection "Zoë" 😀'), 'no collection "Zoë" 😀');
  assert.equal(printable('a\u001b\r\nb\u009b\u202ec'), 'a b c');
  assert.equal(printable('x'.repeat(1000)).length, 500);
  assert.equal(decodeError({ code: 'STALE', message: `a\u0007${'b'.repeat(9999)}` })?.message.length, 500);
});

const id = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
const stages = fc.array(fc.string({ minLength: 1, maxLength: 8 }), { maxLength: 4 });

it('a commit comes back as it went', () => {
  const plain = { noNullPrototype: true };
  const changes = fc.record(
    {
      expected: fc.nat(),
      manifest: bytes,
      records: stages,
      removed: fc.array(id(HANDLE_BYTES)),
      blocks: stages,
      dropped: fc.array(id(BLOCK_ID_BYTES)),
      lists: stages,
      droppedLists: fc.array(id(LIST_ID_BYTES)),
    },
    plain,
  );
  fc.assert(
    fc.property(changes, (change) => {
      const decoded = decodeCommit(decodeMessage(encodeCommit(change)) as Message<CommitHead>);
      const { removed = [], dropped = [], droppedLists = [], ...rest } = decoded;
      assert.deepEqual(
        { ...rest, removed: [...removed], dropped: [...dropped], droppedLists: [...droppedLists] },
        change,
      );
    }),
  );
});

it('a commit that deletes too much, lacks a part, or whose ids do not fit, is refused', () => {
  const empty = new Uint8Array(0);
  const decode = (parts: readonly Uint8Array[]) => decodeCommit({ head: { expected: 1 }, parts });
  const many = new Uint8Array((MAX_REMOVED + 1) * HANDLE_BYTES);
  assert.throws(() => decode([empty, many, empty, empty]), failsWith('TOO_LARGE'));
  assert.throws(() => decode([empty, empty, many, empty]), failsWith('TOO_LARGE'));
  assert.throws(() => decode([empty, new Uint8Array(HANDLE_BYTES - 1), empty, empty]), malformed);
  assert.throws(() => decode([empty, empty, new Uint8Array(BLOCK_ID_BYTES - 1), empty]), malformed);
  for (let n = 0; n < COMMIT_PARTS; n++) assert.throws(() => decode(new Array(n).fill(empty)), malformed);
  assert.doesNotThrow(() => decode(new Array(COMMIT_PARTS).fill(empty)));
});

const searched = {
  version: fc.nat(),
  blocks: fc.array(id(BLOCK_ID_BYTES), { maxLength: 4 }),
  partial: fc.constant(true),
};
const lists = fc.array(id(LIST_ID_BYTES), { maxLength: 4 });
const open = fc.record({ evaluation: lists, devices: lists, inbox: fc.array(fc.nat()) }, { noNullPrototype: true });
const queries = fc.array(bytes, { maxLength: 4 });

it('a search comes back as it went, of one collection and of several shards', () => {
  const requiring = (requiredKeys: string[]) => ({ noNullPrototype: true, requiredKeys }) as never;
  const requests = fc.record({ ...searched, open, queries }, requiring(['version', 'queries']));
  const through = ({ head, parts }: Message<object>) => decodeMessage(encodeMessage(head, parts));
  fc.assert(
    fc.property(requests, (request) => {
      assert.deepEqual(decodeSearch(through(encodeSearch(request)) as Message<SearchHead>), request);
    }),
  );
  const shards = fc.array(
    fc.record({ ...searched, name: fc.string(), state: fc.string(), lists }, requiring(['version', 'name'])),
    { minLength: 1, maxLength: 4 },
  );
  fc.assert(
    fc.property(shards, fc.option(open, { nil: undefined }), queries, (all, keys, queries) => {
      const shards = all.map((shard) => ({ ...shard, ...(keys ? { open: keys } : {}) }));
      const message = through(encodeShardSearch(shards, queries)) as Message<ShardSearchHead>;
      assert.deepEqual(decodeShardSearch(message), { shards, queries });
    }),
  );
});

it('a search that lacks ids, or whose ids do not fit, is refused', () => {
  const full = new Uint8Array(LIST_ID_BYTES);
  const decode = (parts: readonly Uint8Array[]) =>
    decodeSearch({ head: { version: 1, some: true, open: { inbox: [] } }, parts });
  for (let n = 0; n < SEARCH_PARTS; n++) assert.throws(() => decode(new Array(n).fill(full)), malformed);
  assert.deepEqual(decode(new Array(SEARCH_PARTS).fill(full)).queries, []);
  for (const at of [0, 1, 2]) {
    const parts = new Array(SEARCH_PARTS).fill(full).with(at, full.subarray(1));
    assert.throws(() => decode(parts), malformed);
  }
  const head = { shards: [{ name: 'x', version: 1, lists: true }], open: { inbox: [] } };
  for (let n = 0; n < 3; n++)
    assert.throws(() => decodeShardSearch({ head, parts: new Array(n).fill(full) }), malformed);
});

it('a collection name is what paths and URLs can carry', () => {
  for (const name of ['a', '7', 'faces', 'Faces-2026.v1_x', 'a'.repeat(64)]) {
    assert.ok(isCollectionName(name), name);
    checkCollectionName(name);
  }
  for (const name of ['', '.', '..', '-a', '_a', 'a b', 'a/b', 'a\n', 'ä', 'a'.repeat(65), 7, null, undefined, ['a']]) {
    assert.ok(!isCollectionName(name), String(name));
    assert.throws(
      () => checkCollectionName(name),
      (error) => error instanceof HersError && error.code === 'INVALID_ARGUMENT',
    );
  }
});

it('an address of this machine alone is told from all others, however it is written', () => {
  for (const host of ['localhost', '127.0.0.1', '127.255.255.254', '::1', '[::1]']) assert.ok(isLoopback(host), host);
  const others = [
    '',
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0.256',
    '127.0.0.1.example',
    '127.1',
    'localhost.example',
  ];
  for (const host of others) assert.ok(!isLoopback(host), host);
});
