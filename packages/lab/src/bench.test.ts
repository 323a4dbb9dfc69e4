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
  // The names are fixed, so that figures can be followed over time.
  const names =
    'ntt-4096 block-encrypt-d128 block-encrypt-d128-exact query-encrypt-d128 response-decrypt response-decrypt-exact response-bytes';
  const more = 'response-bytes-exact query-bytes-d128 seal-ntt-4096 seal-block-encrypt-d128 seal-response-decrypt';
  for (const name of `${names} ${more}`.split(' ')) {
    assert.ok(Number(values.get(name)) > 0, name);
  }
});

test('scrub compares all cores with one, and both with plain reading', () => {
  const { status, stdout, stderr } = bench('scrub', '--count', '3000', '--dimension', '4', '--runs', '1', '--json');
  assert.equal(status, 0, stderr);
  const names = JSON.parse(stdout).results.map(({ name }: { name: string }) => name.replace(/\d+/, 'n'));
  assert.deepEqual(names, ['plain-read', 'scrub-n-thread', 'scrub-n-threads', 'all-cores', 'bytes-on-disk']);
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
