import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { nativeAddon } from './addon.ts';
import { buildStale } from './build.ts';
import { part } from './parts.ts';

const folder = mkdtempSync(join(tmpdir(), 'hers-addon-test-'));
after(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, 'native'));

const output = join(folder, 'build/sample.node');
const target = nativeAddon(join(folder, 'native'), output);
const source = (value: string) =>
  writeFileSync(
    join(folder, 'native/sample.cc'),
    `#include <node_api.h>
     int other();
     NAPI_MODULE_INIT() {
       napi_value value, stamp;
       napi_create_int32(env, ${value} + other(), &value);
       napi_create_string_utf8(env, HERS_STAMP, NAPI_AUTO_LENGTH, &stamp);
       napi_set_named_property(env, exports, "value", value);
       napi_set_named_property(env, exports, "stamp", stamp);
       return exports;
     }`,
  );
writeFileSync(join(folder, 'native/other.cc'), 'int other() { return 1; }');
// Where it is not compiled it must not be needed either.
writeFileSync(join(folder, 'native/never_avx512.cc'), '#ifndef __AVX512BW__\n#error flags\n#endif\n');

const printed: string[] = [];
const build = () => buildStale([target], (line) => printed.push(String(line)));

describe('a native addon', () => {
  test(
    'is built from all files of its folder, carries its stamp, and is left alone while it is fresh',
    part('compiler'),
    async () => {
      source('41');
      assert.equal(await build(), true);
      const module = { exports: {} as { value?: number; stamp?: string } };
      process.dlopen(module, output);
      assert.equal(module.exports.value, 42);
      assert.match(module.exports.stamp!, /^[0-9a-f]{64}$/);
      const { ino } = statSync(output);
      assert.equal(await build(), true);
      assert.equal(statSync(output).ino, ino);
    },
  );

  test(
    'that does not compile fails with the words of the compiler, and keeps the last good file',
    part('compiler'),
    async () => {
      const good = existsSync(output) ? readFileSync(output) : undefined;
      source('missing');
      assert.equal(await build(), false);
      assert.match(printed.at(-1)!, /missing.*not declared|undeclared identifier/s);
      assert.match(printed.at(-1)!, /could not build/);
      if (good) assert.ok(readFileSync(output).equals(good));
    },
  );

  test('is left out in one line where there is no compiler', async () => {
    source('1');
    const { PATH } = process.env;
    process.env.PATH = folder;
    try {
      printed.length = 0;
      assert.equal(await build(), true);
      assert.equal(printed.length, 1);
      assert.ok(!existsSync(output), 'a stale one is no longer there');
      assert.match(printed[0]!, /sample\.node is left out: there is no C\+\+ compiler .* the WASM kernel will serve$/);
    } finally {
      process.env.PATH = PATH;
    }
  });
});
