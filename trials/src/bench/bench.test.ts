import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const command = fileURLToPath(new URL('./bench.ts', import.meta.url));

function bench(...args: string[]) {
  return spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' });
}

test('--json prints one object and nothing else', () => {
  const { status, stdout, stderr } = bench('scheme', '--quick', '--json');
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout);
  assert.deepEqual(Object.keys(report), ['bench', 'parameters', 'machine', 'results']);
  assert.equal(report.bench, 'scheme');
  const values = new Map(report.results.map(({ name, value }: { name: string; value: number }) => [name, value]));
  // The names are fixed, so that figures can be compared over time.
  const names =
    'ntt-4096 block-encrypt-d128 block-encrypt-d128-exact query-encrypt-d128 response-decrypt response-decrypt-exact response-bytes';
  const more = 'response-bytes-exact query-bytes-d128 seal-ntt-4096 seal-block-encrypt-d128 seal-response-decrypt';
  for (const name of `${names} ${more}`.split(' ')) {
    assert.ok(Number(values.get(name)) > 0, name);
  }
  // Errors and sizes do not depend on the machine, so they have bars.
  const most = { 'score-error-compact': 0.0005, 'score-error-small': 0.0039 };
  const bytes = { 'response-bytes': 4, 'response-bytes-small': 3.2, 'response-bytes-exact': 7.5 };
  for (const [name, bar] of Object.entries({ ...most, ...bytes })) {
    const value = Number(values.get(name));
    assert.ok(value > 0.8 * bar && value <= bar, `${name}: ${value}`);
  }
});

test('canaries measures the check of responses, and what it adds with the slots that canaries take', () => {
  const { status, stdout, stderr } = bench('canaries', '--quick', '--dimension', '32', '--json');
  assert.equal(status, 0, stderr);
  const { results } = JSON.parse(stdout) as { results: { name: string; value: number }[] };
  const values = new Map(results.map(({ name, value }) => [name, value]));
  for (const end of ['compact', 'compact-strong', 'small', 'small-strong']) {
    const [slots, share] = [values.get(`canary-slots-${end}`)!, values.get(`canary-share-${end}`)!];
    // The check comes on top of the slots: of n, a share s less for records is 1/(1 − s) more
    // blocks.
    assert.ok(slots > 0 && share >= 1 / (1 - slots) - 1 - 1e-12, `${end}: ${slots}, ${share}`);
  }
});

test('scrub compares all cores with one, and both with plain reading', () => {
  const { status, stdout, stderr } = bench('scrub', '--count', '3000', '--dimension', '4', '--runs', '1', '--json');
  assert.equal(status, 0, stderr);
  const names = JSON.parse(stdout).results.map(({ name }: { name: string }) => name.replace(/\d+/, 'n'));
  assert.deepEqual(names, ['plain-read', 'scrub-n-thread', 'scrub-n-threads', 'all-cores', 'bytes-on-disk']);
});

test('filters measures what a filter adds, memory, opening and bytes on disk', () => {
  const size = ['--count', '6000', '--dimension', '4', '--searches', '3', '--opens', '1'];
  const { status, stdout, stderr } = bench('filters', ...size, '--json');
  assert.equal(status, 0, stderr);
  const report = JSON.parse(stdout);
  const value = (name: string): number => {
    const found = report.results.find((each: { name: string }) => each.name === name);
    assert.ok(found, name);
    return found.value;
  };
  // As many pass as the values are drawn for.
  const shares = { keyword: 0.01, range: 0.297, 'date-and-any': 0.0388, nested: 0.487, tags: 0.121 };
  for (const [name, share] of Object.entries(shares)) {
    const measured = value(`filter-${name}-share`);
    assert.ok(Math.abs(measured - share) < 0.004 + 0.1 * share, `${name}: ${measured}`);
    assert.ok(value(`filter-${name}-evaluate-ms`) > 0);
    for (const kind of ['first', 'cached']) assert.ok(Number.isFinite(value(`filter-${name}-${kind}-added-ms`)));
  }
  const added = ['keyword', 'range', 'date-and-any', 'nested'].map((name) => value(`filter-${name}-first-added-ms`));
  assert.equal(value('filter-added-ms'), Math.max(...added));
  assert.equal(value('filter-tags-added-ms'), value('filter-tags-first-added-ms'));
  for (const name of ['open-first-ms', 'open-cached-ms']) assert.ok(value(name) > 0);
  // Twelve bytes of id, four of its end, sixteen of the version, two of the order.
  assert.equal(value('lists-bytes-per-record'), 34);
  assert.ok(value('bytes-per-record') > 40 && value('bytes-per-record') < 100);
  assert.ok(value('disk-lists-bytes-per-record') >= 32 && value('disk-lists-bytes-per-record') < 33);
});

test('filters --lists-only measures what a client keeps in memory, and finds every id', () => {
  const { status, stdout, stderr } = bench('filters', '--count', '20000', '--lists-only', '--json');
  assert.equal(status, 0, stderr);
  const { results } = JSON.parse(stdout) as { results: { name: string; value: number }[] };
  const values = Object.fromEntries(results.map(({ name, value }) => [name, value]));
  assert.equal(values['lists-bytes-per-record'], 34);
  // A table of 2^15 places of five bytes.
  assert.equal(values['places-bytes-per-record'], (5 * 2 ** 15) / 20000);
  assert.ok(values['fields-bytes-per-record'] > 4 && values['fields-bytes-per-record'] < 20);
  assert.ok(Math.abs(values['filter-range-share'] - 0.297) < 0.02, `${values['filter-range-share']}`);
});

test('--help lists the benchmarks', () => {
  const { status, stdout } = bench('--help');
  assert.equal(status, 0);
  assert.match(stdout, /^ {2}scheme /m);
});

for (const [what, args, message] of [
  ['no name', [], /^Name the benchmark/],
  ['an unknown name', ['nonsense'], /^There is no benchmark 'nonsense'/],
  ['a name every object has', ['constructor'], /^There is no benchmark 'constructor'/],
  ['an unknown option', ['scheme', '--nonsense'], /^Unknown option '--nonsense'/],
  ['one argument too many', ['scheme', 'again'], /^Unexpected argument 'again'/],
] as const) {
  test(`${what} is answered by one sentence and exit code 2`, () => {
    const { status, stdout, stderr } = bench(...args);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, message);
    assert.match(stderr, /^[^\n]*\.\n$/);
  });
}
