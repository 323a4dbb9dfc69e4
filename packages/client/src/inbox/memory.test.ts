import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { HersError } from '@hers/service';
import { NonceFile } from './memory.node.ts';
import { InMemoryNonces, type KnownNonce, type NonceMemory } from './memory.ts';

const fails = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;
const nonceOf = (i: number) => i.toString(16).padStart(32, '0');
const known = (i: number, state: KnownNonce['state'], time = 1000 + i): KnownNonce => ({
  nonce: nonceOf(i),
  device: 1 + (i % 2),
  time,
  state,
});

async function withFolder(body: (path: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-keeper-'));
  try {
    await body(join(folder, 'nonces'));
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function exercise(memory: NonceMemory): Promise<void> {
  assert.equal(await memory.read(nonceOf(1)), undefined);
  await memory.write(known(1, 'begun'));
  await memory.write(known(1, 'answered'));
  await memory.write(known(2, 'begun'));
  await memory.write(known(3, 'enrolling'));
  await memory.write(known(3, 'enrolled'));
  await memory.write(known(3, 'enrolled'));
  await memory.write(known(5, 'enrolled'));
  await memory.write(known(4, 'refused'));
}

async function check(memory: NonceMemory): Promise<void> {
  assert.deepEqual(await memory.read(nonceOf(1)), known(1, 'answered'));
  assert.deepEqual(await memory.begun(), [known(2, 'begun')]);
  assert.deepEqual([await memory.enrolled(1), await memory.enrolled(2), await memory.enrolled(9)], [0, 2, 0]);
}

describe('what a keeper remembers', () => {
  it('in memory', async () => {
    const memory = new InMemoryNonces();
    await exercise(memory);
    await check(memory);
    await memory.forget(1003);
    assert.equal(await memory.read(nonceOf(1)), undefined);
    assert.equal(await memory.enrolled(2), 2);
  });

  it('in a file, when it is opened again, with half a line behind it, and by one process at a time', () =>
    withFolder(async (path) => {
      const file = new NonceFile(path);
      await exercise(file);
      await check(file);
      await assert.rejects(new NonceFile(path).read(nonceOf(1)), fails('LOCKED'));
      await file.close();
      await appendFile(path, `${nonceOf(8)} 1 5`);
      const again = new NonceFile(path);
      await check(again);
      await again.write(known(6, 'answered'));
      await again.close();
      const third = new NonceFile(path);
      await check(third);
      assert.deepEqual(await third.read(nonceOf(6)), known(6, 'answered'));
      await third.close();
    }));

  it('in a file that is written again when much of it is old, without losing a count', () =>
    withFolder(async (path) => {
      const lines = ['HERS keeper 1'];
      for (let i = 0; i < 12_000; i++) lines.push(`${nonceOf(i)} 2 ${i} enrolled`);
      await writeFile(path, `${lines.join('\n')}\n`);
      const file = new NonceFile(path);
      assert.equal(await file.enrolled(2), 12_000);
      await file.forget(11_990);
      assert.ok((await readFile(path, 'utf8')).length < 2000);
      await file.write(known(20_000, 'answered'));
      await file.close();
      const again = new NonceFile(path);
      assert.equal(await again.enrolled(2), 12_000);
      assert.deepEqual((await again.read(nonceOf(11_995)))?.state, 'enrolled');
      assert.equal(await again.read(nonceOf(11_000)), undefined);
      await again.close();
    }));

  it('refuses a file that it never wrote, and leaves it as it is', () =>
    withFolder(async (path) => {
      for (const text of [
        'something else\n',
        'HERS keeper 2\n',
        'HERS keeper 1\nnonsense\n',
        `HERS keeper 1\n${nonceOf(1)} x 1 begun\n`,
      ]) {
        await writeFile(path, text);
        await assert.rejects(new NonceFile(path).read(nonceOf(1)), fails('DAMAGED'));
        assert.equal(await readFile(path, 'utf8'), text);
      }
    }));

  it('survives kill -9: all that was acknowledged is there', () =>
    withFolder(async (path) => {
      const module = join(import.meta.dirname, 'memory.node.ts');
      const program = `import { NonceFile } from ${JSON.stringify(module)};
        const file = new NonceFile(${JSON.stringify(path)});
        for (let i = 0; ; i++) {
          await file.write({ nonce: i.toString(16).padStart(32, '0'), device: 1, time: i, state: 'answered' });
          process.stdout.write(i + '\\n');
        }`;
      let last = -1;
      for (let round = 0; round < 3; round++) {
        const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        let output = '';
        child.stdout.setEncoding('utf8').on('data', (text) => {
          output += text;
          if (output.length > 400 + 100 * round) child.kill('SIGKILL');
        });
        await new Promise((resolve) => child.on('close', resolve));
        last = Math.max(last, Number(output.trimEnd().split('\n').at(-2)));
        const file = new NonceFile(path);
        for (let i = 0; i <= last; i++) assert.equal((await file.read(nonceOf(i)))?.state, 'answered', `nonce ${i}`);
        await file.close();
      }
      assert.ok(last > 50);
    }));
});
