import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { it } from 'node:test';
import { HersError } from '@hers/scheme';
import fc from 'fast-check';
import {
  checkWhole,
  decodeSections,
  encodeSections,
  type Section,
  sectionsOf,
  withOtherSections,
} from './partitions.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const hashOf = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
const refused = (error: unknown) => error instanceof HersError && ['MALFORMED', 'FORBIDDEN'].includes(error.code);

const handles = fc.uniqueArray(fc.uint8Array({ minLength: 8, maxLength: 8 }), { selector: hex, maxLength: 6 });
const section = (handle: Uint8Array, sealed: Uint8Array): Section => ({ handle, hash: hashOf(sealed), sealed });
const plain = ({ handle, hash, sealed }: Section) => [hex(handle), hex(hash), sealed && hex(sealed)];

it('a manifest with sections comes out as it went in, and no other bytes do', () => {
  fc.assert(
    fc.property(handles, fc.uint8Array(), fc.infiniteStream(fc.uint8Array()), (all, rest, contents) => {
      const sections = all.map((handle) => section(handle, contents.next().value!));
      const bytes = encodeSections({ sections, rest });
      const read = decodeSections(bytes)!;
      assert.deepEqual([read.sections.map(plain), hex(read.rest)], [sections.map(plain), hex(rest)]);
      const heads = bytes.length - rest.length;
      for (let length = 12; length < heads; length += 7)
        assert.throws(() => decodeSections(bytes.subarray(0, length)), refused);
    }),
    { numRuns: 50 },
  );
  assert.equal(decodeSections(new Uint8Array(100)), undefined);
  assert.throws(() => sectionsOf(new Uint8Array(100), new Set()), refused);
});

it('whoever is held to some partitions sees their sections, and changes no others', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.uint8Array({ minLength: 8, maxLength: 8 }), { selector: hex, minLength: 2, maxLength: 6 }),
      fc.uint8Array(),
      fc.nat(),
      (all, rest, cut) => {
        const own = all.slice(0, 1 + (cut % (all.length - 1)));
        const partitions = new Set(own.map(hex));
        const current = all.map((handle) => section(handle, handle));
        const bytes = encodeSections({ sections: current, rest });
        const shown = decodeSections(sectionsOf(bytes, partitions))!;
        for (const { handle, sealed } of shown.sections)
          assert.equal(sealed !== undefined, partitions.has(hex(handle)));
        const next = (sections: readonly Section[]) =>
          withOtherSections(bytes, encodeSections({ sections, rest: new Uint8Array(1) }), partitions);
        const changed = shown.sections.map((each) => (each.sealed ? section(each.handle, rest) : each));
        const joined = decodeSections(next(changed)!)!;
        assert.deepEqual(
          joined.sections.map(plain),
          all.map((handle) => plain(section(handle, partitions.has(hex(handle)) ? rest : handle))),
        );
        // Its own may go; of the others each must stay, and be what it was.
        assert.ok(next(shown.sections.filter(({ sealed }) => !sealed)));
        assert.equal(next(shown.sections.filter((_, i) => i < shown.sections.length - 1)), undefined);
        const last = shown.sections.at(-1)!;
        assert.equal(next([...shown.sections.slice(0, -1), section(last.handle, new Uint8Array(2))]), undefined);
        assert.throws(() => next([...shown.sections, last]), refused);
        // More sections than there can be are refused before they are looked at.
        const many = encodeSections({ sections: shown.sections, rest: new Uint8Array(1) });
        new DataView(many.buffer).setUint32(8, 2 ** 20, true);
        assert.equal(withOtherSections(bytes, many, partitions), undefined);
        checkWhole(bytes);
        assert.throws(() => checkWhole(sectionsOf(bytes, partitions)), refused);
      },
    ),
    { numRuns: 50 },
  );
});
