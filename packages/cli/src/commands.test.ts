// Every command, end to end, on a small gallery: what it prints for people in a pipe, and for
// programs with --json.

import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { chmod, copyFile, readdir, readFile, stat, truncate, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { isSealed } from '@hers/client';
import { openStore } from '@hers/store';
import {
  DIMENSION,
  hers,
  hersBytes,
  hersJson,
  npy,
  PEOPLE,
  Prepared,
  quicklySealed,
  temporaryFolder,
  vectorOf,
  writeData,
  writeGallery,
} from '../testing/cli.ts';
import { run } from './program.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

const isRoot = process.getuid?.() === 0;
const modeOf = (path: string) => statSync(path).mode & 0o777;

describe('init', () => {
  test('makes configuration, key and gallery, all for their owner alone', async () => {
    await using folder = await temporaryFolder();
    const { exit, out } = await hers(folder.path, ['init', 'new', '--unsealed']);
    assert.equal(exit, 0);
    const at = (name: string) => join(folder.path, 'new', name);
    assert.equal(
      out,
      `configuration\t${at('hers.config.json')}\nkey\t${at('hers.key')} (not sealed)\ngallery\t${at('gallery')}\n`,
    );
    for (const name of ['hers.config.json', 'hers.key']) assert.equal(modeOf(at(name)), 0o600, name);
    assert.equal(modeOf(at('gallery')), 0o700);
    assert.deepEqual(JSON.parse(await readFile(at('hers.config.json'), 'utf8')), {
      gallery: 'gallery',
      key: 'hers.key',
    });
  });

  test('does nothing twice, and never touches a key', async () => {
    await using folder = await temporaryFolder();
    await writeFile(join(folder.path, 'hers.key'), 'precious');
    const { exit, err } = await hers(folder.path, ['init', '--unsealed']);
    assert.equal(exit, 3);
    assert.match(err, /hers\.key exists already; use it with --key/);
    assert.equal(await readFile(join(folder.path, 'hers.key'), 'utf8'), 'precious');
    const gallery = await prepared.copy();
    assert.equal((await hers(gallery, ['init', '--unsealed'])).exit, 3);
  });

  test('takes a key that exists, and a gallery elsewhere, where these are named', async () => {
    await using folder = await temporaryFolder();
    await hers(folder.path, ['keys', 'create', 'mine.key', '--unsealed']);
    const made = await hersJson(folder.path, ['init', 'work', '--key', 'mine.key', '--gallery', 'elsewhere']);
    assert.equal(made.keyMade, false);
    assert.equal(made.gallery, join(folder.path, 'elsewhere'));
    assert.equal((await hersJson(join(folder.path, 'work'), ['collections', 'list'])).collections.length, 0);
  });

  test('--example brings data that a search makes sense of', async () => {
    await using folder = await temporaryFolder();
    await hers(folder.path, ['init', '--unsealed', '--example']);
    await hers(folder.path, ['collections', 'create', 'faces', '--dimension', '128']);
    const imported = await hersJson(folder.path, [
      ...['import', 'example/faces.npy', '--ids', 'example/people.csv'],
      ...['--payloads', 'example/people.csv', '--payload', 'name,since'],
    ]);
    assert.equal(imported.written, 5000);
    const { matches } = await hersJson(folder.path, ['search', 'example/probes.npy', '--row', '3', '--payload']);
    assert.equal(matches[0].id, 'person-0750');
    assert.equal(typeof matches[0].payload.name, 'string');
  });
});

describe('keys', () => {
  test('create makes a sealed file, and never over another', async () => {
    await using folder = await temporaryFolder();
    const env = { HERS_PASSPHRASE: 'one two three' };
    const created = await hersJson(folder.path, ['keys', 'create', 'second.key'], { env });
    assert.deepEqual(created, { key: join(folder.path, 'second.key'), sealed: true });
    assert.equal(modeOf(join(folder.path, 'second.key')), 0o600);
    const text = await readFile(join(folder.path, 'second.key'), 'utf8');
    assert.equal(isSealed(text), true);
    assert.equal((await hers(folder.path, ['keys', 'create', 'second.key', '--unsealed'])).exit, 3);
    assert.equal(await readFile(join(folder.path, 'second.key'), 'utf8'), text);
  });

  test('show tells keys apart without showing them', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'sealed.key'), await quicklySealed('one two three'), { mode: 0o600 });
    const env = { HERS_PASSPHRASE: 'one two three' };
    const shown = await hersJson(folder, ['keys', 'show', '--key', 'sealed.key'], { env });
    assert.deepEqual(Object.keys(shown), ['key', 'sealed', 'fingerprint', 'mode', 'changed', 'collectionsSeen']);
    assert.match(shown.fingerprint, /^([0-9a-f]{4}-){3}[0-9a-f]{4}$/);
    assert.equal((await hersJson(folder, ['keys', 'show', '--key', 'sealed.key'])).fingerprint, null);
    const { out } = await hers(folder, ['keys', 'show']);
    assert.match(out, /^sealed\tno: whoever can read the file can read the galleries$/m);
    assert.match(out, /^permissions\t600$/m);
  });

  test('passphrase seals the same key by another', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'sealed.key'), await quicklySealed('one two three'), { mode: 0o600 });
    await writeFile(join(folder, 'phrase'), 'four five six\n', { mode: 0o600 });
    const key = ['--key', 'sealed.key'];
    const env = { HERS_PASSPHRASE: 'one two three' };
    const { fingerprint } = await hersJson(folder, ['keys', 'show', ...key], { env });
    assert.equal(
      (await hers(folder, ['keys', 'passphrase', ...key, '--new-passphrase-file', 'phrase'], { env })).exit,
      0,
    );
    assert.equal(modeOf(join(folder, 'sealed.key')), 0o600);
    assert.equal((await hers(folder, ['keys', 'show', ...key], { env })).exit, 4);
    const again = await hersJson(folder, ['keys', 'show', ...key, '--passphrase-file', 'phrase'], { env });
    assert.equal(again.fingerprint, fingerprint);
  });

  test('a passphrase can be taken away, and the gallery still opens', async () => {
    const folder = await prepared.copy();
    const key = join(folder, 'hers.key');
    await writeFile(key, await quicklySealed('secret words', await readFile(key, 'utf8')));
    const open = { env: { HERS_PASSPHRASE: 'secret words' } };
    assert.equal((await hers(folder, ['count'])).exit, 4);
    assert.equal((await hers(folder, ['count'], open)).out, '12\n');
    assert.match((await hers(folder, ['keys', 'passphrase', '--unsealed'], open)).out, /no passphrase any more/);
    assert.equal((await hers(folder, ['count'])).out, '12\n');
  });

  test('rotate re-encrypts, and everything is found as before', async () => {
    const folder = await prepared.copy();
    const first = await hersJson(folder, ['keys', 'rotate']);
    assert.deepEqual(Object.keys(first), ['collection', 'epoch', 'seconds']);
    assert.equal(first.epoch, 1);
    assert.match((await hers(folder, ['keys', 'rotate'])).out, /^faces is encrypted under key number 3; that took /);
    assert.match((await hers(folder, ['search', 'probes.npy', '--row', '2'])).out, /^barbara\t/);
  });
});

describe('collections', () => {
  test('create, list, describe, delete', async () => {
    const folder = await prepared.copy();
    const args = 'collections create prints --dimension 8 --metric euclidean --norm-bound 10 --profile exact'.split(
      ' ',
    );
    const created = await hersJson(folder, args);
    assert.equal(created.name, 'prints');
    assert.equal(created.plan.security.secure, true);
    const { out } = await hers(folder, ['collections', 'list']);
    assert.deepEqual(
      out.split('\n').map((line) => line.split('\t').slice(0, 5).join(' ')),
      ['faces 12 128 cosine compact', 'prints 0 8 euclidean exact', 'tiny 2 4 cosine compact', ''],
    );
    const { collections } = await hersJson(folder, ['collections', 'list']);
    assert.deepEqual(Object.keys(collections[0]), [
      ...['name', 'dimension', 'metric', 'profile', 'integrity', 'fields', 'records'],
      ...['blocks', 'bytes', 'version'],
    ]);
    assert.match((await hers(folder, ['collections', 'describe'])).out, /^name\tfaces\nrecords\t12\n/);
    assert.equal((await hersJson(folder, ['collections', 'describe', 'tiny'])).dimension, 4);

    assert.equal((await hers(folder, ['collections', 'delete', 'tiny'])).exit, 2);
    assert.deepEqual(await hersJson(folder, ['collections', 'delete', 'tiny', '--yes']), { deleted: 'tiny' });
    assert.equal((await hers(folder, ['collections', 'describe', 'tiny'])).exit, 3);
  });
});

describe('import', () => {
  test('.npy with names in a file', async () => {
    await using folder = await temporaryFolder();
    await writeData(folder.path);
    await hers(folder.path, ['init', '--unsealed']);
    await hers(folder.path, ['collections', 'create', 'faces', '--dimension', String(DIMENSION)]);
    const { out } = await hers(folder.path, ['import', 'vectors.npy', '--ids', 'names.txt']);
    assert.match(out, /^12 records new; faces holds 12\. That took .*\.\n$/);
    const again = await hersJson(folder.path, ['import', 'people.csv', '--id', 'name', '--payload', 'city,since']);
    assert.deepEqual(
      { ...again, seconds: 0 },
      {
        ...{ collection: 'faces', written: 12, inserted: 0, replaced: 12, unchanged: 0, bad: 0, repeated: 0 },
        ...{ records: 12, pending: 12, seconds: 0 },
      },
    );
    const third = await hersJson(folder.path, ['import', 'people.csv', '--id', 'name', '--payload', 'city,since']);
    assert.deepEqual([third.written, third.unchanged], [0, 12]);
    const [ada] = (await hers(folder.path, ['get', 'ada', '--json'])).out.split('\n');
    assert.deepEqual(JSON.parse(ada).payload, { city: 'Delft', since: '1990' });
  });

  test('numbers of rows are ids where there are no others, with a prefix, from a row to a row', async () => {
    const folder = await prepared.copy();
    const args = ['import', 'vectors.npy', '--id-prefix', 'row-', '--skip', '3', '--limit', '2'];
    assert.equal((await hersJson(folder, args)).written, 2);
    const ids = (await hers(folder, ['list'])).out.trimEnd().split('\n');
    assert.deepEqual(ids.slice(12), ['row-3', 'row-4']);
  });

  test('rows have the ids of the file, and those without one are numbered where that is asked for', async () => {
    const folder = await prepared.copy();
    const tiny = ['--collection', 'tiny'];
    const importing = async (input: string | Uint8Array, ...args: string[]) => {
      await hers(folder, ['collections', 'delete', 'tiny', '--yes']);
      await hers(folder, ['collections', 'create', 'tiny', '--dimension', '4']);
      const { exit, err } = await hers(folder, ['import', '-', ...args, ...tiny], { input });
      const ids = (await hers(folder, ['list', ...tiny])).out.split('\n').slice(0, -1);
      return { exit, err, ids };
    };
    const numbered = async (input: string | Uint8Array, plain: string[], prefixed: string[]) => {
      const { exit, err, ids } = await importing(input);
      assert.deepEqual([exit, ids], [2, []], err);
      assert.match(err, / has no id; .*add one of --ids <file>, --row-ids and --id-prefix <text>\.\n$/);
      assert.deepEqual((await importing(input, '--row-ids')).ids, plain);
      assert.deepEqual((await importing(input, '--id-prefix', 'n-')).ids, prefixed);
    };
    await numbered(npy([vectorOf(1, 4), vectorOf(2, 4)], 4), ['0', '1'], ['n-0', 'n-1']);
    await numbered('1,2,3,4\n4,3,2,1\n', ['0', '1'], ['n-0', 'n-1']);
    await numbered('a,b,c,d\n1,2,3,4\n', ['0'], ['n-0']);
    await numbered('[1,2,3,4]\n{"vector":[4,3,2,1]}\n', ['0', '1'], ['n-0', 'n-1']);
    // Some have one. Nothing, and an empty cell, are none.
    await numbered('{"id":null,"vector":[1,2,3,4]}\n{"id":"b","vector":[4,3,2,1]}\n', ['0', 'b'], ['n-0', 'b']);
    await numbered('id,a,b,c,d\n,1,2,3,4\nb,4,3,2,1\n', ['0', 'b'], ['n-0', 'b']);
    // A file that begins with ids is taken until there is a row without one, as with any row that
    // cannot be used.
    const mixed = '{"id":"a","vector":[1,2,3,4]}\n[4,3,2,1]\n{"id":"c","vector":[1,1,2,3]}\n';
    const stopped = await importing(mixed);
    assert.deepEqual([stopped.exit, stopped.ids], [5, []]);
    assert.match(stopped.err, /line 2 has no id; nothing was written; .*--row-ids.*--skip-bad\.\n$/);
    assert.deepEqual((await importing(mixed, '--row-ids')).ids, ['a', '1', 'c']);
    const left = await importing(mixed, '--skip-bad');
    assert.deepEqual([left.exit, left.ids], [0, ['a', 'c']]);
    assert.match(left.err, /left out: standard input, line 2 has no id/);
    // None has one: that is no row to be left out, but an import that nobody meant.
    assert.equal((await importing('[1,2,3,4]\n', '--skip-bad')).exit, 2);
    // Rows that are left out at the start do not matter, and count where rows are numbered.
    assert.deepEqual((await importing('[1,2,3,4]\n{"id":"b","vector":[4,3,2,1]}\n', '--skip', '1')).ids, ['b']);
    assert.deepEqual((await importing('1,2,3,4\n4,3,2,1\n', '--row-ids', '--skip', '1')).ids, ['1']);
    assert.deepEqual((await importing('0,0,0,0\n4,3,2,1\n', '--row-ids', '--skip-bad')).ids, ['1']);
  });

  test('rows without ids cost no passphrase, and two files with prefixes do not meet', async () => {
    const folder = await prepared.copy();
    const { exit, err } = await hers(folder, ['import', 'vectors.npy', '--key', 'no.key']);
    assert.equal(exit, 2);
    assert.equal(
      err,
      'hers: vectors.npy, row 0 has no id; add one of --ids <file>, --row-ids and --id-prefix <text>.\n',
    );
    for (const prefix of ['a-', 'b-']) await hersJson(folder, ['import', 'vectors.npy', '--id-prefix', prefix]);
    assert.equal((await hers(folder, ['count'])).out, '36\n');
  });

  test('it says how many records are new, replaced and unchanged', async () => {
    const folder = await prepared.copy();
    const tiny = ['--collection', 'tiny'];
    const rows = (records: Record<string, number>) =>
      Object.entries(records).map(([id, x]) => `${JSON.stringify({ id, vector: [x, 1, 1, 1] })}\n`);
    const importing = async (input: string) => (await hers(folder, ['import', '-', ...tiny], { input })).out;
    assert.match(await importing(rows({ a: 1, b: 1, c: 1 }).join('')), /^3 records new; tiny holds 5\. That took /);
    const mixed = rows({ a: 1, b: 2, d: 1 }).join('');
    assert.match(await importing(mixed), /^1 record new, 1 replaced, 1 unchanged; tiny holds 6\. That took /);
    assert.match(await importing(mixed), /^0 records new, 3 unchanged; tiny holds 6\. /);
    await hers(folder, ['delete', 'a', ...tiny]);
    const input = [...rows({ a: 1, b: 3, e: 1 }), ...rows({ e: 2, b: 2 })].join('');
    const { written, inserted, replaced, unchanged, repeated, records } = await hersJson(
      folder,
      ['import', '-', ...tiny],
      { input },
    );
    assert.deepEqual(
      { written, inserted, replaced, unchanged, repeated, records },
      { written: 2, inserted: 2, replaced: 0, unchanged: 1, repeated: 2, records: 7 },
    );
  });

  test('payloads from a .jsonl, ids from a .csv', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'extra.jsonl'), PEOPLE.map((_, i) => `${JSON.stringify({ i })}\n`).join(''));
    const args = ['import', 'vectors.npy', '--ids', 'people.csv', '--id', 'name', '--payloads', 'extra.jsonl'];
    assert.equal((await hersJson(folder, args)).written, 12);
    assert.deepEqual(JSON.parse((await hers(folder, ['get', 'emmy', '--json'])).out).payload, { i: 6 });
  });

  test('ids of --ids win over those in the file', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'other.txt'), PEOPLE.map((name) => `${name}-2\n`).join(''));
    await hersJson(folder, ['import', 'people.jsonl', '--ids', 'other.txt']);
    assert.equal((await hers(folder, ['count'])).out, '24\n');
    assert.equal((await hers(folder, ['get', 'ada-2'])).exit, 0);
  });

  test('rows of a slow pipe are counted as they arrive', async () => {
    const folder = await prepared.copy();
    let shown = '';
    const write = (chunk: Buffer | string, _: string, done: () => void) => {
      shown += chunk;
      done();
    };
    const slow = async function* () {
      for (const wait of [0, 600, 900]) {
        await pause(wait);
        yield Buffer.from(`{"id":"slow${wait}","vector":[1,2,3,${wait}]}\n`);
      }
      await pause(400);
    };
    const exit = await run(['import', '-', '--collection', 'tiny'], {
      cwd: folder,
      env: {},
      stdin: Readable.from(slow()),
      stdout: new Writable({ write }),
      stderr: Object.assign(new Writable({ write }), { isTTY: true, columns: 100 }),
      signal: new AbortController().signal,
    });
    assert.equal(exit, 0, shown);
    assert.match(stripVTControlCharacters(shown), /Encrypting {2}2 records.*Encrypting {2}3 records.*3 records new/s);
  });

  test('a stream of .npy, .csv or .jsonl on standard input', async () => {
    const folder = await prepared.copy();
    const tiny = ['--collection', 'tiny'];
    const vectors = npy([vectorOf(1, 4), vectorOf(2, 4)], 4);
    assert.equal((await hersJson(folder, ['import', '-', '--id-prefix', 'n', ...tiny], { input: vectors })).written, 2);
    const csv = 'id,a,b,c,d\nc1,1,2,3,4\n';
    assert.equal((await hersJson(folder, ['import', '-', ...tiny], { input: csv })).written, 1);
    const jsonl = '{"id":"j1","vector":[4,3,2,1],"payload":"text"}\n';
    assert.equal((await hersJson(folder, ['import', '-', ...tiny], { input: jsonl })).written, 1);
    assert.equal((await hers(folder, ['count', ...tiny])).out, '6\n');
  });

  test('--skip-bad leaves out what cannot be used, and says so', async () => {
    const folder = await prepared.copy();
    const input =
      '{"id":"a","vector":[1,2,3,4]}\n{"id":"b","vector":[0,0,0,0]}\n{"id":"c","vector":[1,2]}\n{"id":"a","vector":[1,1,1,1]}\n';
    const { exit, out, err } = await hers(folder, ['import', '-', '--skip-bad', '--collection', 'tiny', '--json'], {
      input,
    });
    assert.equal(exit, 0);
    const { written, bad, repeated } = JSON.parse(out);
    assert.deepEqual({ written, bad, repeated }, { written: 1, bad: 2, repeated: 1 });
    assert.match(err, /line 2: its vector is zero/);
    assert.match(err, /line 3: its vector has 2 coordinates, and the collection takes 4/);
  });

  test('what the client refuses of a row is told with the row, in every format, and left out by --skip-bad', async () => {
    const folder = await prepared.copy();
    await hersJson(folder, 'collections create typed -d 2 --field age:number'.split(' '));
    const wide = 'x'.repeat(2000);
    const bad = [Number.NaN, 0];
    const lines = [
      { id: 'a', vector: [1, 0] },
      { id: 'b', vector: [0, 0] },
      { id: wide, vector: [1, 0] },
      { id: 'd', vector: [1, 0], payload: { age: 'old' } },
      { id: 'e', vector: [1] },
      { id: 'f', vector: [0, 1] },
    ];
    const zero = 'its vector is zero';
    const long = 'a record id has at most 1024 bytes';
    const age = 'the record "d" has a value in the field "age" that is not a finite number';
    await writeFile(join(folder, 'ids.txt'), ['a', 'b', wide, 'd'].join('\n'));
    await writeFile(join(folder, 'payloads.jsonl'), [1, 2, 3, '"old"'].map((each) => `{"age": ${each}}`).join('\n'));
    for (const [format, input, more, refused, kept] of [
      [
        'jsonl',
        lines.map((line) => JSON.stringify(line)).join('\n'),
        [],
        [`line 2: ${zero}`, `line 3: ${long}`, `line 4: ${age}`, 'line 5: its vector has 1 coordinates'],
        'a f',
      ],
      [
        'csv',
        `id,x,y,age\na,1,0,1\nb,0,0,1\n${wide},1,0,1\nd,1,0,old\nf,0,1,\n`,
        ['--payload', 'age'],
        [`line 3: ${zero}`, `line 4: ${long}`, `line 5: ${age}`],
        'a f',
      ],
      [
        'npy',
        npy(
          [[1, 0], bad, [1, 0], [0, 1]].map((row) => Float32Array.from(row)),
          2,
        ),
        ['--ids', 'ids.txt', '--payloads', 'payloads.jsonl'],
        ['row 1: its vector holds NaN', `row 2: ${long}`, `row 3: ${age}`],
        'a',
      ],
    ] as const) {
      const args = ['import', '-', '-c', 'typed', '--format', format, ...more];
      const stopped = await hers(folder, args, { input });
      assert.equal(stopped.exit, 5, stopped.err);
      assert.ok(stopped.err.startsWith(`hers: standard input, ${refused[0]}`), stopped.err);
      assert.match(stopped.err, /; nothing was written; correct it, or leave such rows out with --skip-bad\.\n$/);
      const { exit, out, err } = await hers(folder, [...args, '--skip-bad', '--json'], { input });
      assert.deepEqual([exit, JSON.parse(out).bad], [0, refused.length], err);
      const told = err.split('\n').filter((line) => line.startsWith('left out: '));
      assert.equal(told.length, refused.length, err);
      for (const [i, what] of refused.entries())
        assert.ok(told[i]!.startsWith(`left out: standard input, ${what}`), told[i]);
      assert.ok(!err.includes('correct it'), err);
      assert.equal((await hers(folder, ['list', '-c', 'typed'])).out, `${kept.replace(' ', '\n')}\n`);
      await hers(folder, ['delete', ...kept.split(' '), '-c', 'typed', '--yes']);
    }
  });

  test('a row without an id is left out by --skip-bad, also where the row before it was', async () => {
    const folder = await prepared.copy();
    const input = '{"id":"a","vector":[0,0,0,0]}\n[4,3,2,1]\n{"id":"c","vector":[1,1,2,3]}\n';
    const { exit, out } = await hers(folder, ['import', '-', '--skip-bad', '-c', 'tiny', '--json'], { input });
    assert.equal(exit, 0);
    const { written, bad } = JSON.parse(out);
    assert.deepEqual([written, bad], [1, 2]);
  });

  test('--skip-bad leaves out lines that cannot even be read, names them, and keeps rows and names together', async () => {
    const folder = await prepared.copy();
    const tiny = ['--skip-bad', '--collection', 'tiny', '--json'];
    const importing = async (input: string | Uint8Array, ...args: string[]) => {
      const { exit, out, err } = await hers(folder, ['import', '-', ...args, ...tiny], { input });
      assert.equal(exit, 0, err);
      const { written, bad } = JSON.parse(out);
      return {
        written,
        bad,
        lines: [...err.matchAll(/left out: standard input, (lines? \d+(?: to \d+)?)/g)].map(([, line]) => line),
      };
    };
    const json = [
      '{"id":"j0","vector":[1,2,3,4]}',
      '{"id":"j1","vector":[1,2,3',
      'null',
      '',
      '{"id":{},"vector":[1,2,3,4]}',
      '{"id":"j5","vector":[1,2,3,null]}',
      '\xff\xfe',
      '{"id":"half \\ud800","vector":[1,2,3,4]}',
      `{"id":"${'long'.repeat(300)}","vector":[1,2,3,4]}`,
      '{"id":"j7","vector":[4,3,2,1]}',
    ];
    assert.deepEqual(await importing(Buffer.from(json.join('\r\n'), 'latin1')), {
      written: 2,
      bad: 7,
      lines: [2, 3, 5, 6, 7, 8, 9].map((line) => `line ${line}`),
    });
    const csv = [
      'id,a,b,c,d',
      'c0,1,2,3,4',
      'c1,1,2,3',
      'c2,"1"x,2,3,4',
      'c3,1,2,three,4',
      'c4,4,3,2,1',
      '"c5',
      'x",1,2,3',
      'c7,9,9,9,8',
    ];
    assert.deepEqual(await importing(csv.join('\n'), '--format', 'csv'), {
      written: 3,
      bad: 4,
      lines: ['line 3', 'line 4', 'line 5', 'lines 7 to 8'],
    });
    const unclosed = await hers(folder, ['import', '-', '--format', 'csv', ...tiny], {
      input: `${csv[0]}\n"c6,1,2,3,4\n`,
    });
    assert.equal(unclosed.exit, 5);
    assert.match(unclosed.err, /line 2: a quotation mark is not closed/);
    await writeFile(join(folder, 'four.txt'), 'n0\nn1\nn2\nn3\n');
    const rows = '[1,2,3,4]\n[broken\n[0,0,0,0]\n[4,3,2,1]\n';
    assert.deepEqual(await importing(rows, '--ids', 'four.txt'), { written: 2, bad: 2, lines: ['line 2', 'line 3'] });
    const ids = (await hers(folder, ['list', '--collection', 'tiny'])).out.trim().split('\n').sort();
    assert.deepEqual(ids, ['0', '1', 'c0', 'c4', 'c7', 'j0', 'j7', 'n0', 'n3']);
    const { exit: tooMany, err: shifted } = await hers(folder, ['import', '-', '--ids', 'four.txt', ...tiny], {
      input: '[1,2,3,4]\n[4,3,2,1]\n',
    });
    assert.equal(tooMany, 5);
    assert.match(shifted, /four\.txt has more lines than standard input has rows/);
    // Where nothing at all could be used, the file is not what it was taken for.
    const { exit, err } = await hers(folder, ['import', '-', '--format', 'jsonl', ...tiny], { input: 'a\nb\n' });
    assert.equal(exit, 5);
    assert.match(err, /none of the 2 rows could be used/);
  });
});

describe('search and verify', () => {
  test('with a row, a vector, a pipe, a whole file', async () => {
    const folder = await prepared.copy();
    const { exit, out, err } = await hers(folder, ['search', 'probes.npy', '--row', '1', '--limit', '2']);
    assert.deepEqual([exit, err], [0, '']);
    assert.match(out, /^alan\t0\.\d{1,4}\n[a-z]+\t-?0\.\d+\n$/);
    const tiny = ['--collection', 'tiny', '--limit', '1'];
    assert.match((await hers(folder, ['search', '[0.9, 0.1, 0, 0]', ...tiny])).out, /^0\t0\.99\d*\n$/);
    assert.match((await hers(folder, ['search', '0.1 0.9 0 0', ...tiny])).out, /^1\t/);
    assert.match((await hers(folder, ['search', '-', ...tiny], { input: '[0,1,0,0]' })).out, /^1\t1\n$/);
    const batch = await hers(folder, ['search', 'probes.npy', '--batch', '--limit', '1']);
    assert.deepEqual(
      batch.out
        .trimEnd()
        .split('\n')
        .map((line) => line.split('\t').slice(0, 2).join(' ')),
      ['0 ada', '1 alan', '2 barbara', '3 claude'],
    );
  });

  test('as JSON: one object for every probe', async () => {
    const folder = await prepared.copy();
    const { out } = await hers(folder, [
      'search',
      'probes.npy',
      '--batch',
      '--limit',
      '2',
      '--payload',
      '--rerank',
      '--json',
    ]);
    const lines = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.equal(lines.length, 4);
    assert.deepEqual(Object.keys(lines[0]), ['probe', 'matches', 'coverage', 'pending', 'fetched']);
    assert.deepEqual(lines[0].coverage, { searched: 12, total: 12 });
    assert.deepEqual(lines[0].matches[0], {
      ...{ id: 'ada', score: lines[0].matches[0].score, scoreOrigin: 'recomputed', payload: { city: 'Delft' } },
    });
    const [labelled] = (await hers(folder, ['search', 'people.jsonl', '--batch', '--json'])).out.split('\n');
    assert.equal(JSON.parse(labelled).probe, 'ada');
  });

  test('fetching stops when a match is good enough, and that needs fetching', async () => {
    const folder = await prepared.copy();
    const best = ['search', 'probes.npy', '--row', '0', '--limit', '1', '--json'];
    await hers(folder, ['collections', 'create', 'exact', '--dimension', '128', '--profile', 'exact']);
    await hers(folder, ['import', 'people.jsonl', '--collection', 'exact']);
    await hers(folder, ['optimize', '--collection', 'exact']);
    const { out, err } = await hers(folder, [...best, '--collection', 'exact', '--rerank', '12', '--enough', '0.5']);
    const { matches, fetched } = JSON.parse(out || err);
    assert.equal(matches[0].id, 'ada');
    assert.equal(fetched, 12);
    const compact = await hers(folder, [...best, '--rerank', '12', '--enough', '0.5']);
    assert.match(compact.err, /enough needs the profile exact/);
    const wrong = await hers(folder, [...best, '--enough', '0.5']);
    assert.equal(wrong.exit, 2);
    assert.match(wrong.err, /enough is about full vectors: it needs rerank/);
  });

  test('a threshold leaves out the rest, and nothing is no error', async () => {
    const folder = await prepared.copy();
    const good = await hers(folder, ['search', 'probes.npy', '--row', '0', '--threshold', '0.5']);
    assert.equal(good.out.split('\n').length, 2);
    assert.deepEqual((await hers(folder, ['search', 'probes.npy', '--row', '0', '--threshold', '1.5'])).out, '');
  });

  test('verify says yes with 0 and no with 1', async () => {
    const folder = await prepared.copy();
    const yes = await hers(folder, ['verify', 'ada', 'probes.npy', '--row', '0', '--threshold', '0.5']);
    assert.equal(yes.exit, 0);
    assert.match(yes.out, /^match\tyes\nscore\t0\.9\d*\n$/);
    const no = await hers(folder, ['verify', 'alan', 'probes.npy', '--row', '0', '--threshold', '0.5', '--json']);
    assert.equal(no.exit, 1);
    const { match, score, ...rest } = JSON.parse(no.out);
    assert.equal(match, false);
    assert.ok(score < 0.5);
    assert.deepEqual(rest, { id: 'alan', scoreOrigin: 'noisy' });
    assert.match((await hers(folder, ['verify', 'alan', 'probes.npy', '--row', '0'])).out, /^score\t/);
    assert.equal((await hers(folder, ['verify', 'nobody', 'probes.npy', '--row', '0'])).exit, 3);
  });
});

describe('records', () => {
  test('get, one line or one object each; 1 when one is missing', async () => {
    const folder = await prepared.copy();
    const { exit, out } = await hers(folder, ['get', 'ada']);
    assert.equal(exit, 0);
    const [id, vector, payload] = out.trimEnd().split('\t');
    assert.deepEqual([id, payload], ['ada', '{"city":"Delft"}']);
    assert.equal(vector.split(' ').length, DIMENSION);
    const two = await hers(folder, ['get', 'ada', 'nobody', 'alan', '--json']);
    assert.equal(two.exit, 1);
    assert.match(two.err, /1 id not found/);
    assert.deepEqual(
      two.out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).id),
      ['ada', 'alan'],
    );
    assert.deepEqual(JSON.parse(two.out.split('\n')[0]).vector, [...vectorOf(0)]);
  });

  test('get writes all vectors to a .npy that is the one they came from', async () => {
    const folder = await prepared.copy();
    const { out } = await hers(folder, ['get', '--all', '--output', 'copy.npy']);
    assert.match(out, /^12 vectors written to /);
    assert.deepEqual(await readFile(join(folder, 'copy.npy')), await readFile(join(folder, 'vectors.npy')));
    assert.equal(modeOf(join(folder, 'copy.npy')), 0o600);
    assert.equal((await hers(folder, ['get', '--all', '--output', 'copy.npy'])).exit, 3);
  });

  test('delete, count, list', async () => {
    const folder = await prepared.copy();
    assert.equal((await hers(folder, ['delete', 'ada', 'nobody'])).out, '1 record deleted, 1 not there.\n');
    await writeFile(join(folder, 'gone.txt'), 'alan\nemmy\n');
    assert.deepEqual(await hersJson(folder, ['delete', '--ids', 'gone.txt']), { deleted: 2, missing: 0 });
    assert.deepEqual(await hersJson(folder, ['count']), { records: 9, pending: 0 });
    const { out } = await hers(folder, ['list', '--json']);
    const left = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).id);
    assert.deepEqual(
      left,
      PEOPLE.filter((name) => !['ada', 'alan', 'emmy'].includes(name)),
    );
  });

  test('ids and payloads cannot steer a terminal or break a line', async () => {
    const folder = await prepared.copy();
    const id = 'evil\u001b[2J\tid\nnext\u202e';
    const input = JSON.stringify({ id, vector: [1, 2, 3, 4], payload: '\u001b]0;title\u0007' });
    await hersJson(folder, ['import', '-', '--collection', 'tiny'], { input });
    const { out } = await hers(folder, ['list', '--collection', 'tiny']);
    assert.equal(out.split('\n')[2], 'evil\\u001b[2J\\tid\\nnext\\u202e');
    const found = await hers(folder, ['search', '[1,2,3,4]', '--limit', '1', '--payload', '--collection', 'tiny']);
    assert.equal(found.out.split('\t').length, 3);
    for (const character of ['\u001b', '\u0007', '\u202e']) assert.ok(!found.out.includes(character));
    assert.equal(JSON.parse((await hers(folder, ['get', id, '--collection', 'tiny', '--json'])).out).id, id);
  });
});

describe('upkeep', () => {
  test('optimize, and what was deleted is gone from the disk', async () => {
    const folder = await prepared.copy();
    await hers(folder, ['delete', 'ada']);
    const report = await hersJson(folder, ['optimize']);
    assert.deepEqual(Object.keys(report), ['collection', 'records', 'blocks', 'bytes', 'bytesBefore', 'seconds']);
    assert.deepEqual([report.records, report.blocks], [11, 1]);
    assert.match((await hers(folder, ['optimize'])).out, /^faces: 11 records in 1 block, .* on disk/);
  });

  test('import --optimize leaves nothing pending, and what is found is found encrypted', async () => {
    const folder = await prepared.copy();
    const people = ['p', 'q', 'r'].map((id, i) => ({ id, vector: [0, 1, 2, 3].map((k) => Number(k === i)) }));
    const input = people.map((each) => JSON.stringify(each)).join('\n');
    const found = async () => {
      const { out, err } = await hers(folder, ['search', '[0,0.1,1,0]', '--limit', '1', '-c', 'tiny']);
      const [id, score] = out.trimEnd().split('\n').at(-1)!.split('\t');
      return { id, score: Number(score), err };
    };
    assert.match(
      (await hers(folder, ['import', '-', '-c', 'tiny'], { input })).err,
      /5 of 5 records are pending: searches compare them here, in the clear, until hers optimize/,
    );
    assert.deepEqual(await hersJson(folder, ['count', '-c', 'tiny']), { records: 5, pending: 5 });
    const before = await found();
    assert.match(before.err, /5 of 5 records are pending/);

    const { pending } = await hersJson(folder, ['import', '-', '-c', 'tiny', '--optimize'], { input });
    assert.equal(pending, 0);
    assert.deepEqual(await hersJson(folder, ['count', '-c', 'tiny']), { records: 5, pending: 0 });
    assert.equal((await hersJson(folder, ['collections', 'describe', 'tiny'])).blocks, 1);
    const after = await found();
    assert.doesNotMatch(after.err, /pending/);
    assert.deepEqual([before.id, after.id], ['r', 'r']);
    assert.ok(Math.abs(after.score - before.score) < 0.05, `${after.score} was ${before.score}`);
  });

  test('snapshot and restore, through files and pipes', async () => {
    const folder = await prepared.copy();
    const { bytes } = await hersJson(folder, ['snapshot', 'faces.snapshot']);
    const { size, mode } = await stat(join(folder, 'faces.snapshot'));
    assert.deepEqual([size, mode & 0o777], [bytes, 0o600]);
    assert.equal((await hers(folder, ['snapshot', 'faces.snapshot'])).exit, 3);
    assert.equal((await hers(folder, ['snapshot', 'faces.snapshot', '--replace'])).exit, 0);
    const piped = await hersBytes(folder, ['snapshot', '-']);
    assert.deepEqual(piped.out, await readFile(join(folder, 'faces.snapshot')));

    await hersJson(folder, ['collections', 'delete', 'faces', '--yes']);
    assert.deepEqual(await hersJson(folder, ['restore', 'faces.snapshot']), { collection: 'faces', records: 12 });
    assert.match((await hers(folder, ['search', 'probes.npy', '--row', '0'])).out, /^ada\t/);
    assert.equal((await hers(folder, ['restore', 'faces.snapshot'])).exit, 3);
    const again = await hers(folder, ['restore', '-', '--as', 'copy'], { input: piped.out });
    assert.equal(again.out, 'copy holds 12 records.\n');
  });

  test('an older snapshot is refused until it is meant, and leaves nothing behind', async () => {
    const folder = await prepared.copy();
    await hersJson(folder, ['collections', 'delete', 'faces', '--yes']);
    const { exit, err } = await hers(folder, ['restore', 'old-faces.snapshot']);
    assert.equal(exit, 6);
    assert.match(err, /is of version 2, and version \d of the collection was seen.*--accept-older/);
    assert.equal((await hers(folder, ['collections', 'describe', 'old-faces'])).exit, 3);
    assert.equal((await hersJson(folder, ['restore', 'old-faces.snapshot', '--accept-older'])).records, 12);
    assert.equal((await hers(folder, ['count', '--collection', 'old-faces'])).out, '12\n');
  });
});

describe('doctor', () => {
  test('finds nothing wrong where nothing is, and reads every byte when asked to', async () => {
    const folder = await prepared.copy();
    const { healthy, findings } = await hersJson(folder, ['doctor', '--scrub']);
    assert.equal(healthy, true);
    const checks = findings.map(({ check }: { check: string }) => check);
    assert.deepEqual(checks, [
      ...['versions', 'processor', 'kernel', 'cryptography', 'configuration', 'key', 'gallery'],
      ...['collection faces', 'collection tiny', 'scrub', 'seals faces', 'seals tiny', 'disk', 'memory'],
    ]);
    for (const { level, advice } of findings) assert.equal(advice !== undefined, level !== 'ok');
  });

  test('without reading them, finds files that are missing or cut', async () => {
    const folder = await prepared.copy();
    assert.match((await hers(folder, ['doctor'])).out, /^ok\tfiles\t\d+ files, there and as long as /m);
    const [pack] = await readdir(join(folder, 'gallery/vault'));
    const [block] = await readdir(join(folder, 'gallery/blocks'));
    await truncate(join(folder, 'gallery/vault', pack), 50);
    await unlink(join(folder, 'gallery/blocks', block));
    const { exit, out } = await hers(folder, ['doctor']);
    assert.equal(exit, 1);
    assert.match(
      out,
      new RegExp(`^problem\tfile vault/${pack}\t.*it has 50 bytes and should have \\d+;.*\thers doctor --repair`, 'm'),
    );
    assert.match(out, new RegExp(`^problem\tfile blocks/${block}\t.*it is missing;`, 'm'));
  });

  test('mentions who writes to the gallery', async () => {
    const folder = await prepared.copy();
    assert.doesNotMatch((await hers(folder, ['doctor'])).out, /\twriter\t/);
    await using store = await openStore(join(folder, 'gallery'));
    assert.equal(store.isReadOnly, false);
    const { exit, out } = await hers(folder, ['doctor']);
    assert.equal(exit, 0, out);
    assert.match(out, /^note\twriter\twritten by this process\t/m);
  });

  test('a gallery that cannot be written is worth a note', {
    skip: isRoot && 'nothing is forbidden to root',
  }, async () => {
    const folder = await prepared.copy();
    await chmod(join(folder, 'gallery'), 0o500);
    const { exit, out } = await hers(folder, ['doctor']);
    await chmod(join(folder, 'gallery'), 0o700);
    assert.equal(exit, 0, out);
    assert.match(out, /^note\tdisk\t.*gallery is read-only, or belongs to another user\tit can be searched;/m);
  });

  test('finds what is wrong, with what to do about it', async () => {
    await using folder = await temporaryFolder();
    const { exit, out } = await hers(folder.path, ['doctor']);
    assert.equal(exit, 1);
    assert.match(out, /^problem\tkey\tthere is no key file .*\tname yours with --key/m);
    assert.match(out, /^problem\tgallery\tthere is no gallery at .*\thers init makes one/m);
  });

  test('finds a byte that was changed in any file, with the key and without it', async () => {
    const folder = await prepared.copy();
    const gallery = join(folder, 'gallery');
    const entries = await readdir(gallery, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    // The end of the journal may be torn by a crash; the rest of these hold nothing.
    const whole = files.filter((file) => !/\/(catalogue\.journal|lock|writer|reserve)$/.test(file));
    assert.ok(whole.length === 6, whole.join());
    for (const [i, file] of whole.entries()) {
      const bytes = await readFile(file);
      await writeFile(
        file,
        bytes.map((byte, at) => (at === Math.floor(0.7 * bytes.length) ? byte ^ 4 : byte)),
      );
      const key = i % 2 === 0 ? [] : ['--key', 'none.key'];
      const { exit, out } = await hers(folder, ['doctor', '--scrub', '--json', ...key]);
      assert.equal(exit, 1, file);
      const bad = JSON.parse(out).findings.filter(({ level }: { level: string }) => level === 'problem');
      const name = file.slice(gallery.length + 1);
      assert.ok(
        bad.some(({ found }: { found: string }) => found.includes(`${name} is damaged`)),
        `${name}: ${JSON.stringify(bad)}`,
      );
      await writeFile(file, bytes);
    }
    assert.equal((await hers(folder, ['doctor', '--scrub'])).exit, 0);
  });

  test('tells of a collection that is lost with a page of the catalogue, and so does every other command', async () => {
    const folder = await prepared.copy();
    const file = join(folder, 'gallery/catalogue.db');
    const bytes = await readFile(file);
    const tried: string[] = [];
    for (let page = 2 * 4096; page < bytes.length; page += 4096) {
      await writeFile(file, Buffer.from(bytes).fill(0x55, page + 100, page + 110));
      const { exit, out } = await hers(folder, ['doctor']);
      assert.equal(exit, 1);
      assert.match(out, /^problem\tgallery\tcatalogue\.db is damaged/m);
      const [, lost] = /^problem\tcollection (\w+)\t/m.exec(out) ?? [];
      if (lost === undefined) continue;
      const other = lost === 'faces' ? 'tiny' : 'faces';
      const { exit: done, err } = await hers(folder, ['count', '--collection', other]);
      assert.equal(done, 0, err);
      assert.match(err, new RegExp(`the collection ${lost} is damaged`));
      assert.equal((await hers(folder, ['count', '--collection', lost])).exit, 6);
      tried.push(lost);
      if (tried.length === 4) break;
    }
    assert.equal(tried.length, 4);
  });

  test('finds bytes that were changed in several files, and names the files', async () => {
    const folder = await prepared.copy();
    const vault = join(folder, 'gallery/vault');
    for (const name of await readdir(vault)) {
      const pack = await readFile(join(vault, name));
      pack[Math.floor(pack.length / 2)] ^= 1;
      await writeFile(join(vault, name), pack);
    }
    const { exit, out } = await hers(folder, ['doctor', '--scrub', '--json']);
    assert.equal(exit, 1);
    const bad = JSON.parse(out).findings.filter(({ level }: { level: string }) => level === 'problem');
    assert.ok(
      bad.some(({ found }: { found: string }) => /vault\/\d+-\d+\.pack is damaged/.test(found)),
      out,
    );
  });

  test('says that a key can be read by others, or lies in the gallery', async () => {
    const folder = await prepared.copy();
    await chmod(join(folder, 'hers.key'), 0o644);
    assert.match((await hers(folder, ['doctor'])).out, /^problem\tkey\t.*can be read by other users\tchmod 600/m);
    await copyFile(join(folder, 'hers.key'), join(folder, 'gallery/vault/hers.key'));
    await chmod(join(folder, 'gallery/vault/hers.key'), 0o600);
    const { out } = await hers(folder, ['doctor', '--key', 'gallery/vault/hers.key']);
    assert.match(out, /^problem\tkey\t.*lies in the gallery\tmove it elsewhere/m);
    assert.ok(existsSync(join(folder, 'gallery/vault/hers.key')), 'and it is still there to be moved');
  });
});

describe('config and completion', () => {
  test('config tells each value and where it is from', async () => {
    const folder = await prepared.copy();
    const env = { HERS_KEY: 'other.key', HERS_THREADS: '2', HERS_PASSPHRASE: 'hush' };
    const { file, settings } = await hersJson(folder, ['config', '--threads', '1'], { env });
    assert.equal(file, join(folder, 'hers.config.json'));
    assert.deepEqual(settings, {
      gallery: { value: join(folder, 'gallery'), origin: file },
      key: { value: join(folder, 'other.key'), origin: 'HERS_KEY' },
      passphraseFile: { value: null, origin: 'not set' },
      collection: { value: 'faces', origin: file },
      onlyPartitions: { value: null, origin: 'not set' },
      threads: { value: '1', origin: '--threads' },
      kernel: { value: null, origin: 'not set' },
      deviceMemory: { value: null, origin: 'not set' },
      tokenFile: { value: null, origin: 'not set' },
      tokens: { value: join(folder, 'hers.tokens.json'), origin: 'default' },
      listCache: { value: 'on', origin: 'default' },
      passphrase: { value: '(hidden)', origin: 'HERS_PASSPHRASE' },
    });
    assert.match((await hers(folder, ['config'])).out, /^key\t.*hers\.key\t.*hers\.config\.json$/m);
  });

  test('versions and help on every level', async () => {
    const folder = await prepared.copy();
    assert.match((await hers(folder, ['--version'])).out, /^\d+\.\d+\.\d+\n$/);
    for (const args of [[], ['--help'], ['keys', '--help'], ['collections', 'create', '-h']]) {
      const { exit, out, err } = await hers(folder, args);
      assert.deepEqual([exit, err], [0, ''], args.join(' '));
      assert.match(out, /^Usage: hers/);
    }
  });

  test('nothing that is only looked at changes a folder', async () => {
    await using folder = await temporaryFolder();
    await hers(folder.path, ['config']);
    await hers(folder.path, ['completion', 'bash']);
    await hers(folder.path, ['collections', 'list']);
    assert.equal(existsSync(join(folder.path, 'gallery')), false);
  });
});
