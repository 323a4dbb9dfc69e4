// What goes wrong: each with its exit code, in one sentence that ends with the next step.

import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openStore } from '@hers/store';
import { hers, npy, Prepared, quicklySealed, temporaryFolder, vectorOf, writeGallery } from '../testing/cli.ts';
import { EXIT, type Exit } from './exit.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGallery);
});
after(() => prepared.remove());

/**
 * Fails as it should: the code, one sentence on standard error, nothing on standard output, the
 * same as JSON.
 */
async function fails(
  folder: string,
  args: readonly string[],
  exit: Exit,
  message: RegExp,
  options: { env?: Record<string, string>; input?: string | Uint8Array } = {},
): Promise<void> {
  const outcome = await hers(folder, args, options);
  assert.equal(outcome.exit, exit, outcome.err);
  assert.match(outcome.err, /^hers: [^\n]+\.\n$/);
  assert.match(outcome.err, message);
  assert.equal(outcome.out, '');
  const again = await hers(folder, [...args, '--json'], options);
  assert.equal(again.exit, exit);
  const { error } = JSON.parse(again.err);
  assert.equal(error.exit, exit);
  assert.match(`hers: ${error.message}; ${error.next}`, message);
  assert.match(error.code, /^[A-Z_]+$/);
}

describe('called wrongly', () => {
  for (const [what, args, message] of [
    ['an unknown command', ['serch'], /unknown command 'serch'.*Did you mean search.*`hers --help`/],
    ['an unknown option', ['count', '--fast'], /unknown option '--fast'.*`hers count --help`/],
    ['a missing argument', ['search'], /the argument <probe> is missing; `hers search --help`/],
    ['a missing option', ['collections', 'create', 'x'], /the option -d, --dimension <number> is required/],
    [
      'a number that is none',
      ['search', 'probes.npy', '--limit', 'many'],
      /--limit takes a whole number from 1 up, not "many"/,
    ],
    ['a row that is none', ['search', 'probes.npy', '--row', '-1'], /--row takes a whole number from 0 up, not "-1"/],
    [
      'a value that cannot be',
      ['collections', 'create', 'x', '-d', '4', '-m', 'hamming'],
      /-m, --metric <metric> takes one of cosine, dot, euclidean, not "hamming"/,
    ],
    [
      'a dimension that cannot be',
      ['collections', 'create', 'x', '--dimension', '5000'],
      /dimension must be a whole number from 2 to 4096/,
    ],
    ['a name that cannot be', ['collections', 'create', '../x', '--dimension', '4'], /a collection name has/],
    ['which row is meant', ['search', 'probes.npy'], /has 4 rows; choose one with --row/],
    ['both a row and all', ['search', 'probes.npy', '--row', '1', '--batch'], /exclude each other/],
    ['a row of a vector', ['search', '[1,2]', '--row', '1'], /--row goes with a file/],
    ['no ids', ['delete'], /no ids were given; name some/],
    [
      'rows without ids',
      ['import', 'vectors.npy'],
      /vectors\.npy, row 0 has no id; add one of --ids <file>, --row-ids and --id-prefix <text>/,
    ],
    [
      'rows numbered in two ways',
      ['import', 'vectors.npy', '--row-ids', '--id-prefix', 'a'],
      /--row-ids and --id-prefix exclude each other; give one of them/,
    ],
    [
      'rows that are named and numbered',
      ['import', 'vectors.npy', '--ids', 'names.txt', '--row-ids'],
      /--ids and --row-ids exclude each other/,
    ],
    [
      'rows that are named and numbered with a prefix',
      ['import', 'vectors.npy', '--ids', 'names.txt', '--id-prefix', 'a'],
      /--ids and --id-prefix exclude each other/,
    ],
    [
      'a column of ids, and numbers',
      ['import', 'people.csv', '--id', 'name', '--row-ids'],
      /--id and --row-ids exclude each other/,
    ],
    [
      'a prefix that is none',
      ['import', 'vectors.npy', '--id-prefix', ''],
      /--id-prefix takes some text; --row-ids numbers rows without any/,
    ],
    [
      'a limit beyond all bounds',
      ['search', 'probes.npy', '--row', '0', '--limit', '100000'],
      /limit is a whole number from 1 to 10000/,
    ],
    ['an address that is none', ['count', '--gallery', 'https://'], /is not the address of a server/],
    ['a kernel that is none', ['count', '--kernel', 'gpu'], /--kernel <name> takes one of .*, not "gpu"/],
    [
      'a delimiter that is none',
      ['import', 'people.csv', '--id', 'name', '--delimiter', 'ab'],
      /--delimiter takes one character, not "ab"/,
    ],
    [
      'payloads in a file of another kind',
      ['import', 'vectors.npy', '--row-ids', '--payloads', 'vectors.npy'],
      /vectors\.npy is neither \.jsonl nor \.csv; give payloads in one of these/,
    ],
    ['an unknown shell', ['completion', 'tcsh'], /<shell> is one of bash, zsh, fish, not "tcsh"/],
  ] as const) {
    test(what, async () => fails(await prepared.copy(), args, EXIT.usage, message));
  }

  test('several collections, and none named', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'hers.config.json'), '{}');
    await fails(
      folder,
      ['count'],
      EXIT.usage,
      /there are several collections \(faces, tiny\); say which with --collection/,
    );
  });
});

test('a snapshot and JSON on one stream', async () => {
  const { exit, err } = await hers(await prepared.copy(), ['snapshot', '-', '--json']);
  assert.equal(exit, EXIT.usage);
  assert.match(err, /cannot share standard output/);
});

describe('a configuration that makes no sense', () => {
  for (const [what, content, message] of [
    ['no JSON', '{', /is not JSON; the settings are gallery, key/],
    ['no object', '["gallery"]', /does not hold an object; the settings are gallery, key/],
    ['a setting nobody knows', '{"galery":"x"}', /has a setting "galery" that nobody knows; the settings are/],
    ['a secret', '{"passphrase":"hush"}', /holds passphrase; keep secrets out of it/],
    ['a wrong type', '{"gallery":{}}', /a gallery that is neither text nor a number/],
    ['a wrong value', '{"threads":"many"}', /threads is "many" \(from .*\) and must be a whole number/],
  ] as const) {
    test(what, async () => {
      await using folder = await temporaryFolder();
      await writeFile(join(folder.path, 'hers.config.json'), content);
      await fails(folder.path, ['config'], EXIT.usage, message);
    });
  }

  test('one that was named and is not there', async () => {
    const folder = await prepared.copy();
    await fails(folder, ['count', '--config', 'no.json'], EXIT.absent, /no configuration file .*no\.json/);
  });
});

describe('something is not there', () => {
  for (const [what, args, message] of [
    ['a file', ['import', 'nothing.npy'], /there is no .*nothing\.npy; check the path/],
    ['the folder of a new file', ['snapshot', 'nodir/faces.snapshot'], /there is no .*\/nodir; check the path/],
    ['a collection', ['count', '--collection', 'voices'], /"voices"/],
    ['a gallery', ['count', '--gallery', 'nowhere'], /there is no gallery at .*nowhere; `hers init` makes one/],
    ['a key', ['count', '--key', 'no.key'], /there is no key file .*no\.key; `hers init` makes one/],
    ['a record', ['verify', 'nobody', 'probes.npy', '--row', '0'], /there is no record "nobody"/],
    ['a row', ['search', 'probes.npy', '--row', '9'], /has no row 9; rows are counted from 0/],
    ['a collection to delete', ['collections', 'delete', 'voices', '--yes'], /"voices"/],
  ] as const) {
    test(what, async () => fails(await prepared.copy(), args, EXIT.absent, message));
  }

  test('any collection', async () => {
    await using folder = await temporaryFolder();
    await hers(folder.path, ['init', '--unsealed']);
    await fails(
      folder.path,
      ['count'],
      EXIT.absent,
      /no collection in this gallery yet; make one: `hers collections create/,
    );
  });

  test('or it is there already', async () => {
    const folder = await prepared.copy();
    await fails(folder, ['collections', 'create', 'faces', '--dimension', '4'], EXIT.absent, /"?faces"?/);
  });
});

describe('keys and passphrases', () => {
  test('a wrong passphrase, none at all, an empty file', async () => {
    const folder = await prepared.copy();
    const key = join(folder, 'hers.key');
    await writeFile(key, await quicklySealed('right', await readFile(key, 'utf8')));
    await fails(folder, ['count'], EXIT.key, /passphrase is wrong.*check --key and the passphrase/, {
      env: { HERS_PASSPHRASE: 'wrong' },
    });
    await fails(
      folder,
      ['count'],
      EXIT.key,
      /no terminal to ask for it; set HERS_PASSPHRASE, or name a file with --passphrase-file/,
    );
    await writeFile(join(folder, 'empty'), '\n', { mode: 0o600 });
    await fails(
      folder,
      ['count', '--passphrase-file', 'empty'],
      EXIT.key,
      /empty is empty; put the passphrase into it/,
    );
    await fails(folder, ['count', '--passphrase-file', 'none'], EXIT.absent, /there is no .*none/);
  });

  test('the key of somebody else', async () => {
    const folder = await prepared.copy();
    await hers(folder, ['keys', 'create', 'other.key', '--unsealed']);
    await fails(folder, ['count', '--key', 'other.key'], EXIT.key, /another key|wrong key/i);
    const listed = await hers(folder, ['collections', 'list', '--key', 'other.key']);
    assert.deepEqual([listed.exit, listed.out], [EXIT.key, '']);
    assert.match(listed.err, /no collection here was made with this key, and 2 were with another; check --key\.\n$/);
    assert.match(
      (await hers(folder, ['doctor', '--key', 'other.key'])).out,
      /^problem\tcollection faces\t.*\tit was made with another key: name that with --key$/m,
    );
  });

  test('files that are no keys', async () => {
    const folder = await prepared.copy();
    for (const content of ['', 'garbage', '{}', '{"format":"hers-key","version":1,"seed":"00"}']) {
      await writeFile(join(folder, 'bad.key'), content, { mode: 0o600 });
      await fails(
        folder,
        ['count', '--key', 'bad.key'],
        EXIT.key,
        /bad\.key: this is not a HERS key file; name another/,
      );
    }
    await writeFile(join(folder, 'bad.key'), '{"format":"hers-key","version":9}', { mode: 0o600 });
    await fails(folder, ['count', '--key', 'bad.key'], EXIT.key, /in another format; use the version that wrote it/);
    await fails(folder, ['count', '--key', 'gallery'], EXIT.usage, /gallery is a folder; name a file/);
    await fails(folder, ['count', '--config', 'gallery'], EXIT.usage, /gallery is a folder; name a file/);
    await fails(folder, ['count', '--collection', 'nobody'], EXIT.absent, /no collection "nobody".*collections list/);
    await fails(folder, ['search', ' '], EXIT.usage, /the probe is empty/);
  });
});

describe('data that cannot be used', () => {
  const tiny = ['--collection', 'tiny'];
  for (const [what, input, message] of [
    ['garbage', Buffer.from([0x80, 2, 0x7d, 0x71]), /in a format that cannot be told.*--format/],
    ['nothing', '', /standard input is empty/],
    [
      'a truncated .npy',
      npy([vectorOf(1, 4), vectorOf(2, 4)], 4).subarray(0, 150),
      /truncated: it should hold 2 rows and ends within row 1; nothing was written/,
    ],
    [
      'a row with NaN',
      npy([vectorOf(1, 4), new Float32Array(4).fill(Number.NaN)], 4),
      /row 1: its vector holds NaN.*nothing was written; correct it, or leave such rows out with --skip-bad/,
    ],
    ['a row of zeros', '1,2,3,4\n0,0,0,0\n', /line 2: its vector is zero/],
    ['another dimension', '1,2,3\n', /line 1: its vector has 3 coordinates, and the collection takes 4/],
    [
      'a field that would be lost',
      '{"id":"a","vector":[1,2,3,4],"city":"Delft"}',
      /line 1 has a field "city", which is neither id, vector nor payload; --payload names the fields to keep/,
    ],
    ['an empty id', '{"id":"","vector":[1,2,3,4]}', /line 1: a record id is a string that is not empty/],
  ] as const) {
    test(what, async () =>
      fails(await prepared.copy(), ['import', '-', '--row-ids', ...tiny], EXIT.input, message, { input }),
    );
  }

  test('many rows that cannot be used are left out where that is asked for, and the first few named', async () => {
    const folder = await prepared.copy();
    const rows = Array.from({ length: 30 }, (_, i) => (i % 2 === 0 ? '0,0,0,0' : `1,2,3,${i}`)).join('\n');
    const args = ['import', '-', '--row-ids', '--skip-bad', ...tiny];
    const { exit, err } = await hers(folder, args, { input: rows });
    const named = err.split('\n').filter((line) => /left out: .*line \d+: its vector is zero/.test(line));
    assert.equal(named.length, 10, err);
    assert.match(err, /left out: more, which are only counted\n/);
    assert.equal(err.match(/only counted/g)?.length, 1);
    // Of the two that were there, row 1 has replaced one.
    assert.equal((await hers(folder, ['count', ...tiny])).out, '16\n', `exit ${exit}: ${err}`);
  });

  test('a dimension that the file tells is told before anything is written', async () => {
    const folder = await prepared.copy();
    await fails(
      folder,
      ['import', 'vectors.npy', '--row-ids', ...tiny],
      EXIT.input,
      /vectors of 128 dimensions, and the collection takes 4/,
    );
  });

  test('ids and payloads that are not as many as the rows', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'few.txt'), 'ada\nalan\n');
    await fails(
      folder,
      ['import', 'vectors.npy', '--ids', 'few.txt'],
      EXIT.input,
      /few\.txt has 2 lines, and vectors\.npy has 12 rows; they must be as many/,
    );
    await fails(
      folder,
      ['import', 'people.csv', '--id', 'name', '--payload', 'city,since', '--ids', 'few.txt'],
      EXIT.input,
      /few\.txt ends before line 4/,
    );
    assert.equal((await hers(folder, ['count'])).out, '12\n');
  });

  test('a folder, and a probe of the wrong length', async () => {
    const folder = await prepared.copy();
    await mkdir(join(folder, 'directory'));
    await fails(folder, ['import', 'directory'], EXIT.usage, /directory is a folder; name a file/);
    await fails(
      folder,
      ['search', '[1,2,3]', ...tiny],
      EXIT.input,
      /has 3 coordinates, and the collection takes 4; use the model/,
    );
    await fails(folder, ['search', '[1,2,x]', ...tiny], EXIT.input, /not a number/);
    await fails(folder, ['search', '[1,2,,4]', ...tiny], EXIT.input, /takes 4|not a number/);
  });

  test('a snapshot that is none, or was cut off', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'bad.snapshot'), 'garbage, and some more of it, so that there is something to read');
    await fails(folder, ['restore', 'bad.snapshot'], EXIT.input, /bad\.snapshot is no snapshot, or is damaged/);
    const whole = await readFile(join(folder, 'old-faces.snapshot'));
    await writeFile(join(folder, 'cut.snapshot'), whole.subarray(0, whole.length - 100));
    const { exit } = await hers(folder, ['restore', 'cut.snapshot']);
    assert.ok(exit === EXIT.input || exit === EXIT.integrity, String(exit));
    assert.equal((await hers(folder, ['collections', 'list'])).out.split('\n').length, 3);
  });
});

describe('the folder', () => {
  test('written by another process: it can be read, not written', async () => {
    const folder = await prepared.copy();
    const store = await openStore(join(folder, 'gallery'));
    try {
      await fails(
        folder,
        ['optimize'],
        EXIT.storage,
        /is being written by this process: one process writes at a time.*then run the command again/,
      );
      assert.equal((await hers(folder, ['count'])).exit, 0);
      assert.equal((await hers(folder, ['doctor', '--scrub'])).exit, 0);
    } finally {
      await store.close();
    }
  });

  test('of somebody else, or damaged', async () => {
    const folder = await prepared.copy();
    await mkdir(join(folder, 'photos'));
    await writeFile(join(folder, 'photos/holiday.jpg'), 'x');
    await fails(
      folder,
      ['count', '--gallery', 'photos'],
      EXIT.usage,
      /photos holds other files already; choose an empty folder/,
    );
    await writeFile(join(folder, 'gallery/format'), 'nonsense');
    await fails(folder, ['count'], EXIT.integrity, /format is damaged/);
  });

  test('rolled back to an older copy', async () => {
    const folder = await prepared.copy();
    const older = await prepared.copy();
    await hers(folder, ['delete', 'ada']);
    // The versions seen are beside the key: with another key file there, they are not known.
    await fails(
      folder,
      ['count', '--gallery', join(older, 'gallery')],
      EXIT.integrity,
      /was rolled back.*compare the gallery with a snapshot you trust/,
    );
  });
});

test('what was seen and cannot be read is not taken for nothing', async () => {
  const folder = await prepared.copy();
  const file = 'hers.key.seen.json';
  await writeFile(join(folder, file), '{"half');
  await fails(
    folder,
    ['count'],
    EXIT.integrity,
    new RegExp(`${file}, which remembers what was seen of collections, is damaged; bring back a copy of it`),
  );
  const { exit, out } = await hers(folder, ['doctor']);
  assert.equal(exit, EXIT.no);
  assert.match(out, /^problem\twhat was seen\t.*is damaged\tbring back a copy/m);
  for (const content of ['', '[]', '{"a": "b"}', 'null', '{"a": -0.5}', '{"format": 1, "collections": [1]}']) {
    await writeFile(join(folder, file), content);
    await fails(folder, ['count'], EXIT.integrity, /what was seen of collections, is damaged/);
  }
});

test('a collection restored beside its original has versions of its own', async () => {
  const folder = await prepared.copy();
  const done = async (...args: string[]) => {
    const { exit, out, err } = await hers(folder, args);
    assert.equal(exit, 0, `${args.join(' ')}: ${err}`);
    return out;
  };
  await done('snapshot', 'now.snapshot');
  await done('restore', 'now.snapshot', '--as', 'twin');
  for (const id of ['ada', 'alan', 'barbara']) {
    await done('delete', id);
    assert.equal(await done('count', '--collection', 'twin'), '12\n');
  }
  await done('delete', 'ivan', '--collection', 'twin');
  assert.equal(await done('count'), '9\n');
  assert.equal(await done('count', '--collection', 'twin'), '11\n');
  // One that is older than what was seen under any name is still refused until it is meant.
  await fails(folder, ['restore', 'now.snapshot', '--as', 'third'], EXIT.integrity, /--accept-older/);
  await done('restore', 'now.snapshot', '--as', 'third', '--accept-older');
  await done('delete', 'ada', '--collection', 'third');
  assert.equal(await done('count'), '9\n');
  // And each of them is still caught when it is rolled back.
  const older = await prepared.copy();
  await fails(folder, ['count', '--gallery', join(older, 'gallery')], EXIT.integrity, /was rolled back/);
});

test('--verbose adds the code and where it happened', async () => {
  const { err } = await hers(await prepared.copy(), ['count', '--key', 'no.key', '--verbose']);
  assert.match(
    err,
    /^hers: there is no key file .*\nError \[CommandError\]|^hers: there is no key file [^\n]*\n\w*Error/,
  );
  assert.match(err, /\n {4}at /);
});
