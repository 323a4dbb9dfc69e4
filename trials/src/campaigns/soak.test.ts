// The short form of `npm run campaign -- soak`.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { soak } from './soak.ts';

it('six hundred searches with writes in between: right answers, flat memory', async () => {
  const lines: string[] = [];
  assert.ok(await soak(600, (line) => lines.push(line)), lines.join('\n'));
});
