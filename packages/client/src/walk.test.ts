// The walk of a reader: how many source files a search enters, and that it enters none about what
// the search has nothing to do with. `trials/src/walks.ts` prints the files.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type Trace, traceModules } from '../testing/trace.ts';

/** Files that a search may enter, at most; lower a number when a walk gets shorter. */
const MOST_FILES = { folder: 46, http: 66 };

/** Paths about devices, their inbox, the profile `open` and accelerators. */
const FOREIGN = [/device/, /inbox|envelope|keeper/, /evaluation/, /\/open[/.]/, /accelerator|cuda|gpu|\/kept/];

// Coverage could not find its places in sources that the trace has changed.
const skip = process.env.NODE_V8_COVERAGE ? 'coverage is measured' : false;
if (!skip) traceModules();

async function trace(name: keyof typeof MOST_FILES): Promise<Trace> {
  const { traceWalk, WALKS } = await import('../testing/walks.ts');
  return (await traceWalk(WALKS[name])).get(name)!;
}

it('a search in a folder enters few files, and none about devices', { skip }, async () => {
  const { entered, touched } = await trace('folder');
  const isForeign = (file: string) => FOREIGN.some((pattern) => pattern.test(file));
  assert.deepEqual([...entered.keys(), ...touched].filter(isForeign), []);
  assert.ok(entered.size <= MOST_FILES.folder, [...entered.keys()].join('\n'));
  assert.ok(entered.has('packages/store/src/search.ts'), 'the trace sees the store');
});

it('a search over HTTP enters few files of client and server', { skip }, async () => {
  const { entered } = await trace('http');
  assert.ok(entered.size <= MOST_FILES.http, [...entered.keys()].join('\n'));
  assert.ok(entered.has('packages/server/src/routes.ts'), 'the trace sees the server');
});
