// Every point of every write path at which tests simulate a crash. In production `fault` does
// nothing. If the environment variable HERS_FAULT names a point (`segment.renamed`, or
// `segment.renamed:3` for the third time), the process is killed there, as by a power switch.
// crash.test.ts covers every point.

export const FAULT_POINTS = [
  // Creating a folder.
  'format.written',
  'catalogue.made',
  'collection.committing',
  'collection.made',
  // Staging: sealed records and lists go to a pack, an encoded block to a file.
  'pack.created',
  'pack.written',
  'pack.synced',
  'block.created',
  'block.written',
  'block.synced',
  'stage.kept',
  // A commit.
  'commit.folders',
  'commit.within',
  'commit.committed',
  'commit.removed',
  // The inbox: a post, a drop, devices that are refused.
  'inbox.within',
  'inbox.committed',
  // The catalogue's own upkeep.
  'merge.within',
  'merge.slice',
  'merge.done',
  'checkpoint.written',
  'sums.written',
  'sums.renamed',
  'checkpoint.done',
  'catalogue.committed',
  'catalogue.journalled',
  'journal.rewritten',
  // Compaction.
  'segment.built',
  'segment.renamed',
  'segment.within',
  'segment.committed',
  'segment.removed',
  // Purge.
  'purge.copied',
  'purge.within',
  'purge.committed',
  'purge.removed',
  'purge.vacuumed',
  'purge.truncated',
  // Deleting a collection.
  'delete.within',
  'delete.committed',
  'delete.removed',
  // Restoring one.
  'restore.begun',
  'restore.records',
  'restore.blocks',
  'restore.within',
  'restore.committed',
] as const;

export type FaultPoint = (typeof FAULT_POINTS)[number];

let armed: FaultPoint | undefined;
let left = 0;

const variable = process.env.HERS_FAULT;
if (variable) {
  const [point, count = '1'] = variable.split(':');
  const found = FAULT_POINTS.find((each) => each === point);
  if (!found || !/^[1-9]\d*$/.test(count)) throw new Error(`HERS_FAULT is ${variable}, which names no fault point`);
  armed = found;
  left = Number(count);
}

export function fault(point: FaultPoint): void {
  if (point !== armed || --left > 0) return;
  process.kill(process.pid, 'SIGKILL');
  // The signal should end the process before this thread's next instruction. If it does not,
  // nothing may continue.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
