import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compared, type Report, table } from './report.ts';

const report: Report = {
  bench: 'example',
  parameters: { n: 4096, primes: [36, 36, 37], scheme: 'BFV' },
  machine: { cpu: 'Some CPU', cores: 2, memoryGiB: 23.5, node: 'v24.0.0', os: 'Linux 6.1 x64', flags: ['avx2'] },
  results: [
    { name: 'seal-ntt', value: 77.654321, unit: 'µs' },
    compared({ name: 'ntt', value: 9.2, unit: 'µs' }, { name: 'seal-ntt', value: 77.654321, unit: 'µs' }),
    { name: 'query-bytes', value: 1048608, unit: 'bytes' },
  ],
};

test('the table is aligned and says what is compared with what', () => {
  assert.equal(
    table(report),
    `bench example
=============

n        4096
primes   36 36 37
scheme   BFV
machine  Some CPU, 2 cores, 23.5 GiB
system   Node v24.0.0, Linux 6.1 x64
flags    avx2

seal-ntt         77.65  µs
ntt                9.2  µs     0.118x of seal-ntt
query-bytes  1,048,608  bytes
`,
  );
});

test('a ratio is this value over the other, in one unit only', () => {
  const baseline = { name: 'seal-encrypt', value: 20_000, unit: 'templates/s' };
  const ours = compared({ name: 'encrypt', value: 100_000, unit: 'templates/s' }, baseline);
  assert.equal(ours.ratio, 5);
  assert.equal(ours.against, 'seal-encrypt');
  assert.throws(() => compared({ name: 'ntt', value: 9, unit: 'µs' }, baseline), /templates\/s/);
});
