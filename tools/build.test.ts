import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { buildStale, type Target, wasmModule } from './build.ts';

const folder = mkdtempSync(join(tmpdir(), 'hers-build-'));
after(() => rmSync(folder, { recursive: true }));

mkdirSync(join(folder, 'assembly'));
const entry = join(folder, 'assembly/sample.ts');
const output = join(folder, 'build/sample.ts');
const target = wasmModule(entry, output);
const part = (factor: number) =>
  writeFileSync(join(folder, 'assembly/part.ts'), `export const factor: i32 = ${factor};`);
writeFileSync(entry, "import { factor } from './part';\nexport function scale(x: i32): i32 { return x * factor; }\n");

const printed: unknown[] = [];
const build = (...targets: Target[]) => buildStale(targets, (line) => printed.push(line));

/** What the generated module computes for 7. */
async function result(): Promise<unknown> {
  const { sampleBase64 } = await import(`${output}?${Math.random()}`);
  const { instance } = await WebAssembly.instantiate(Buffer.from(sampleBase64, 'base64'));
  return (instance.exports.scale as (x: number) => number)(7);
}

test('a build makes a module that needs no imports, and leaves nothing else behind', async () => {
  part(3);
  assert.equal(await build(target), true);
  assert.equal(await result(), 21);
  assert.deepEqual(readdirSync(join(folder, 'build')), ['sample.ts']);
});

test('and says the types of what it exports', () => {
  assert.match(
    readFileSync(output, 'utf8'),
    /^export interface SampleExports \{$.*^ {2}scale\(x: number\): number;$/ms,
  );
});

test('what is fresh is left alone', async () => {
  const before = statSync(output).ino;
  assert.equal(await build(target), true);
  assert.equal(statSync(output).ino, before);
});

test('a change in any file of the folder, or in the recipe, makes it stale', async () => {
  part(5);
  assert.equal(await build(target), true);
  assert.equal(await result(), 35);
  const before = statSync(output).ino;
  await build({ ...target, recipe: `${target.recipe} changed` });
  assert.notEqual(statSync(output).ino, before);
});

test('so does a change in a folder that it takes from', async () => {
  mkdirSync(join(folder, 'other'), { recursive: true });
  const beside = { ...target, besides: [join(folder, 'other')] };
  writeFileSync(join(folder, 'other/file.ts'), '1');
  await build(beside);
  const before = statSync(output).ino;
  await build(beside);
  assert.equal(statSync(output).ino, before);
  writeFileSync(join(folder, 'other/file.ts'), '2');
  await build(beside);
  assert.notEqual(statSync(output).ino, before);
});

test('sources that do not compile fail with the words of the compiler, and keep the last good file', async () => {
  const good = readFileSync(output, 'utf8');
  writeFileSync(join(folder, 'assembly/part.ts'), 'export const factor: i32 = missing;');
  assert.equal(await build(target), false);
  assert.match(String(printed.at(-1)), /Cannot find name 'missing'/);
  assert.equal(readFileSync(output, 'utf8'), good);
});
