import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { ReferenceKernel } from '@hers/scan';
import { runChild, withFolder } from '../../testing/crash.ts';
import { checkHolds, Script } from '../../testing/crash-script.ts';
import { openStore } from '../store.ts';
import { Disk } from './disk.ts';
import { sweep } from './lost-and-found.ts';

const kernel = async () => new ReferenceKernel();
const DAY = 24 * 3600 * 1000;
const LOST = 'lost+found/1-00ff.block';

/** A folder with something set aside. */
function withLost(work: (disk: Disk) => void) {
  return withFolder(async (folder) => {
    mkdirSync(join(folder, 'lost+found'));
    writeFileSync(join(folder, LOST), 'x');
    work(new Disk(folder));
  });
}

it('what is set aside goes after a week', () =>
  withLost((disk) => {
    const start = Date.UTC(2026, 0, 1);
    for (let day = 0; day < 7; day++) {
      const [{ path, left }] = sweep(disk, [], start + day * DAY);
      assert.deepEqual([path, left], [LOST, (7 - day) * DAY]);
    }
    assert.deepEqual(sweep(disk, [], start + 7 * DAY), []);
    assert.equal(existsSync(disk.path(LOST)), false);
  }));

it('a clock that goes back, forth or mad does not shorten the week', () =>
  withLost((disk) => {
    const start = Date.UTC(2026, 0, 1);
    const left = (now: number) => sweep(disk, [], now)[0].left;
    assert.equal(left(start), 7 * DAY);
    assert.equal(left(0), 7 * DAY, 'back to 1970');
    assert.equal(left(start), 7 * DAY, 'and to where it was: no time has passed');
    assert.equal(left(start - 400 * DAY), 7 * DAY);
    assert.equal(left(start + 1000), 7 * DAY - 1000);
    assert.equal(left(start + 4000 * DAY), 6 * DAY - 1000, 'a leap counts as a day');
    assert.equal(left(start + 2000), 6 * DAY - 1000);
  }));

it('a ledger that is lost or damaged begins the week again', () =>
  withLost((disk) => {
    for (const damage of [
      () => rmSync(disk.path('lost+found/ledger.json')),
      () =>
        writeFileSync(disk.path('lost+found/ledger.json'), '{"seen": 1, "left": {"lost+found/1-00ff.block": "soon"}}'),
      () => writeFileSync(disk.path('lost+found/ledger.json'), 'garbage'),
    ]) {
      sweep(disk, [], 0);
      sweep(disk, [], DAY);
      damage();
      assert.equal(sweep(disk, [], 5 * DAY)[0].left, 7 * DAY);
    }
  }));

it('the tail of a pack is cut off after a week, and nothing before it', () =>
  withFolder(async (folder) => {
    const disk = new Disk(folder);
    const [path, end] = ['1-1.pack', 9];
    writeFileSync(disk.path(path), 'committed and a tail');
    for (let day = 0; day < 7; day++)
      assert.deepEqual(sweep(disk, [{ path, end }], day * DAY), [{ path, bytes: 11, left: (7 - day) * DAY }]);
    assert.deepEqual(sweep(disk, [{ path, end }], 7 * DAY), []);
    assert.equal(readFileSync(disk.path(path), 'utf8'), 'committed');
    assert.deepEqual(readdirSync(folder), [path]);
  }));

it('the tail of a pack stays where it is, takes nothing more, and goes with a purge', () =>
  withFolder(async (folder) => {
    const script = new Script(31, 0.1);
    const store = await openStore(folder, { kernel });
    for (let i = 0; i < 3; i++) await script.step(i).run(store);
    await store.close();
    const packs = () => readdirSync(join(folder, 'vault')).sort();
    const last = join(folder, 'vault', packs().at(-1)!);
    const { size } = statSync(last);
    appendFileSync(last, 'acknowledged by nobody');
    const again = await openStore(folder, { kernel });
    assert.deepEqual(
      again.setAside().map(({ bytes }) => bytes),
      [22],
    );
    await script.step(3).run(again);
    await script.step(4).run(again);
    await checkHolds(again, script.after(5));
    assert.equal(statSync(last).size, size + 22, 'nothing was written behind it, or cut');
    assert.ok(packs().length > 1);
    await again.purge('faces');
    assert.ok(!readFileSync(join(folder, 'vault', packs()[0])).includes('acknowledged by nobody'));
    assert.deepEqual(again.setAside(), []);
    await checkHolds(again, script.after(5));
    await again.close();
  }));

it('a kill leaves what was staged in lost+found, a purge of the collection empties that', () =>
  withFolder(async (folder) => {
    const script = new Script(32, 0.3);
    const run = await runChild({ folder, seed: 32, share: 0.3, steps: 9, fault: 'commit.within:2' });
    assert.equal(run.signal, 'SIGKILL');
    const store = await openStore(folder, { kernel });
    await checkHolds(store, script.after(run.acknowledged));
    assert.ok(store.setAside().length > 0);
    await store.close();
    const again = await openStore(folder, { kernel });
    assert.ok(again.setAside().length > 0, 'opening once more changes nothing');
    await again.purge('faces');
    assert.deepEqual(again.setAside(), []);
    await again.close();
  }));

it('files of a collection that was deleted go with it, whatever comes in between', () =>
  withFolder(async (folder) => {
    for (const fault of ['delete.committed', 'delete.removed']) {
      rmSync(folder, { recursive: true });
      const run = await runChild({ folder, seed: 33, share: 0.1, steps: 12, fault });
      assert.equal(run.signal, 'SIGKILL');
      const store = await openStore(folder, { kernel });
      const keys = new Set(
        ['blocks', 'segments', 'vault']
          .flatMap((sub) => readdirSync(join(folder, sub)))
          .map((file) => file.split('-')[0]),
      );
      assert.equal(keys.size, (await store.listCollections()).length);
      assert.deepEqual(
        store.setAside().filter(({ path }) => !path.startsWith('lost+found/1-')),
        [],
      );
      await store.close();
    }
  }));
