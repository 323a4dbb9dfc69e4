import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { it } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);

it('keys that are closed while an answer is on its way keep the process alive until then', async () => {
  const script = `
    import { LoadedKeys } from ${JSON.stringify(new URL('evaluator.ts', import.meta.url).href)};
    for (let round = 0; round < 12; round++) {
      const keys = new LoadedKeys(() => {});
      await keys.prepare([]).catch(() => {});
      for (let number = 0; number < 1 + round; number++) keys.forget(number);
      const until = performance.now() + 5;
      while (performance.now() < until);
      await keys.close();
    }
    console.log('closed');`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script]);
  assert.equal(stdout, 'closed\n');
});
