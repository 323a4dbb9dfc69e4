import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { part } from '../../../tools/parts.ts';

const url = JSON.stringify(import.meta.resolve('./index.ts'));

/** What another process prints, with HERS_RING set so. */
function run(asked: string, script: string): { stdout: string; stderr: string; status: number | null } {
  const env = { ...process.env, HERS_RING: asked };
  const args = ['--input-type=module', '-e', `const ring = await import(${url}); ${script}`];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { env, encoding: 'utf8' });
  return { stdout, stderr, status };
}

const print = 'console.log(ring.ringCode());';

describe('HERS_RING', () => {
  it('asks for WebAssembly', () => {
    assert.deepEqual(run('wasm', print), { stdout: 'WebAssembly (HERS_RING asks for it)\n', stderr: '', status: 0 });
  });
  it('asks for native code, or for nothing, on several threads', part('compiler'), () => {
    const worker = `new (await import('node:worker_threads')).Worker(${JSON.stringify(
      `import(${url}).then((ring) => console.log(ring.ringCode()))`,
    )}, { eval: true });`;
    for (const asked of ['native', 'auto', '']) {
      const { stdout, stderr, status } = run(asked, print + worker + worker);
      assert.deepEqual({ stderr, status }, { stderr: '', status: 0 });
      // One of them may be WebAssembly only where there is no native code for the processor.
      const [first, ...others] = stdout.trim().split('\n');
      assert.match(first, asked === 'native' ? /^native/ : /^(?:native|WebAssembly \(there is no)/);
      assert.deepEqual(others, [first, first]);
    }
  });
  it('refuses anything else', () => {
    const { stderr, status } = run('fast', print);
    assert.equal(status, 1);
    assert.match(stderr, /HERS_RING is "fast"; it can be auto, native, wasm/);
  });
});
