// What is in another format is refused in one sentence, wherever that is noticed. So is a part that
// must be understood and is not known.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HersError } from '@hers/service';
import { concat, u32 } from '../bytes.ts';
import { columnOf } from '../fields/column.ts';
import { decodeColumn, encodeColumn } from '../fields/column-format.ts';
import { MasterSeed } from '../index.ts';
import { encodeDescriptor, openDescriptor } from '../keys/keyring.ts';
import { makeSealer, seal } from '../sealing/sealing.ts';
import { List, openList, sealList } from './lists.ts';
import { emptyManifest, openManifest, sealManifest } from './manifest.ts';
import { decodeParts, encodePart, RecordKeys } from './records.ts';

const isOther = (error: unknown) =>
  error instanceof HersError &&
  error.code === 'UNSUPPORTED_VERSION' &&
  /^(this collection|collection "faces") is in another format, which this version neither reads nor converts: use the version that wrote it, or make it again from its source$/.test(
    error.message,
  );

const seed = MasterSeed.from(new Uint8Array(32).fill(7));
const id = new Uint8Array(16).fill(4);
const sealer = await makeSealer(new Uint8Array(32).fill(5));
const NUMBERS = [0, 2, 3];
const utf8 = (text: string) => new TextEncoder().encode(text);

describe('another format', () => {
  it('of a description', () => {
    const sealed = encodeDescriptor(seed, { id, request: { dimension: 4 } });
    assert.deepEqual(openDescriptor(seed, 'faces', sealed).id, id);
    const { text, mac } = JSON.parse(new TextDecoder().decode(sealed));
    assert.equal(JSON.parse(text).descriptor, 1);
    for (const number of [...NUMBERS, '1', undefined]) {
      const other = JSON.stringify({ ...JSON.parse(text), descriptor: number });
      assert.throws(() => openDescriptor(seed, 'faces', utf8(JSON.stringify({ text: other, mac }))), isOther);
    }
  });

  it('of a manifest, with parts that may be ignored or not', async () => {
    const access = { handleOf: () => assert.fail('there are no partitions') };
    const open = (sealed: Uint8Array) => openManifest(sealer, id, 7, sealed, access);
    assert.deepEqual((await open(await sealManifest(sealer, id, emptyManifest(7)))).history, []);
    const sealed = (change: object) => {
      const whole = { format: 1, version: 7, epoch: 0, seals: 0, history: '', blocks: [], pending: [], parts: {} };
      const text = JSON.stringify({ ...whole, ...change });
      return seal(sealer, utf8(text), concat(utf8('manifest'), id, u32(7), u32(0)));
    };
    assert.equal((await open(await sealed({ parts: { later: { must: false, value: 3 } } }))).version, 7);
    for (const format of NUMBERS) await assert.rejects(open(await sealed({ format })), isOther);
    await assert.rejects(open(await sealed({ parts: { later: { must: true, value: 3 } } })), isOther);
    const fields = { must: true, value: [['place', 'location']] };
    await assert.rejects(open(await sealed({ parts: { fields } })), isOther);
    await assert.rejects(open(await sealed({ history: undefined })), { code: 'INTEGRITY' });
    await assert.rejects(open(await sealed({ parts: undefined })), { code: 'INTEGRITY' });
    const limited = { ...access, only: new Set(['0011223344556677']) };
    await assert.rejects(openManifest(sealer, id, 7, await sealed({}), limited), {
      code: 'INVALID_ARGUMENT',
      message: /no partitions that a token can be limited to/,
    });
    const partitionBy = { must: true, value: 'site' };
    await assert.rejects(open(await sealed({ parts: { partitionBy } })), { code: 'INTEGRITY', message: /forged it/ });
  });

  it('of a record', async () => {
    const keys = await RecordKeys.of(seed, id);
    const batch = { count: 1, ids: utf8('r'), idEnds: Uint32Array.of(1), vectors: Float32Array.of(1, 2) };
    const none = { payloads: new Uint8Array(0), payloadEnds: Uint32Array.of(0) };
    const { sealed, handles } = await keys.seal(sealer, 3, { ...batch, ...none });
    const record = sealed.subarray(20);
    const open = (bytes: Uint8Array) => keys.open(() => sealer, handles, bytes);
    assert.equal((await open(record)).id, 'r');
    assert.deepEqual([...record.subarray(0, 8)], [1, 0, 0, 0, 3, 0, 0, 0]);
    for (const number of [...NUMBERS, 0xffff_0002])
      await assert.rejects(open(concat(u32(number), record.subarray(4))), isOther);
    keys.wipe();
  });

  it('of a list', async () => {
    const list = List.of([{ id: 'a', version: '01'.repeat(16) }]);
    assert.equal((await openList(sealer, id, await sealList(sealer, id, list))).list.id(0), 'a');
    assert.deepEqual([...list.encoded().subarray(0, 8)], [1, 0, 0, 0, 1, 0, 0, 0]);
    const open = async (plain: Uint8Array) => openList(sealer, id, await seal(sealer, plain, concat(utf8('list'), id)));
    for (const number of [...NUMBERS, 0x0002_ffff])
      await assert.rejects(open(concat(u32(number), list.encoded().subarray(4))), isOther);
    for (let length = 0; length < list.encoded().length; length++)
      await assert.rejects(open(list.encoded().subarray(0, length)), { code: 'INTEGRITY' }, `${length}`);
  });

  it('of a column', () => {
    const bytes = encodeColumn(columnOf('number', [1, 2]));
    for (const number of NUMBERS) assert.throws(() => decodeColumn(bytes.with(0, number), 'number', 2), isOther);
  });
});

it('parts that may be ignored are, and others are not', () => {
  const [a, b, c] = [
    { name: 'known', must: true, content: Uint8Array.of(1, 2, 3) },
    { name: 'later', must: false, content: new Uint8Array(0) },
    { name: 'needed', must: true, content: Uint8Array.of(9) },
  ];
  const known = new Set(['known']);
  assert.deepEqual([...decodeParts(concat(encodePart(a), encodePart(b)), known)], [['known', a.content]]);
  assert.throws(() => decodeParts(concat(encodePart(a), encodePart(c)), known), isOther);
  const whole = encodePart(a);
  for (let length = 1; length < whole.length; length++)
    assert.throws(() => decodeParts(whole.subarray(0, length), known), { code: 'INTEGRITY' }, `${length}`);
});
