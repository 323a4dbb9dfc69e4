// Secret objects show nothing, whoever looks and however; errors carry nothing away; what is wiped
// is gone.

import assert from 'node:assert/strict';
import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { describe, it } from 'node:test';
import { format, inspect } from 'node:util';
import { deserialize, serialize } from 'node:v8';
import { decryptBlock, loadSecret } from '../testing/decrypt-block.ts';
import { derivedSlowly, querySeedSlowly } from '../testing/derivation.node.ts';
import { repeatable } from '../testing/samples.ts';
import { resealed } from '../testing/tampering.ts';
import { decodeBlock, encodeBlock } from './block.ts';
import { type ErrorCode, HersError } from './errors.ts';
import { RESULT_SECRET } from './layout.ts';
import { ringOf } from './parameters.ts';
import { plan } from './plan.ts';
import { decodeQuery } from './query.ts';
import { blockMatrix, decodeResponse, encodeResponse, expandedQuery, scanBlock } from './response.ts';
import { QuerySecret } from './secret/decrypt.ts';
import { encryptBlock, encryptBlockFrom, encryptQuery, encryptQueryFrom } from './secret/encrypt.ts';
import { CollectionKey, cachedCanaries, MasterSeed, scoreWeights } from './secret/key.ts';
import { scoreChecker, scoreSums } from './secret/score-sums.ts';
import { encodeVectors } from './vectors.ts';

const request = {
  dimension: 4,
  profile: 'exact',
  metric: 'dot',
  parameters: 'insecure_n_64_logq_30_30_wide_4',
  allowInsecure: true,
} as const;
const p = plan(request);
const ring = ringOf(p.parameters);
const collectionId = new Uint8Array(16).fill(1);

/** Coordinates that stand out in a text; a vector is as secret as a key. */
const vector = [0.123456789, -0.234567891, 0.345678912, 0.456789123];

/** A key holder with everything secret known to the test: what must not be found anywhere. */
function scene() {
  const { seed: draw, id } = repeatable('secrecy');
  const seedBytes = draw();
  const master = MasterSeed.from(seedBytes);
  const key = master.collectionKey(p, collectionId);

  // That the context is the right one shows in the key id, which is public.
  const derived = (label: string, length: number) => derivedSlowly(seedBytes, label, { plan: p, collectionId }, length);
  assert.deepEqual(derived('key id', 16), key.keyId);
  const gallerySeed = derived('gallery secrets', 32);
  const weightSeed = derived('score weights', 32);
  const canarySeed = derived('canaries', 32);

  const drawn: Uint8Array[] = [];
  const seed = () => {
    drawn.push(draw());
    return drawn[drawn.length - 1].slice();
  };
  const block = encodeBlock(encryptBlockFrom({ seed, id }, key, [vector]));
  const { query, secret } = encryptQueryFrom({ seed, id }, key, vector);
  const response = encodeResponse(scanBlock(blockMatrix(decodeBlock(block)), expandedQuery(decodeQuery(query))));
  const [, blockErrors, queryRandom] = drawn;
  const hedge = derived('query seeds', 32);
  const { queryId } = decodeQuery(query);
  const { values } = encodeVectors(p, [vector], 'query');
  const querySeed = querySeedSlowly(hedge, { random: queryRandom, queryId, values });

  const [poly] = ring.polys;
  loadSecret(key, 0, poly);
  const gallerySecret = poly.residues.slice();
  ring.ternary(ring.words[0], { key: querySeed, domain: RESULT_SECRET, index: 0 });
  ring.embed(poly, ring.words[0]);
  ring.ntt(poly);
  const resultSecret = poly.residues.slice();
  ring.wipe();
  // Kept modulo the first prime alone: it is ternary.
  assert.deepEqual(secret.expose().secret, resultSecret.slice(0, p.parameters.n));
  assert.deepEqual(decodeQuery(query).seed, derived('query masks', 32));

  const seeds = { seedBytes, gallerySeed, weightSeed, canarySeed, hedge };
  const secrets = { ...seeds, blockErrors, queryRandom, querySeed, gallerySecret, resultSecret };
  return { master, key, block, query, secret, response, secrets };
}

type Scene = ReturnType<typeof scene>;

/**
 * How the beginning of a secret would look in a text: as hexadecimal, base64, a list, a Buffer, or
 * a typed array in JSON.
 */
function spellings(secret: Uint8Array | Uint32Array): string[] {
  const bytes = Buffer.from(secret.buffer, secret.byteOffset, 12);
  const hex = bytes.toString('hex');
  const numbers = [...secret.subarray(0, 4)];
  const lists = [',', ', ', ' '].map((gap) => numbers.join(gap));
  const indexed = numbers.map((x, i) => `"${i}":${x}`).join();
  return [hex, hex.match(/../g)!.join(' '), bytes.toString('base64'), ...lists, indexed];
}

function assertAbsent({ secrets }: Pick<Scene, 'secrets'>, text: string, where: string): void {
  // Inspectors break lines and indent as they like.
  const flat = text.replaceAll(/\s+/g, ' ');
  for (const [name, secret] of Object.entries(secrets)) {
    for (const spelling of spellings(secret)) {
      const found = [text, flat].some((each) => each.toLowerCase().includes(spelling.toLowerCase()));
      assert.ok(!found, `${where} shows ${name}`);
    }
  }
  const digits = text.replaceAll('.', ''); // scaled by a power of ten it would be no less of a vector
  for (const x of vector) assert.ok(!digits.includes(String(Math.abs(x)).slice(2, 9)), `${where} shows a vector`);
}

const builtIn = new Set<unknown>([null, ...[Object, Array, Function, Error].map((each) => each.prototype)]);

/**
 * Every value that can be reached through names and symbols, enumerable or not, the object's own or
 * inherited.
 */
function* reachable(value: unknown, seen = new Set<unknown>()): Generator<unknown> {
  yield value;
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
  seen.add(value);
  if (ArrayBuffer.isView(value)) return;
  for (let layer: unknown = value; !builtIn.has(layer); layer = Object.getPrototypeOf(layer)) {
    for (const name of Reflect.ownKeys(layer as object))
      yield* reachable(Reflect.get(layer as object, name, value), seen);
  }
}

/**
 * Looks through properties and into the memory behind every array among them, not only the part it
 * shows.
 */
function assertUnreachable({ secrets }: Pick<Scene, 'secrets'>, value: unknown, where: string): void {
  for (const each of reachable(value)) {
    if (!ArrayBuffer.isView(each)) continue;
    const memory = Buffer.from(each.buffer);
    for (const [name, secret] of Object.entries(secrets)) {
      const start = Buffer.from(secret.buffer, secret.byteOffset, 16);
      assert.ok(!memory.includes(start), `${where} leads to ${name}`);
    }
  }
}

/** What a console prints. */
function printed(use: (console: Console) => void): string {
  let text = '';
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += chunk;
      done();
    },
  });
  use(new Console({ stdout: stream, stderr: stream, inspectOptions: { depth: null } }));
  return text;
}

describe('secret objects', () => {
  const all = scene();
  const { master, key, secret, query } = all;
  const objects = { MasterSeed: master, CollectionKey: key, QuerySecret: secret, EncryptedQuery: { query, secret } };
  const everything = { showHidden: true, depth: Infinity, maxArrayLength: Infinity, maxStringLength: Infinity };

  it('the test would find what it looks for', () => {
    const { seedBytes, resultSecret } = all.secrets;
    for (const shown of [seedBytes, Buffer.from(seedBytes), [...seedBytes], resultSecret, { deep: { resultSecret } }]) {
      assert.throws(() => assertAbsent(all, inspect(shown, everything), 'a plain array'), /shows/);
      assert.throws(() => assertAbsent(all, JSON.stringify(Object.values(shown)), 'a plain array'), /shows/);
    }
    assert.throws(() => assertAbsent(all, Buffer.from(seedBytes).toString('base64'), 'a text'), /shows/);
    assert.throws(() => assertAbsent(all, inspect({ vector }), 'a vector'), /shows/);
    const pool = new Uint8Array(100);
    pool.set(seedBytes, 50);
    assert.throws(() => assertUnreachable(all, { id: pool.subarray(0, 16) }, 'memory'), /leads to/);
  });
  for (const [name, object] of Object.entries(objects)) {
    it(`${name}: nothing under inspection, with everything hidden shown`, () => {
      for (const options of [everything, { ...everything, showProxy: true, getters: true }, {}])
        assertAbsent(all, inspect(object, options), name);
      for (const way of ['%s', '%o', '%O', '%j', '%d']) assertAbsent(all, format(way, object), name);
    });
    it(`${name}: nothing on a console`, () => {
      const text = printed((console) => {
        console.log(object);
        console.error('%o', object);
        console.dir(object, everything);
        console.table(object);
        console.log({ nested: [object] });
      });
      assert.ok(text.length > 0);
      assertAbsent(all, text, name);
    });
    it(`${name}: nothing as a string or JSON`, () => {
      assertAbsent(all, `${object}${object.toLocaleString()}${Object.prototype.toString.call(object)}`, name);
      assertAbsent(all, JSON.stringify(object), name);
      assertAbsent(all, JSON.stringify({ nested: [object] }), name);
      assertAbsent(all, JSON.stringify({ ...object }), name);
    });
    it(`${name}: nothing in a clone`, () => {
      for (const clone of [structuredClone(object), deserialize(serialize(object)), { ...object }]) {
        assertAbsent(all, inspect(clone, everything), `a clone of ${name}`);
        assertUnreachable(all, clone, `a clone of ${name}`);
      }
      assert.throws(() => MasterSeed.prototype.reveal.call(structuredClone(object)), TypeError);
    });
    it(`${name}: nothing behind any property, name, symbol or prototype`, () => {
      assertUnreachable(all, object, name);
    });
  }
  it('the ring’s memory holds none of it after use', () => {
    const { block, response } = all;
    const scratch = [...ring.polys.map((poly) => poly.residues), ...ring.words.map((words) => words.values)];
    const uses = {
      encryptBlock: () => encryptBlock(key, [vector]),
      encryptQuery: () => encryptQuery(key, vector),
      decrypt: () => secret.decrypt(response),
      decryptBlock: () => decryptBlock(key, block),
      scoreSums: () => scoreSums(scene().key, [vector]),
      scoreChecker: () => scoreChecker(scene().key, vector)(scoreSums(key, [vector]), new Int32Array(1)),
      'a refused vector': () => assert.throws(() => encryptQuery(key, [1, 2, 3])),
      'a refused response': () => assert.throws(() => secret.decrypt(block)),
    };
    for (const [name, use] of Object.entries(uses)) {
      use();
      assertUnreachable(all, scratch[0], `memory after ${name}`);
      for (const words of scratch)
        assert.ok(
          words.every((x) => x === 0),
          `memory is not wiped after ${name}`,
        );
    }
  });
});

describe('errors', () => {
  const all = scene();
  const { master, key, block, query, secret, response } = all;
  const { seedBytes } = all.secrets;
  const other = MasterSeed.generate().collectionKey(p, collectionId);
  const otherPlan = master.collectionKey(plan({ ...request, normBound: 2 }), collectionId);
  const wiped = { master: MasterSeed.from(seedBytes), key: scene().key, secret: scene().secret };
  for (const each of Object.values(wiped)) each.wipe();

  const beyond = vector.map((x) => x * 100);
  const flip = (bytes: Uint8Array, at: number) =>
    resealed(bytes, (view) => view.setUint8(at, view.getUint8(at) ^ 0x15));
  const damaged = (bytes: Uint8Array) => bytes.map((b, i) => (i === 100 ? b ^ 1 : b));
  // Every slot turns random, and a tenth of what is random is too far from an integer.
  const garbled = resealed(response, (_, copy) =>
    copy.subarray(80, -8).forEach((b, i, body) => (body[i] = b ^ (7 * i))),
  );
  const otherBits = () => {
    const { bits0, packed0, ...rest } = decodeResponse(response);
    return encodeResponse({ ...rest, bits0: bits0 - 1, packed0: packed0.subarray(0, ((bits0 - 1) * 64) / 8) });
  };

  const refusals: readonly (readonly [ErrorCode, string, () => unknown])[] = [
    ['INVALID_ARGUMENT', 'a seed that is too short', () => MasterSeed.from(seedBytes.subarray(1))],
    ['INVALID_ARGUMENT', 'a seed as text', () => MasterSeed.from(Buffer.from(seedBytes).toString('hex') as never)],
    ['INVALID_ARGUMENT', 'a seed as a list', () => MasterSeed.from([...seedBytes] as never)],
    ['INVALID_ARGUMENT', 'a seed for a collection id', () => master.collectionKey(p, seedBytes)],
    ['INVALID_ARGUMENT', 'an epoch that is none', () => master.collectionKey(p, collectionId, vector[0])],
    ['INVALID_ARGUMENT', 'a slot that is none', () => encryptBlock(key, [vector], { first: 64 })],
    ['INVALID_ARGUMENT', 'no vectors', () => encryptBlock(key, [])],
    ['INVALID_VECTOR', 'a vector of the wrong length', () => encryptBlock(key, [vector.slice(1)])],
    ['INVALID_VECTOR', 'numbers that do not divide', () => encryptBlock(key, Float32Array.from([...vector, 1]))],
    ['INVALID_VECTOR', 'NaN', () => encryptBlock(key, [vector, [...vector.slice(1), Number.NaN]])],
    ['INVALID_VECTOR', 'infinity', () => encryptQuery(key, [...vector.slice(1), Number.POSITIVE_INFINITY])],
    ['INVALID_VECTOR', 'text in a vector', () => encryptQuery(key, vector.map(String) as never)],
    ['INVALID_VECTOR', 'a vector beyond the bound', () => encryptBlock(key, [beyond])],
    ['INVALID_VECTOR', 'a query beyond the bound', () => encryptQuery(key, beyond)],
    ['INVALID_VECTOR', 'a vector that is none', () => encryptQuery(key, String(vector) as never)],
    ['MALFORMED', 'a query for a response', () => secret.decrypt(query)],
    ['MALFORMED', 'a seed for a response', () => secret.decrypt(seedBytes)],
    ['MALFORMED', 'a seed for a block', () => decryptBlock(key, seedBytes)],
    ['MALFORMED', 'other bits', () => secret.decrypt(otherBits())],
    ['DAMAGED', 'a damaged response', () => secret.decrypt(damaged(response))],
    ['DAMAGED', 'a damaged block', () => decryptBlock(key, damaged(block))],
    ['KEY_MISMATCH', 'a response of another key', () => secret.decrypt(flip(response, 8))],
    ['KEY_MISMATCH', 'a block of another key', () => decryptBlock(other, block)],
    ['QUERY_MISMATCH', 'a response to another query', () => secret.decrypt(flip(response, 32))],
    ['KEY_MISMATCH', 'a block of another plan', () => decryptBlock(otherPlan, block)],
    ['INTEGRITY', 'an altered response', () => secret.decrypt(garbled)],
    ['INTEGRITY', 'an altered block', () => decryptBlock(key, flip(block, 112))],
    ['WIPED', 'a wiped seed, revealed', () => wiped.master.reveal()],
    ['WIPED', 'a wiped seed, used', () => wiped.master.collectionKey(p, collectionId)],
    ['WIPED', 'a wiped key, encrypting a block', () => encryptBlock(wiped.key, [vector])],
    ['WIPED', 'a wiped key, encrypting a query', () => encryptQuery(wiped.key, vector)],
    ['WIPED', 'a wiped key, decrypting', () => decryptBlock(wiped.key, block)],
    ['WIPED', 'a wiped query, decrypting', () => wiped.secret.decrypt(response)],
    ['WIPED', 'a wiped query, exposed', () => wiped.secret.expose()],
  ];

  for (const [code, name, refused] of refusals) {
    it(`${code} for ${name}: a typed error with nothing in it`, () => {
      let error: unknown;
      try {
        refused();
      } catch (caught) {
        error = caught;
      }
      assert.ok(error instanceof HersError, `${error}`);
      assert.equal(error.code, code);
      assert.equal(error.cause, undefined);
      const own = ['code', 'message', 'name', 'retryable', 'stack', 'status'];
      assert.deepEqual([...Object.getOwnPropertyNames(error)].sort(), own);
      const shown = inspect(error, { showHidden: true, depth: Infinity });
      for (const text of [error.message, error.stack!, shown, JSON.stringify(error), `${error}`])
        assertAbsent(all, text, name);
      assertUnreachable(all, error, name);
    });
  }
});

describe('wiping', () => {
  it('overwrites the memory that held the secret', () => {
    const filled = (byte: number) => new Uint8Array(32).fill(byte);
    const seeds = {
      gallery: filled(7),
      weights: filled(5),
      canaries: filled(3),
      queries: filled(2),
      open: filled(1),
    };
    const key = new CollectionKey(p, collectionId, 0, new Uint8Array(16), new Uint8Array(32), seeds);
    encryptBlock(key, [vector]);
    const canaries = cachedCanaries(key, 'a block', () => ({
      slots: Uint32Array.of(1),
      values: Int32Array.of(2),
      own: Uint32Array.of(1, 3),
      checksums: { order: Uint16Array.of(3, 2), group: 1 },
    }));
    const weights = scoreWeights(key);
    assert.ok(weights.some((x) => x !== 0));
    key.wipe();
    for (const [name, seed] of Object.entries(seeds)) assert.deepEqual(seed, new Uint8Array(32), name);
    assert.deepEqual(canaries, {
      slots: new Uint32Array(1),
      values: new Int32Array(1),
      own: new Uint32Array(2),
      checksums: { order: new Uint16Array(2), group: 1 },
    });
    assert.deepEqual(weights, new Float64Array(weights.length));

    const residues = new Uint32Array(64).fill(7);
    const readout = { slope: 1, offset: 0, sign: 1, shift: 0 } as const;
    const secret = new QuerySecret(p, new Uint8Array(16), new Uint8Array(16), readout, residues);
    secret.wipe();
    assert.deepEqual(residues, new Uint32Array(64));
  });
  it('leaves the caller’s bytes alone, and the caller’s wiping leaves ours', () => {
    for (const given of [new Uint8Array(32).fill(7), Buffer.alloc(32, 7), Buffer.from('07'.repeat(32), 'hex')]) {
      const master = MasterSeed.from(given);
      master.reveal().fill(0);
      given.fill(0);
      assert.deepEqual(master.reveal(), new Uint8Array(32).fill(7));
      given.fill(9);
      master.wipe();
      assert.ok(given.every((byte) => byte === 9));
    }
  });
  it('can be done twice, and leaves what is public', () => {
    const { master, key, secret } = scene();
    const { keyId } = key;
    const info = key.info();
    for (const each of [master, key, secret]) {
      each.wipe();
      each.wipe();
    }
    assert.deepEqual(key.keyId, keyId);
    assert.deepEqual(key.info(), info);
  });
  it('happens at the end of a block that uses them', () => {
    const kept = scene();
    const { block, response } = kept;
    assert.equal(kept.secret.decrypt(response).scores.length, 1);
    {
      using master = kept.master;
      using key = kept.key;
      using secret = kept.secret;
      assert.ok(master && key && secret);
    }
    const wiped = (error: unknown) => error instanceof HersError && error.code === 'WIPED';
    assert.throws(() => kept.master.reveal(), wiped);
    assert.throws(() => decryptBlock(kept.key, block), wiped);
    assert.throws(() => kept.secret.decrypt(response), wiped);
  });
});
