// `hers doctor --repair`: makes a new gallery of what a damaged one holds, and says what that is.

import {
  type DamagedPlace,
  type RepairedCollection,
  type RepairProgress,
  type RepairReport,
  repairGallery,
} from '@hers/client/repair';
import { given } from './command.ts';
import type { Context } from './context.ts';
import { EXIT, stoppedAt, usageError } from './exit.ts';
import { isServer, openFolder, openVersions } from './gallery.ts';
import { count, counted, duration, size } from './output.ts';
import type { Progress } from './progress.ts';

export interface RepairFlags {
  readonly into?: string;
  readonly unlisted?: boolean;
}

export async function repair(context: Context, { into, unlisted = false }: RepairFlags): Promise<void> {
  const { settings, keys, out, signal } = context;
  const folder = settings.value('gallery');
  if (isServer(folder)) throw usageError('the files of a server cannot be repaired from here', 'run this there');
  if (await isNodeFolder(context))
    throw usageError(
      `${folder} is the folder of a node, which copies damaged shards from other nodes`,
      'start the node; if it does not start, start it with an empty folder',
    );
  const versions = await openVersions(settings);
  using key = await keys.open();
  using bars = barsOf(context);
  const { threads } = settings;
  const started = performance.now();
  const report = await repairGallery({
    folder,
    key,
    versions,
    unlisted,
    signal,
    onProgress: bars.show,
    ...given({ threads, into: into === undefined ? undefined : context.path(into) }),
  }).catch((error) => Promise.reject(stoppedAt(error, signal, 'the gallery is as it was, and nothing else is left')));
  bars.end();
  if (!report.complete) context.exit = EXIT.no;
  if (out.json) out.object({ ...report, seconds: (performance.now() - started) / 1000 });
  else tell(context, report, performance.now() - started);
}

/** False for one that is too damaged to be opened. */
async function isNodeFolder({ settings, out }: Context): Promise<boolean> {
  try {
    const store = await openFolder(settings, out, { read: true, onBackgroundError: () => {} });
    const { holdsShards } = store;
    await store.close();
    return holdsShards;
  } catch {
    return false;
  }
}

/** One bar after the other. */
function barsOf(context: Context) {
  let shown: string | undefined;
  let bar: Progress | undefined;
  const end = () => {
    bar?.end();
    shown = undefined;
  };
  const show = ({ step, done, total, unit }: RepairProgress) => {
    if (shown !== `${step} ${unit}`) {
      end();
      shown = `${step} ${unit}`;
      bar = context.progress({ label: step, total, unit });
    }
    bar!.update(done, total);
  };
  return { show, end, [Symbol.dispose]: end };
}

function tell({ out }: Context, report: RepairReport, ms: number): void {
  const { outcome, folder, backup, reason, bytes } = report;
  if (reason !== undefined) out.line(`What was wrong: ${reason.split(';')[0]}.`);
  for (const { file, ranges } of report.damage) out.line(`${file}: ${rangesOf(ranges)}`);
  for (const collection of report.collections) {
    for (const sentence of sentencesOf(collection, out.verbose)) out.line(`${collection.name}: ${sentence}`);
    for (const id of collection.lost.ids) out.detail(`${collection.name}: lost ${JSON.stringify(id)}`);
  }
  for (const name of report.ofOtherKeys)
    out.line(
      outcome === 'rebuilt'
        ? `${name}: made with another key, and left out. Repair it with that key, into a folder of its own.`
        : `${name}: made with another key; its files are whole, and only that key opens what is in them.`,
    );
  for (const name of report.withoutManifest)
    out.line(`${name}: no manifest of it opens, and it is left out. Restore a snapshot of it.`);
  for (const name of report.deleted) out.line(`${name}: was deleted, and is left out.`);
  for (const { id, records, lists, blockFiles } of report.unknown)
    out.line(
      `A collection with the id ${id} has no manifest any more, and is left out: ${counted(records, 'sealed record')}, ${counted(lists, 'list')}, ${counted(blockFiles, 'file')} of blocks. Nothing of it was deleted.`,
    );
  if (outcome === 'whole') out.line(`${folder} is whole. Nothing was done.`);
  else if (outcome === 'mended')
    out.line(`${folder} is whole: only what proves its catalogue was damaged, and was rebuilt.`);
  else if (outcome === 'finished')
    out.line(
      `${folder} has its name again: an earlier repair had ended just before. The damaged gallery is in ${backup}.`,
    );
  else {
    out.line(`The repaired gallery is in ${folder}: ${size(bytes)} were read in ${duration(ms)}.`);
    if (backup !== undefined)
      out.line(
        report.complete
          ? `The damaged one is in ${backup}; delete it when you have seen that you miss nothing.`
          : `Keep ${backup}: it is all there is of what is missing. hers doctor --repair --unlisted --gallery ${backup} --into <folder> brings back records that no list names, deleted ones with them.`,
      );
  }
  for (const leftover of report.leftovers)
    out.line(`${leftover} is left from an earlier repair, complete and not used: it can be deleted.`);
}

const MOST_RANGES = 3;

function rangesOf(ranges: DamagedPlace['ranges']): string {
  const bytes = ranges.reduce((sum, { from, to }) => sum + to - from, 0);
  const shown = ranges.slice(0, MOST_RANGES).map(({ from, to }) => `${from} to ${to - 1}`);
  const more = ranges.length > MOST_RANGES ? ` and ${counted(ranges.length - MOST_RANGES, 'other place')}` : '';
  return `${counted(bytes, 'byte')} cannot be used, at ${shown.join(', ')}${more}.`;
}

function sentencesOf(collection: RepairedCollection, verbose: boolean): string[] {
  const { version, found, records, lost, blocks, unlisted, missingVersions } = collection;
  const next = version === found ? '' : ` (${found} was found)`;
  const said = [
    `version ${version}${next}, ${counted(records, 'record')}${collection.complete ? ', all that its manifest names' : ''}.`,
  ];
  if (blocks.rebuilt > 0) said.push(`${counted(blocks.rebuilt, 'block')} encrypted again from the vault.`);
  if (blocks.dropped > 0) said.push(`${counted(blocks.dropped, 'block')} dropped, because of what is missing.`);
  if (lost.count > 0) {
    const named = lost.ids.length < lost.count ? `, ${count(lost.ids.length)} of them known by id` : '';
    const how = lost.ids.length > 0 && !verbose ? ' --verbose and --json name them.' : '';
    said.push(`${counted(lost.count, 'record')} lost${named}.${how}`);
  }
  if (collection.lostCompressor)
    said.push(
      'a compressor is lost: what it had compressed is indexed without one, if the vault has it. hers reindex <file> applies it again.',
    );
  if (collection.lostEvaluation)
    said.push(
      'evaluation keys are lost, without which open queries are not answered. hers optimize makes those of the collection again, hers devices renew those of a device.',
    );
  if (missingVersions > 0)
    said.push(
      `${counted(missingVersions, 'version')} that this key has seen ${missingVersions === 1 ? 'is' : 'are'} missing, and what they changed. hers collections accept ${collection.name} goes on with what is there.`,
    );
  if (unlisted.broughtBack > 0)
    said.push(`${counted(unlisted.broughtBack, 'record')} brought back from the vault that no list named any more.`);
  const left = unlisted.found - unlisted.broughtBack;
  if (left > 0 && (lost.count > 0 || missingVersions > 0))
    said.push(
      `${counted(left, 'record')} of the vault ${left === 1 ? 'is' : 'are'} in no list: deleted ones, or some of what is missing. --unlisted brings them back, deleted ones too.`,
    );
  return said;
}
