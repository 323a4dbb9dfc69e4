// `hers optimize`, `snapshot` and `restore`: what a collection needs now and then.

import { basename } from 'node:path';
import { HersError } from '@hers/client';
import { isCollectionName } from '@hers/service';
import { isFileThere } from '@hers/service/target';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { absentError, CommandError, EXIT, inputError, stoppedAt, usageError } from '../exit.ts';
import { openBytes, STANDARD_INPUT } from '../input/lines.ts';
import { counted, duration, size } from '../output.ts';
import { mayReplace, writeOrReplace } from '../private-file.ts';

export function addUpkeep(program: HersCommand, context: () => Context): void {
  program
    .command('optimize')
    .summary('put pending records into blocks, and make deletions final')
    .description(
      'Puts pending records into blocks, rewrites blocks that hold deleted records, and removes deleted data from the disk. If it is interrupted, run it again to resume.',
    )
    .example('hers optimize', 'After imports and deletions')
    .action(() => optimize(context()));

  program
    .command('snapshot')
    .summary('write a collection to one file')
    .description(
      'Writes a collection to one file, as encrypted as it is stored: keep it wherever you could keep the gallery. The key file is not part of it.',
    )
    .argument('<file>', 'a new file, or - for standard output')
    .option('--replace', 'write over a file that exists')
    .example('hers snapshot faces.snapshot', 'To a file')
    .example('hers snapshot - | gzip > faces.snapshot.gz', 'Through a pipe')
    .action((file: string, { replace = false }: { replace?: boolean }) => snapshot(context(), file, replace));

  program
    .command('restore')
    .summary('make a collection from a snapshot')
    .description(
      'Makes a collection from a snapshot. A snapshot older than what this key has last seen is refused, because a rolled-back gallery looks the same; --accept-older accepts it. A copy restored beside its original is independent from then on.',
    )
    .argument('<file>', 'the snapshot, or - for standard input')
    .option('--as <name>', 'the name of the collection; that of the file, up to its first dot, by default')
    .option('--accept-older', 'accept a snapshot that is older than what was last seen')
    .example('hers restore old-faces.snapshot --accept-older', 'Under the name old-faces')
    .example('hers restore old-faces.snapshot --as faces-again --accept-older', 'Under another name')
    .action((file: string, options: { as?: string; acceptOlder?: boolean }) => restore(context(), file, options));
}

async function optimize(context: Context): Promise<void> {
  const { out } = context;
  const words = { label: 'Optimizing', none: 'nothing was rewritten yet', some: 'rewritten' };
  await context.collection({}, async (collection, { database }) => {
    const before = await database.describe(collection.name);
    const { ms } = await context.inBlocks(words, (options) => collection.optimize(options));
    const { records, blocks, bytes } = await database.describe(collection.name);
    out.result(
      { collection: collection.name, records, blocks, bytes, bytesBefore: before.bytes, seconds: ms / 1000 },
      `${collection.name}: ${counted(records, 'record')} in ${counted(blocks, 'block')}, ${size(bytes)} on disk (${size(before.bytes)} before). That took ${duration(ms)}.`,
    );
  });
}

async function snapshot(context: Context, argument: string, replace: boolean): Promise<void> {
  const { out, signal, environment } = context;
  const toStandardOutput = argument === STANDARD_INPUT;
  if (toStandardOutput && out.json)
    throw usageError('--json and a snapshot cannot share standard output', 'name a file');
  if (toStandardOutput && out.terminal)
    throw usageError('a snapshot is not for a terminal', 'name a file, or send it through a pipe');
  const path = context.path(argument);
  if (!toStandardOutput && isFileThere(path) && !replace) throw mayReplace(path);
  await context.collection({ read: true }, async (collection, { service }) => {
    const { bytes: estimate } = await service.getCollection(collection.name);
    const started = performance.now();
    using progress = context.progress({ label: 'Copying', total: estimate, unit: 'bytes' });
    let bytes = 0;
    const pieces = async function* () {
      for await (const piece of collection.snapshot({ signal })) {
        yield piece;
        progress.update((bytes += piece.length));
      }
    };
    if (toStandardOutput) {
      for await (const piece of pieces()) await writeAll(environment.stdout, piece);
      return;
    }
    await writeOrReplace(path, replace, async (file) => {
      for await (const piece of pieces()) await file.appendFile(piece);
    }).catch((error) =>
      Promise.reject(stoppedAt(error, signal, `${path} was not written; the collection is as it was`)),
    );
    progress.end();
    const ms = performance.now() - started;
    if (out.json) out.object({ collection: collection.name, file: path, bytes, seconds: ms / 1000 });
    else out.line(`${collection.name} is in ${path}: ${size(bytes)}. That took ${duration(ms)}.`);
  });
}

function writeAll(stream: NodeJS.WritableStream, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => stream.write(bytes, (error) => (error ? reject(error) : resolve())));
}

async function restore(
  context: Context,
  argument: string,
  { as, acceptOlder = false }: { readonly as?: string; readonly acceptOlder?: boolean },
): Promise<void> {
  const { out, signal } = context;
  const name = as ?? (argument === STANDARD_INPUT ? undefined : basename(argument).split('.')[0]);
  if (name === undefined)
    throw usageError('a snapshot from standard input has no name', 'say what it shall be called with --as');
  if (!isCollectionName(name))
    throw usageError(
      `${JSON.stringify(name)} is no name for a collection: letters, digits, dots, dashes and underscores`,
      'say what it shall be called with --as',
    );
  const source = await openBytes(context.environment, argument);
  try {
    await context.gallery({ create: true }, async (gallery) => {
      using progress = context.progress({
        label: 'Restoring',
        unit: 'bytes',
        ...(source.size === undefined ? {} : { total: source.size }),
      });
      const pieces = async function* () {
        for await (const piece of source.rest()) {
          yield piece;
          progress.update(source.position);
        }
      };
      const collection = await gallery.database
        .restore(name, pieces(), { acceptOlder, signal })
        .catch((error) => Promise.reject(notRestored(error, source.name, signal)));
      progress.end();
      const records = await collection.count();
      out.result({ collection: name, records }, `${name} holds ${counted(records, 'record')}.`);
    });
  } finally {
    await source.close();
  }
}

/** What a stream of bytes, or a database, complains of says little to somebody who named a file. */
function notRestored(error: unknown, file: string, signal: AbortSignal): unknown {
  const code = error instanceof HersError ? error.code : undefined;
  if (code === 'INTEGRITY' && /acceptOlder/.test((error as HersError).message))
    return new CommandError(
      EXIT.integrity,
      (error as HersError).message.replace(/;[^;]*$/, ''),
      'add --accept-older if going back is meant',
      code,
    );
  if (code === 'ALREADY_EXISTS')
    return absentError((error as HersError).message.replace(/;[^;]*$/, ''), 'choose another name with --as', code);
  if (code !== 'MALFORMED') return stoppedAt(error, signal, 'nothing was restored');
  return inputError(
    `${file} is no snapshot, or is damaged (${(error as HersError).message})`,
    'name a file that `hers snapshot` wrote, or take another copy of it',
    code,
  );
}
