// The short forms of `npm run campaign -- hostile-clients` and `-- busy`.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { busy } from './busy.ts';
import { hostileClients } from './campaign.ts';

it('every kind of attack, briefly: no 5xx, no end of the process, right answers for the honest client', async () => {
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  const onProgress = log;
  assert.ok(await hostileClients({ seconds: 7, seed: 1, isShort: true, log, onProgress }), lines.join('\n'));
});

it('six searchers while four thousand records are enrolled: every answer is right', async () => {
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  assert.ok(
    await busy({ searchers: 6, records: 4000, seed: 1, isShort: true, log, onProgress: log }),
    lines.join('\n'),
  );
});
