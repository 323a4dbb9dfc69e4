import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { part } from './parts.ts';

const folder = mkdtempSync(join(tmpdir(), 'hers-parts-'));
after(() => rmSync(folder, { recursive: true }));

const bin = join(folder, 'bin');
mkdirSync(bin);
for (const name of ['c++', 'my-browser']) writeFileSync(join(bin, name), '', { mode: 0o755 });
writeFileSync(join(bin, 'g++'), 'cannot be executed', { mode: 0o644 });

test('a part that is there is found, and skips nothing', () => {
  assert.deepEqual(part('compiler', { PATH: bin }), { present: true, path: join(bin, 'c++'), skip: false });
  const browser = join(bin, 'my-browser');
  assert.deepEqual(part('browser', { HERS_CHROMIUM: browser }), { present: true, path: browser, skip: false });
  assert.deepEqual(part('data', { HERS_DATA: folder }), { present: true, path: folder, skip: false });
});

test('a missing part skips with what is missing and how to get it', () => {
  const compiler = part('compiler', { PATH: folder });
  assert.equal(compiler.present, false);
  assert.match(String(compiler.skip), /no compiler found: install .*g\+\+/);
  assert.match(String(part('browser', { HERS_CHROMIUM: join(bin, 'none') }).skip), /no browser found: .*HERS_CHROMIUM/);
  assert.match(String(part('data', { HERS_DATA: join(folder, 'none') }).skip), /no data found: .*HERS_DATA/);
});

test('a missing part that is required throws', () => {
  const env = { PATH: folder, HERS_DATA: join(folder, 'none'), HERS_REQUIRE: 'browser, compiler' };
  assert.throws(() => part('compiler', env), /HERS_REQUIRE .* no compiler found/);
  assert.equal(part('data', env).present, false);
});

test('an unknown name in HERS_REQUIRE throws', () => {
  assert.throws(() => part('compiler', { PATH: bin, HERS_REQUIRE: 'compilr' }), /names compilr; there are compiler/);
});
