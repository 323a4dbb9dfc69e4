// Fields, filters, groups and expiry on the command line, against plain JavaScript over the same
// records.

import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { hers, hersJson, npy, Prepared, serve, vectorOf } from '../testing/cli.ts';
import { Interrupted } from './exit.ts';
import { run } from './program.ts';

const DIMENSION = 16;
const FIELDS = { country: 'keyword', age: 'number', person: 'keyword', tags: 'keyword[]', active: 'boolean' } as const;
const AS_FLAGS = ['--field', 'country:keyword', '--field', 'age:number,person:keyword,tags:keyword[],active:boolean'];

interface Guest {
  readonly id: string;
  readonly vector: readonly number[];
  readonly payload: {
    readonly country?: string;
    readonly age: number | null;
    readonly person: string;
    readonly tags: readonly string[];
    readonly active: boolean;
    readonly note: string;
  };
}

/** Three templates of each person; some values are missing. */
const GUESTS: readonly Guest[] = Array.from({ length: 30 }, (_, i) => ({
  id: `g${i}`,
  vector: [...vectorOf(Math.floor(i / 3) + 0.1 * (i % 3), DIMENSION)],
  payload: {
    ...(i % 7 === 0 ? {} : { country: ['NL', 'DE', 'FR'][i % 3] }),
    age: i % 11 === 0 ? null : 10 + i,
    person: `p${Math.floor(i / 3)}`,
    tags: ['vip', 'staff'].filter((_, tag) => (i >> tag) & 1),
    active: i % 2 === 0,
    note: `not indexed ${i}`,
  },
}));

const lines = (values: readonly object[]) => `${values.map((value) => JSON.stringify(value)).join('\n')}\n`;
const idsOf = (guests: readonly { readonly id: string }[]) => guests.map(({ id }) => id);
const sorted = (text: string) => text.trimEnd().split('\n').toSorted();

/** What a filter in the shell's grammar means. */
const CASES: readonly (readonly [filter: string, passes: (guest: Guest['payload']) => boolean])[] = [
  ['country = NL', ({ country }) => country === 'NL'],
  ['country = NL and age >= 18', ({ country, age }) => country === 'NL' && age !== null && age >= 18],
  ['not tags in (vip, staff)', ({ tags }) => !tags.includes('vip') && !tags.includes('staff')],
  ['country != NL or age is empty', ({ country, age }) => (country !== undefined && country !== 'NL') || age === null],
  ['active = true and (age < 15 or age > 30)', ({ active, age }) => active && age !== null && (age < 15 || age > 30)],
  ['{"must_not": {"field": "country", "match": "NL"}}', ({ country }) => country !== 'NL'],
  ['country = XX', () => false],
];

async function writeGuests(folder: string): Promise<void> {
  const must = async (args: string[]) => {
    const { exit, err } = await hers(folder, args);
    assert.equal(exit, 0, `${args.join(' ')}: ${err}`);
  };
  await writeFile(join(folder, 'guests.jsonl'), lines(GUESTS.slice(0, 20)));
  await writeFile(join(folder, 'more.jsonl'), lines(GUESTS.slice(20)));
  await writeFile(
    join(folder, 'probes.npy'),
    npy(
      [0, 4, 7].map((seed) => vectorOf(seed, DIMENSION)),
      DIMENSION,
    ),
  );
  await must(['init', '--unsealed']);
  await must(['collections', 'create', 'guests', '-d', String(DIMENSION), '-p', 'exact', ...AS_FLAGS]);
  await must(['import', 'guests.jsonl']);
  await must(['optimize']);
  // And some that are pending.
  await must(['import', 'more.jsonl']);
}

/** Stands before a server, and tells of every request: what it is, and the bytes each way. */
async function listening(to: string, onRequest: (request: string) => void): Promise<{ url: string } & AsyncDisposable> {
  const proxy = createServer((asked, answer) => {
    let sent = 0;
    let received = 0;
    const { method = '', url = '', headers } = asked;
    const onward = request(new URL(url, to), { method, headers }, (answered) => {
      answer.writeHead(answered.statusCode!, answered.headers);
      answered.on('data', (chunk: Buffer) => (received += chunk.length));
      answered.on('end', () => onRequest(`${method} ${url} ${sent} ${answered.statusCode} ${received}`));
      answered.pipe(answer);
    });
    asked.on('data', (chunk: Buffer) => (sent += chunk.length));
    asked.pipe(onward);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

/** What a person sees. */
async function onTerminal(cwd: string, args: readonly string[]): Promise<string> {
  let text = '';
  const screen = () =>
    Object.assign(
      new Writable({
        write: (chunk, _, done) => {
          text += chunk;
          done();
        },
      }),
      { isTTY: true, columns: 100 },
    );
  const exit = await run(args, {
    ...{ cwd, env: {}, stdin: Readable.from([]), stdout: screen(), stderr: screen() },
    signal: new AbortController().signal,
  });
  assert.equal(exit, 0, text);
  return stripVTControlCharacters(text);
}

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(writeGuests);
});
after(() => prepared.remove());

describe('fields', () => {
  test('create, describe, list: one notation for them', async () => {
    const folder = await prepared.copy();
    assert.match(
      (await hers(folder, ['collections', 'describe'])).out,
      /^fields\tcountry \(keyword\), age \(number\), person \(keyword\), tags \(keyword\[\]\), active \(boolean\)$/m,
    );
    assert.deepEqual((await hersJson(folder, ['collections', 'describe'])).fields, FIELDS);
    const { out } = await hers(folder, ['collections', 'list']);
    assert.equal(out.trimEnd().split('\t').at(-1), 'country,age,person,tags,active');
    assert.deepEqual((await hersJson(folder, ['collections', 'list'])).collections[0].fields, FIELDS);
    assert.equal(
      (await hers(folder, ['fields', 'list'])).out,
      'country\tkeyword\nage\tnumber\nperson\tkeyword\ntags\tkeyword[]\nactive\tboolean\n',
    );
    assert.deepEqual(await hersJson(folder, ['fields', 'list', 'guests']), { collection: 'guests', fields: FIELDS });
    assert.match((await hers(folder, ['fields'])).out, /Commands:\n {2}list/);
  });

  test('that make no sense are refused before anything is made', async () => {
    const folder = await prepared.copy();
    for (const [field, message] of [
      ['country', /a field is a name and a type, such as country:keyword, and not "country"; the types are keyword,/],
      ['country:', /a field is a name and a type/],
      ['country:text', /the field "country" has no such type: take one of keyword, number, date, boolean, keyword\[\]/],
      ['9:keyword', /"9" cannot be the name of a field/],
      ['a:keyword,a:number', /the field "a" is given twice/],
      ['expires:number', /expires says when a record ends, so it is of type date/],
    ] as const)
      for (const args of [
        ['collections', 'create', 'other', '-d', '4', '--field', field],
        ['fields', 'add', 'guests', field],
      ]) {
        const { exit, err } = await hers(folder, args);
        assert.equal(exit, 2, `${args.join(' ')}: ${err}`);
        assert.match(err, message);
      }
    assert.equal((await hersJson(folder, ['collections', 'list'])).collections.length, 1);
    assert.deepEqual((await hersJson(folder, ['fields', 'list'])).fields, FIELDS);
  });

  test('are added from the payloads that there are, and dropped', async () => {
    const folder = await prepared.copy();
    const refused = await hers(folder, ['fields', 'drop', 'guests', 'country']);
    assert.equal(refused.exit, 2);
    assert.match(refused.err, /no terminal to ask; add --yes/);
    assert.match(
      (await hers(folder, ['fields', 'drop', 'guests', 'country,age', '--yes'])).out,
      /^country, age dropped/,
    );
    const gone = await hers(folder, ['count', '--filter', 'country = NL']);
    assert.equal(gone.exit, 2);
    assert.match(gone.err, /"country".*person, tags, active/);
    const absent = await hers(folder, ['fields', 'drop', 'guests', 'cuntry', '--yes']);
    assert.equal(absent.exit, 3);
    assert.match(absent.err, /guests has no field "cuntry"; it has person \(keyword\), tags/);

    const { out } = await hers(folder, ['fields', 'add', 'guests', 'country:keyword', 'age:number']);
    assert.match(out, /^guests: country, age added; its 30 records can be filtered by person \(keyword\), /);
    assert.equal(
      (await hers(folder, ['count', '--filter', 'country = NL'])).out,
      `${GUESTS.filter(({ payload }) => payload.country === 'NL').length}\n`,
    );
    const again = await hersJson(folder, ['fields', 'add', 'guests', 'note:keyword', 'age:number']);
    assert.deepEqual(again.added, ['note']);
    assert.equal((await hers(folder, ['list', '--filter', 'note = "not indexed 25"'])).out, 'g25\n');
    const wrong = await hers(folder, ['fields', 'add', 'guests', 'age:keyword']);
    assert.equal(wrong.exit, 2);
    assert.match(wrong.err, /there is a field "age" of type number already/);
  });

  test('that are interrupted say so, and the same command resumes', async () => {
    const folder = await prepared.copy();
    await hersJson(folder, ['optimize']);
    const stop = new AbortController();
    stop.abort(new Interrupted('SIGINT'));
    const args = ['fields', 'add', 'guests', 'note:keyword'];
    const stopped = await hers(folder, args, { signal: stop.signal });
    assert.equal(stopped.exit, 130);
    assert.match(stopped.err, /stopped: no block has them yet; run the same command again to resume/);
    assert.equal((await hers(folder, args)).exit, 0);
    assert.equal((await hers(folder, ['count', '--filter', 'note starts with not'])).out, '30\n');
  });

  test('a record that does not fit is named', async () => {
    const folder = await prepared.copy();
    await hersJson(folder, ['update-payload', 'g25', '{"size": "large"}']);
    const { exit, err } = await hers(folder, ['fields', 'add', 'guests', 'size:number']);
    assert.equal(exit, 2);
    assert.match(err, /the record "g25" has a value in the field "size" that is not a finite number/);
    await hersJson(folder, ['update-payload', 'g25', '{"size": 3}']);
    // This one is in a block: the field is there then, and blocks do not have it.
    await hersJson(folder, ['update-payload', 'g5', '{"size": "small"}']);
    assert.match((await hers(folder, ['fields', 'add', 'guests', 'size:number'])).err, /the record "g5"/);
    const early = await hers(folder, ['count', '--filter', 'size = 3']);
    assert.equal(early.exit, 2);
    assert.match(early.err, /1 of 1 blocks do not have it yet; `hers fields add` goes on where it stopped/);
    await hersJson(folder, ['update-payload', 'g5', '{"size": 1}']);
    const { out } = await hers(folder, ['fields', 'add', 'guests', 'size:number']);
    assert.match(out, /^guests: there was no other field to add; its 30 records can be filtered by /);
    assert.equal((await hers(folder, ['list', '--filter', 'size > 0'])).out, 'g5\ng25\n');
  });
});

describe('--filter', () => {
  for (const [filter, passes] of CASES)
    test(filter, async () => {
      const folder = await prepared.copy();
      const passing = GUESTS.filter(({ payload }) => passes(payload));
      const { out } = await hers(folder, ['list', '--filter', filter]);
      assert.deepEqual(out === '' ? [] : sorted(out), idsOf(passing).toSorted());
      assert.equal((await hers(folder, ['count', '--filter', filter])).out, `${passing.length}\n`);
      const { matches } = await hersJson(folder, [
        ...['search', 'probes.npy', '--row', '1', '--limit', '100', '--filter', filter],
        ...['--select', 'country,tags'],
      ]);
      assert.deepEqual(idsOf(matches).toSorted(), idsOf(passing).toSorted());
      for (const { id, fields } of matches) {
        const { country, tags } = GUESTS.find((guest) => guest.id === id)!.payload;
        assert.deepEqual(fields, { ...(country === undefined ? {} : { country }), tags: tags.toSorted() });
      }
      const wouldDelete = await hersJson(folder, ['delete', '--filter', filter, '--dry-run']);
      assert.deepEqual(wouldDelete, { wouldDelete: passing.length });
      assert.equal((await hers(folder, ['count'])).out, '30\n');
      assert.deepEqual(await hersJson(folder, ['delete', '--filter', filter, '--yes']), { deleted: passing.length });
      const left = GUESTS.filter(({ payload }) => !passes(payload));
      assert.deepEqual(sorted((await hers(folder, ['list'])).out), idsOf(left).toSorted());
    });

  test('names what is wrong with it, and never passes for an empty result', async () => {
    const folder = await prepared.copy();
    for (const [filter, message] of [
      ['cuntry = NL', /"cuntry".*country, age, person, tags, active/],
      ['age > old', /expected a finite number/],
      ['country = NL and', /expected the name of a field/],
      ['', /the filter is empty/],
      ['{"must": ', /--filter begins with a brace, and is not JSON/],
      ['{"must": {"field": "cuntry", "match": "NL"}}', /"cuntry"/],
    ] as const)
      for (const args of [
        ['list'],
        ['count'],
        ['delete', '--yes'],
        ['search', 'probes.npy', '--row', '0'],
        ['search', 'probes.npy', '--batch'],
      ]) {
        const { exit, out, err } = await hers(folder, [...args, '--filter', filter]);
        assert.equal(exit, 2, `${args.join(' ')} ${filter}: ${out} ${err}`);
        assert.equal(out, '');
        assert.match(err, message);
      }
    assert.equal((await hers(folder, ['count'])).out, '30\n');
    assert.equal(
      (await hers(folder, ['count', '--filter', 'age > 3 and cuntry = NL'])).err,
      'hers: in the filter, the collection has no field "cuntry": it has country, age, person, tags, active.\n  age > 3 and cuntry = NL\n              ^\n',
    );
    const { error } = JSON.parse((await hers(folder, ['count', '--filter', 'age > old', '--json'])).err);
    assert.deepEqual(Object.keys(error), ['exit', 'code', 'message']);
    assert.equal(error.code, 'INVALID_ARGUMENT');
  });

  test('a server is asked the same with a filter, a selection or groups, and without', async () => {
    const folder = await prepared.copy();
    const { token } = await hersJson(folder, ['tokens', 'create', '--scope', 'search']);
    await using server = await serve(folder);
    const asked: string[] = [];
    await using between = await listening(server.url, (request) => asked.push(request));
    const traffic = async (...args: string[]) => {
      asked.length = 0;
      const env = { HERS_TOKEN: token };
      const { exit, err } = await hers(folder, [...args, '--gallery', between.url], { env });
      assert.equal(exit, 0, err);
      return [...asked];
    };
    const search = ['search', 'probes.npy', '--row', '1', '--limit', '3'];
    for (const args of [['count'], ['list'], search]) {
      await traffic(...args); // whatever is remembered of a server is remembered now
      const without = await traffic(...args);
      assert.ok(without.length > 2, without.join('\n'));
      for (const [filter] of [CASES[1]!, CASES.at(-1)!])
        assert.deepEqual(await traffic(...args, '--filter', filter), without, filter);
    }
    const without = await traffic(...search);
    assert.deepEqual(await traffic(...search, '--select', 'country,tags'), without);
    assert.deepEqual(await traffic(...search, '--group-by', 'person'), without);
    // The comparison sees what is asked for.
    assert.notDeepEqual(await traffic(...search, '--payload'), without);
  });
});

describe('search', () => {
  test('--select is a column for each, in one search and in many', async () => {
    const folder = await prepared.copy();
    const select = ['--limit', '1', '--select', 'country, age,tags'];
    const { out } = await hers(folder, ['search', 'probes.npy', '--row', '1', ...select]);
    assert.match(out, /^g12\t[01]\.\d+\tNL\t22\t\n$/);
    const batch = await hers(folder, ['search', 'probes.npy', '--batch', ...select]);
    const rows = batch.out.split('\n').map((line) => line.split('\t').toSpliced(2, 1));
    assert.deepEqual(rows, [
      ['0', 'g0', '', '', ''],
      ['1', 'g12', 'NL', '22', ''],
      ['2', 'g21', '', '31', 'vip'],
      [''],
    ]);
    const both = await hers(folder, [
      'search',
      'probes.npy',
      '--row',
      '1',
      '--limit',
      '1',
      '--select',
      'age',
      '--payload',
    ]);
    assert.match(both.out, /^g12\t[01]\.\d+\t22\t\{.*"note":"not indexed 12"\}\n$/);
    const shown = await onTerminal(folder, ['search', 'probes.npy', '--row', '1', ...select]);
    assert.match(shown, /(?:^|[^\n])id +score +country +age +tags\ng12 +[01]\.\d+ +NL +22\n/);
    const wrong = await hers(folder, ['search', 'probes.npy', '--row', '1', '--select', 'cuntry']);
    assert.equal(wrong.exit, 2);
    assert.match(wrong.err, /no field "cuntry"; it has country, age, person, tags, active/);
  });

  test('--group-by gives the best of each, in one search and in many', async () => {
    const folder = await prepared.copy();
    const args = ['--limit', '100', '--group-by', 'person'];
    const one = await hersJson(folder, ['search', 'probes.npy', '--row', '1', '--select', 'person', ...args]);
    const persons = one.matches.map(({ fields }: { fields: { person: string } }) => fields.person);
    assert.deepEqual(persons.toSorted(), [...new Set(GUESTS.map(({ payload }) => payload.person))].toSorted());
    const alone = await hersJson(folder, ['search', 'probes.npy', '--row', '1', '--limit', '100']);
    const best = new Map<string, string>();
    for (const { id } of alone.matches) {
      const { person } = GUESTS.find((guest) => guest.id === id)!.payload;
      if (!best.has(person)) best.set(person, id);
    }
    assert.deepEqual(idsOf(one.matches), [...best.values()]);
    const batch = await hers(folder, ['search', 'probes.npy', '--batch', '--json', ...args]);
    const many = batch.out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      many[1].matches.map(({ id }: { id: string }) => id),
      idsOf(one.matches),
    );
    const wrong = await hers(folder, ['search', 'probes.npy', '--row', '1', '--group-by', 'age']);
    assert.equal(wrong.exit, 2);
    assert.match(wrong.err, /needs a field of type keyword, and "age" is of type number/);
  });
});

test('partitions: create says what they cost, and a search can name some', async () => {
  const folder = await prepared.copy();
  const args = ['collections', 'create', 'sites', '-d', String(DIMENSION), ...AS_FLAGS, '--partition-by', 'country'];
  const made = await hers(folder, args);
  assert.equal(made.exit, 0, made.err);
  assert.match(made.out, /^partitions\tby country$/m);
  assert.match(
    made.err,
    /^Each partition takes at least a block of its own once it is optimized: [\d.]+ [kM]B for up to /,
  );
  const guests = GUESTS.filter(({ payload }) => payload.country !== undefined);
  await hersJson(folder, ['import', '-', '-c', 'sites', '--format', 'jsonl'], { input: lines(guests) });
  await hersJson(folder, ['optimize', '-c', 'sites']);
  assert.equal((await hersJson(folder, ['collections', 'describe', 'sites'])).blocks, 3);
  for (const names of [['NL'], ['DE', 'FR']]) {
    const search = ['search', 'probes.npy', '--row', '1', '-n', '100', '-c', 'sites', '--partitions', names.join()];
    const { matches } = await hersJson(folder, search);
    const expected = guests.filter(({ payload }) => names.includes(payload.country!));
    assert.deepEqual(idsOf(matches).toSorted(), idsOf(expected).toSorted());
  }
  const none = await hers(folder, ['search', 'probes.npy', '--row', '1', '-c', 'guests', '--partitions', 'NL']);
  assert.equal(none.exit, 2);
});

describe('verify --group', () => {
  const scoreOf = (a: ArrayLike<number>, b: ArrayLike<number>) => {
    const dot = (x: ArrayLike<number>, y: ArrayLike<number>) => Array.from(x).reduce((sum, v, i) => sum + v * y[i]!, 0);
    return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  };

  test('compares with the best or the mean of its records', async () => {
    const folder = await prepared.copy();
    const scores = GUESTS.filter(({ payload }) => payload.person === 'p4').map(({ vector }) =>
      scoreOf(vector, vectorOf(4, DIMENSION)),
    );
    const mean = scores.reduce((a, b) => a + b) / scores.length;
    for (const [more, expected] of [
      [[], Math.max(...scores)],
      [['--combine', 'best', '--show-blocks'], Math.max(...scores)],
      [['--combine', 'mean'], mean],
      [['--combine', 'mean', '--show-blocks'], mean],
    ] as const) {
      const args = ['verify', 'probes.npy', '--row', '1', '--group', 'person=p4', ...more];
      const result = await hersJson(folder, [...args, '--threshold', '0.5']);
      assert.deepEqual(result.group, { field: 'person', value: 'p4' });
      assert.ok(Math.abs(result.score - expected) < 0.005, `${result.score} ${expected}`);
      assert.equal(result.match, true);
    }
    const no = await hers(folder, ['verify', 'probes.npy', '--row', '0', '--group', 'person=p4', '-t', '0.9']);
    assert.equal(no.exit, 1);
    assert.match(no.out, /^match\tno\n/);
    assert.match((await hers(folder, ['verify', 'g12', 'probes.npy', '--row', '1', '-t', '0.9'])).out, /^match\tyes\n/);
  });

  test('says what is missing, or too much', async () => {
    const folder = await prepared.copy();
    for (const [args, exit, message] of [
      [['probes.npy', '--group', 'person=nobody', '--row', '0'], 3, /no record whose field "person" is "nobody"/],
      [['probes.npy', '--group', 'preson=p4', '--row', '0'], 2, /no field "preson"; it has country/],
      [['probes.npy', '--group', 'p4', '--row', '0'], 2, /--group takes a field and a value, such as person=ada/],
      [['g1', 'probes.npy', '--group', 'person=p4', '--row', '0'], 2, /an id and --group exclude each other/],
      [['--group', 'person=p4'], 2, /the argument <probe> is missing/],
      [['g1'], 2, /the argument <probe> is missing/],
      [[], 2, /the argument <id> is missing/],
      [['g1', 'probes.npy', '--row', '0', '--combine', 'mean'], 2, /--combine and --show-blocks go with --group/],
    ] as const) {
      const outcome = await hers(folder, ['verify', ...args]);
      assert.equal(outcome.exit, exit, outcome.err);
      assert.match(outcome.err, message);
    }
  });
});

describe('list and delete', () => {
  test('list in pages', async () => {
    const folder = await prepared.copy();
    for (const filter of [[], ['--filter', 'active = true']]) {
      const whole = (await hers(folder, ['list', ...filter])).out;
      let paged = '';
      for (let last: string | undefined; ; ) {
        const args = ['list', '--limit', '7', ...filter, ...(last === undefined ? [] : ['--after', last])];
        const { out, exit, err } = await hers(folder, args);
        assert.equal(exit, 0, err);
        paged += out;
        const page = out.trimEnd().split('\n');
        if (out === '' || page.length < 7) break;
        last = page.at(-1);
      }
      assert.equal(paged, whole);
    }
    assert.equal((await hers(folder, ['list', '--after', 'nobody'])).exit, 3);
    assert.equal((await hers(folder, ['list', '--limit', '0'])).exit, 2);
  });

  test('delete says how many a filter means, and asks', async () => {
    const folder = await prepared.copy();
    const asked = await hers(folder, ['delete', '--filter', 'country = NL']);
    assert.equal(asked.exit, 2);
    assert.match(asked.err, /this is to be confirmed, and there is no terminal to ask; add --yes/);
    assert.equal((await hers(folder, ['count'])).out, '30\n');
    const dry = await hers(folder, ['delete', '--filter', 'country = NL', '--dry-run']);
    assert.equal(dry.out, '8 records would be deleted.\n');
    assert.deepEqual(await hersJson(folder, ['delete', 'g1', 'g2', 'nobody', '--dry-run']), {
      wouldDelete: 2,
      missing: 1,
    });
    const both = await hers(folder, ['delete', 'g1', '--filter', 'country = NL', '--yes']);
    assert.equal(both.exit, 2);
    assert.match(both.err, /--filter and single ids exclude each other/);
    assert.equal((await hers(folder, ['count'])).out, '30\n');
    assert.deepEqual(await hersJson(folder, ['delete', 'g1', 'g1', 'nobody']), { deleted: 1, missing: 1 });
  });
});

describe('import', () => {
  const typed = async (folder: string) => {
    await hersJson(folder, [
      ...['collections', 'create', 'typed', '-d', '2', '--field'],
      'country:keyword,age:number,enrolled:date,tags:keyword[],active:boolean',
    ]);
  };
  const args = ['import', '-', '-c', 'typed', '--format', 'csv', '--payload', 'country,age,enrolled,tags,active,note'];
  const HEAD = 'id,x,y,country,age,enrolled,tags,active,note\n';

  test('cells become the values of their fields, others stay texts, empty ones are none', async () => {
    const folder = await prepared.copy();
    await typed(folder);
    const input = `${HEAD}a,1,0,NL,42,2026-11-16,vip | staff,TRUE,007\nb,0,1,042,-1.5e2,2026-11-16T10:00:00+01:00,vip,false,\nc,1,1,,,,,,\n`;
    await hersJson(folder, args, { input });
    const { out } = await hers(folder, ['get', 'a', 'b', 'c', '-c', 'typed', '--json']);
    assert.deepEqual(
      out
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).payload),
      [
        { country: 'NL', age: 42, enrolled: '2026-11-16', tags: ['vip', 'staff'], active: true, note: '007' },
        {
          ...{ country: '042', age: -150, enrolled: '2026-11-16T10:00:00+01:00', tags: ['vip'], active: false },
          note: '',
        },
        { note: '' },
      ],
    );
    for (const [filter, ids] of [
      ['age > 0', 'a\n'],
      ['tags = staff', 'a\n'],
      ['enrolled >= 2026-11-16T09:00:00Z', 'b\n'],
      ['active = false', 'b\n'],
      ['country = 042', 'b\n'],
      ['country is empty', 'c\n'],
    ] as const)
      assert.equal((await hers(folder, ['list', '-c', 'typed', '--filter', filter])).out, ids, filter);
    assert.equal((await hersJson(folder, args, { input })).unchanged, 3);
  });

  test('payloads in a .csv of their own are typed, too, and .jsonl is taken as it is', async () => {
    const folder = await prepared.copy();
    await typed(folder);
    await writeFile(join(folder, 'v.npy'), npy([Float32Array.of(1, 0), Float32Array.of(0, 1)], 2));
    await writeFile(join(folder, 'p.csv'), 'name,age\na,1\nb,2\n');
    await hersJson(folder, 'import v.npy -c typed --ids p.csv --id name --payloads p.csv --payload age'.split(' '));
    assert.equal((await hers(folder, ['list', '-c', 'typed', '--filter', 'age >= 2'])).out, 'b\n');
    const text = lines([{ id: 'a', vector: [1, 0], payload: { age: '1' } }]);
    const { exit, err } = await hers(folder, ['import', '-', '-c', 'typed'], { input: text });
    assert.equal(exit, 5);
    assert.match(err, /standard input, line 1: the record "a" has a value in the field "age" that is not a finite/);
  });

  test('a value that does not fit is named with its line and record, or left out', async () => {
    const folder = await prepared.copy();
    await typed(folder);
    for (const [field, cells] of [
      ['age', 'NL,12a,,,,'],
      ['age', 'NL,9007199254740993,,,,'],
      ['age', 'NL,NaN,,,,'],
      ['enrolled', 'NL,,16.11.2026,,,'],
      ['active', 'NL,,,,maybe,'],
      ['country', `${'x'.repeat(257)},,,,,`],
    ] as const) {
      const input = `${HEAD}a,1,0,NL,1,,,,\nb,0,1,${cells}\n`;
      const { exit, err } = await hers(folder, args, { input });
      assert.equal(exit, 5, err);
      const named = new RegExp(
        `^hers: standard input, line 3: the record "b" has a value in the field "${field}" that is not .*; nothing was written; correct it, or leave such rows out with --skip-bad\\.\\n$`,
      );
      assert.match(err, named);
      assert.equal((await hers(folder, ['count', '-c', 'typed'])).out, '0\n');
    }
    const input = `${HEAD}a,1,0,NL,1,,,,\nb,0,1,NL,x,,,,\n`;
    const skipped = await hers(folder, [...args, '--skip-bad'], { input });
    assert.equal(skipped.exit, 0);
    assert.match(skipped.err, /^left out: standard input, line 3: the record "b" has a value in the field "age"/);
    assert.equal((await hers(folder, ['list', '-c', 'typed'])).out, 'a\n');
  });
});

describe('update-payload', () => {
  test('changes one, many, or takes away; fields follow', async () => {
    const folder = await prepared.copy();
    assert.equal(
      (await hers(folder, ['update-payload', 'g3', '{"country": "BE", "name": "Ada"}'])).out,
      '1 payload changed.\n',
    );
    assert.equal((await hers(folder, ['list', '--filter', 'country = BE'])).out, 'g3\n');
    assert.deepEqual((await hersJson(folder, ['get', 'g3'])).payload, { country: 'BE', name: 'Ada' });
    const changes = [
      { id: 'g4', payload: { country: 'BE' } },
      { id: 'g25', payload: { country: 'BE', age: 99 } },
      { id: 'g3', payload: { country: 'BE', name: 'Ada' } },
      { id: 'g5' },
    ];
    await writeFile(join(folder, 'changes.jsonl'), lines(changes));
    assert.deepEqual(await hersJson(folder, ['update-payload', '--file', 'changes.jsonl']), {
      collection: 'guests',
      changed: 3,
      unchanged: 1,
    });
    assert.deepEqual(sorted((await hers(folder, ['list', '--filter', 'country = BE'])).out), ['g25', 'g3', 'g4']);
    assert.equal('payload' in (await hersJson(folder, ['get', 'g5'])), false);
    await hersJson(folder, ['update-payload', 'g4', '--remove']);
    assert.equal('payload' in (await hersJson(folder, ['get', 'g4'])), false);
    assert.deepEqual((await hersJson(folder, ['get', 'g25'])).vector, [...Float32Array.from(GUESTS[25]!.vector)]);
    const piped = await hers(folder, ['update-payload', '--file', '-'], {
      input: lines([{ id: 'g6', payload: null }]),
    });
    assert.equal(piped.out, '1 payload changed.\n');
  });

  test('refuses what does not fit, and names the line', async () => {
    const folder = await prepared.copy();
    const good = { id: 'g4', payload: { country: 'BE' } };
    for (const [second, exit, message] of [
      [{ id: 'g5', payload: { age: 'old' } }, 5, /line 2: the record "g5" has a value in the field "age"/],
      [{ id: 'g5', country: 'BE' }, 5, /line 2: it has a field "country", which is neither id nor payload/],
      [{ payload: {} }, 5, /line 2 has no field "id"/],
      [{ id: 'nobody', payload: {} }, 3, /there is no record "nobody"; nothing was changed/],
    ] as const) {
      const { exit: got, err } = await hers(folder, ['update-payload', '--file', '-'], {
        input: lines([good, second]),
      });
      assert.equal(got, exit, err);
      assert.match(err, message);
      assert.match(err, /nothing was changed/);
    }
    for (const args of [[], ['g1'], ['g1', '{}', '--remove'], ['g1', '{}', '--file', 'x'], ['--file', 'x', '--remove']])
      assert.equal((await hers(folder, ['update-payload', ...args])).exit, 2);
    const text = await hers(folder, ['update-payload', 'g1', 'country=BE']);
    assert.match(text.err, /the payload is not JSON; write it as '\{"city": "London"\}'/);
    assert.equal((await hers(folder, ['count', '--filter', 'country = BE'])).out, '0\n');
  });
});

describe('expire', () => {
  const expiring = async (folder: string) => {
    const [past, future] = [-60_000, 3_600_000].map((ms) => new Date(Date.now() + ms).toISOString());
    await hersJson(folder, ['collections', 'create', 'visits', '-d', '4', '--field', 'expires:date']);
    const visits = Array.from({ length: 12 }, (_, i) => ({
      id: `v${i}`,
      vector: [...vectorOf(i, 4)],
      payload: i % 3 === 0 ? { expires: past } : i % 3 === 1 ? { expires: future } : {},
    }));
    await hersJson(folder, ['import', '-', '-c', 'visits', '--format', 'jsonl'], { input: lines(visits.slice(0, 6)) });
    await hersJson(folder, ['optimize', '-c', 'visits']);
    await hersJson(folder, ['import', '-', '-c', 'visits', '--format', 'jsonl'], { input: lines(visits.slice(6)) });
  };
  const GONE = ['v0', 'v3', 'v6', 'v9'];

  test('says, deletes, and leaves a receipt for its owner alone', async () => {
    const folder = await prepared.copy();
    await expiring(folder);
    assert.equal((await hers(folder, ['count', '-c', 'visits'])).out, '8\n');
    const dry = await hers(folder, ['expire', 'visits', '--dry-run', '--ids']);
    assert.match(dry.out, /^collection\tvisits\nwould be deleted\t4 records\ntime\t/);
    assert.deepEqual([...dry.out.matchAll(/^id\t(.+)$/gm)].map(([, id]) => id).toSorted(), GONE);
    assert.equal((await hersJson(folder, ['expire', 'visits', '--dry-run'])).count, 4);

    const { exit, out } = await hers(folder, ['expire', '-c', 'visits', '--ids', '--receipt', 'receipt.json']);
    assert.equal(exit, 0);
    assert.match(out, /^deleted\t4 records$/m);
    const path = join(folder, 'receipt.json');
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const receipt = JSON.parse(await readFile(path, 'utf8'));
    assert.deepEqual(receipt.ids.toSorted(), GONE);
    assert.equal(receipt.isDryRun, false);
    assert.equal(receipt.version, (await hersJson(folder, ['collections', 'describe', 'visits'])).version);
    const again = await hersJson(folder, ['expire', 'visits']);
    assert.equal(again.count, 0);
    assert.deepEqual(again.handles, []);
  });

  test('a receipt that cannot be kept is printed, because nothing can make it again', async () => {
    const folder = await prepared.copy();
    await expiring(folder);
    const path = join(folder, 'receipt.json');
    // Somebody takes the name while records are being deleted.
    const taking = setInterval(() => {
      if (!readdirSync(folder).some((name) => name.startsWith('receipt.json.'))) return;
      clearInterval(taking);
      writeFileSync(path, 'taken');
    }, 1);
    const { exit, out, err } = await hers(folder, ['expire', 'visits', '--receipt', 'receipt.json']);
    clearInterval(taking);
    assert.equal(exit, 3);
    assert.match(err, /receipt\.json exists already/);
    const receipt = JSON.parse(out);
    assert.equal(receipt.count, 4);
    assert.equal(receipt.handles.length, 4);
    assert.equal(await readFile(path, 'utf8'), 'taken');
    assert.equal((await hersJson(folder, ['expire', 'visits', '--dry-run'])).count, 0);
  });

  test('nothing is deleted where the receipt has no place, and only where something expires', async () => {
    const folder = await prepared.copy();
    await expiring(folder);
    await writeFile(join(folder, 'taken.json'), '');
    for (const [file, exit] of [
      ['taken.json', 3],
      ['no/such/folder.json', 3],
    ] as const)
      assert.equal((await hers(folder, ['expire', 'visits', '--receipt', file])).exit, exit);
    assert.equal((await hersJson(folder, ['expire', 'visits', '--dry-run'])).count, 4);
    const none = await hers(folder, ['expire', 'guests']);
    assert.equal(none.exit, 2);
    assert.match(none.err, /nothing expires in this collection/);
  });
});
