// What `hers doctor` says about a folder: its key, its files, its collections, and with --scrub
// every byte of them.

import { existsSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { relative } from 'node:path';
import { type Collection, Database, HersError, isSealed, type MasterSeed } from '@hers/client';
import type { ServerFinding } from '@hers/server';
import type { CollectionInfo, Service } from '@hers/service';
import type { FolderStore, Scrubbed } from '@hers/store';
import type { Context } from './context.ts';
import { CommandError, certificateAdvice, EXIT, endingOf, messageOf } from './exit.ts';
import { addressOf, isServer, openFolder, openServer, openVersions } from './gallery.ts';
import { cryptography, disk, type Finding, memory, note, ok, problem, processor, versions } from './machine-checks.ts';
import { counted, size } from './output.ts';

export function configuration({ settings }: Context): Finding {
  return settings.file === undefined
    ? note(
        'configuration',
        'there is no hers.config.json here or above',
        'hers init makes one; without it, defaults and flags are used',
      )
    : ok('configuration', settings.file);
}

export async function key({ settings }: Context): Promise<Finding> {
  const path = settings.value('key');
  if (!existsSync(path))
    return problem('key', `there is no key file ${path}`, 'name yours with --key, or make one with hers keys create');
  let sealed: boolean;
  try {
    sealed = isSealed(await readFile(path, 'utf8'));
  } catch (error) {
    return problem('key', messageOf(error), 'name another key file with --key, or bring back a copy of this one');
  }
  const { mode } = await stat(path);
  if ((mode & 0o077) !== 0) return problem('key', `${path} can be read by other users`, `chmod 600 ${path}`);
  const inside = relative(settings.value('gallery'), path);
  if (!isServer(settings.value('gallery')) && !inside.startsWith('..'))
    return problem(
      'key',
      `${path} lies in the gallery`,
      'move it elsewhere: whoever gets the folder would get the key with it',
    );
  return sealed
    ? ok('key', `${path}, sealed by a passphrase`)
    : note('key', `${path}, not sealed`, 'whoever can read it can read the gallery: hers keys passphrase seals it');
}

/** Everything about the folder; the key is used where it can be opened without a question. */
const COPIED =
  'start the node: it copies damaged shards from other nodes; if it does not start, start it with an empty folder';

/** Shards have no collection that a key opens: the node that runs on them has. */
async function nodeFolder(files: FolderStore): Promise<Finding> {
  const { folderStatus } = await import('@hers/cluster');
  try {
    const { nodes, collections, shards, leftover } = await folderStatus(files);
    const known = `a node of a cluster of ${counted(nodes.length, 'node')} (${nodes.join(', ')}): ${counted(shards, 'shard')} of ${counted(collections, 'collection')}`;
    return leftover === 0
      ? ok('node', known)
      : note(
          'node',
          `${known}; ${leftover} belong to no collection`,
          'the node removes them an hour after it was started',
        );
  } catch (error) {
    if (!(error instanceof HersError)) throw error;
    return error.code === 'NOT_FOUND'
      ? note('node', 'a node that has joined no cluster yet', 'start it with hers serve --cluster')
      : problem('node', error.message, adviceFor(error));
  }
}

export async function gallery(context: Context, scrub: boolean): Promise<{ findings: Finding[]; bytes: number }> {
  const { settings, out, keys } = context;
  const folder = settings.value('gallery');
  const remote = isServer(folder);
  if (!remote && !existsSync(folder)) {
    const finding = problem(
      'gallery',
      `there is no gallery at ${folder}`,
      'hers init makes one, --gallery names another',
    );
    return { findings: [finding], bytes: 0 };
  }
  const troubles: Finding[] = [];
  const onBackgroundError = (error: unknown) =>
    troubles.push(
      problem('gallery', messageOf(error), error instanceof HersError ? adviceFor(error) : 'see --verbose'),
    );
  let store: Service;
  let files: FolderStore | undefined;
  try {
    store = remote
      ? await openServer(context)
      : (files = await openFolder(settings, out, { read: true, onBackgroundError }));
  } catch (error) {
    if (!(error instanceof HersError)) throw error;
    const finding =
      error.code === 'NOT_FOUND'
        ? note('gallery', error.message, 'hers collections create makes one')
        : problem('gallery', error.message, adviceFor(error));
    return { findings: [finding], bytes: 0 };
  }
  let database: Database | undefined;
  try {
    const infos = await store.listCollections();
    const bytes = infos.reduce((sum, info) => sum + info.bytes, 0);
    const open = remote ? 0 : (await stat(folder)).mode & 0o077;
    const findings = [
      open === 0
        ? ok('gallery', `${folder}, ${counted(infos.length, 'collection')}, ${size(bytes)}`)
        : note(
            'gallery',
            `${folder} can be looked into by other users`,
            `everything in it is encrypted; still, chmod 700 ${folder}`,
          ),
    ];
    findings.push(...troubles, ...(files ? [...writer(files), ...setAside(files)] : []));
    if (files?.holdsShards) {
      findings.push(await nodeFolder(files));
      for (const { name, damage } of files.damagedCollections())
        findings.push(problem(`shard ${name}`, damage.message, COPIED));
      const checked = scrub ? await scrubbed(context, files, bytes) : lengths(files);
      // What is damaged in a node is copied from another one, and not repaired by hand.
      findings.push(...checked.map((each) => (each.level === 'problem' ? { ...each, advice: COPIED } : each)));
      return { findings, bytes };
    }
    if (files) findings.push(...damaged(files));
    using seed = await openQuietly(keys, (finding) => findings.push(finding));
    if (!seed && infos.length > 0)
      findings.push(
        note(
          'collections',
          'not opened, because that needs the key',
          'set HERS_PASSPHRASE or --passphrase-file to have them checked',
        ),
      );
    const versions = seed && (await openVersions(settings).catch((error) => refused(error)));
    if (versions instanceof CommandError)
      findings.push(problem('what was seen', versions.message, versions.next ?? ''));
    else {
      const gallery = await addressOf(folder);
      database = seed && new Database(store, { key: seed, versions: versions!, gallery });
    }
    const sorted = infos.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    for (const info of sorted) findings.push(...(await checkCollection(database, info)));
    if (files && !scrub) findings.push(...lengths(files));
    if (scrub) {
      if (files) findings.push(...(await scrubbed(context, files, bytes)));
      else
        findings.push(note('scrub', 'the files of a server cannot be read from here', 'run hers doctor --scrub there'));
      for (const { name } of sorted) findings.push(...(await unsealed(context, database, name)));
    }
    return { findings, bytes };
  } finally {
    await (database ?? store).close();
  }
}

function damaged(store: FolderStore): Finding[] {
  return store
    .damagedCollections()
    .map(({ name, damage }) => problem(`collection ${name}`, damage.message, adviceFor(damage)));
}

/** What a server says of the folder that it serves, which it has open already, without a key. */
async function servedFolder(store: FolderStore): Promise<{ findings: Finding[]; bytes: number }> {
  const infos = await store.listCollections();
  const bytes = infos.reduce((sum, info) => sum + info.bytes, 0);
  const sorted = infos.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const collections = await Promise.all(sorted.map((info) => checkCollection(undefined, info)));
  const found = ok('gallery', `${counted(infos.length, 'collection')}, ${size(bytes)}`);
  return { findings: [found, ...setAside(store), ...damaged(store), ...collections.flat(), ...lengths(store)], bytes };
}

function writer(store: FolderStore): Finding[] {
  const who = store.writer();
  return who === undefined
    ? []
    : [
        note(
          'writer',
          `written by ${who}`,
          'reading goes on beside it; whatever else would write has to wait for it, or goes through it where it is hers serve: --gallery http://127.0.0.1:7443',
        ),
      ];
}

/** What a look into the folders shows; a scrub shows that too. */
function lengths(store: FolderStore): Finding[] {
  let files: Scrubbed[];
  try {
    files = store.lengths();
  } catch (error) {
    return [problemOf('files', error)];
  }
  const wrong = files.flatMap(({ file, damage }) =>
    damage ? [problem(`file ${file}`, damage.message, adviceFor(damage))] : [],
  );
  if (wrong.length > 0) return wrong;
  const found = `${counted(files.length, 'file')}, there and as long as the catalogue says; --scrub reads them`;
  return files.length === 0 ? [] : [ok('files', found)];
}

/** What the catalogue does not name: mostly what a crash has left. */
function setAside(store: FolderStore): Finding[] {
  const aside = store.setAside();
  const [first] = aside;
  if (!first) return [];
  const bytes = aside.reduce((sum, each) => sum + each.bytes, 0);
  const days = Math.ceil(Math.max(...aside.map(({ left }) => left)) / (24 * 3600 * 1000));
  return [
    note(
      'lost+found',
      `${aside.length === 1 ? '1 thing that belongs' : `${aside.length} things that belong`} to no collection, ${size(bytes)}: ${first.path}${aside.length > 1 ? ' and others' : ''}`,
      `what was never committed is left by a crash or an import that was refused; it goes by itself in ${counted(days, 'day')} or with hers optimize. If something is missing, keep a copy of the folder and run hers doctor --repair`,
    ),
  ];
}

function refused(error: unknown): CommandError {
  if (error instanceof CommandError) return error;
  throw error;
}

/** The key, where it can be opened without a question. */
async function openQuietly(keys: Context['keys'], report: (finding: Finding) => void): Promise<MasterSeed | undefined> {
  // A missing or broken key file has a finding of its own.
  const mustAsk = await keys.mustAsk().catch(() => true);
  if (mustAsk) return undefined;
  return keys.open().catch((error) => {
    const { message, exit, next = '' } = endingOf(error);
    report(problem('passphrase', message, exit === EXIT.key ? 'check HERS_PASSPHRASE or --passphrase-file' : next));
    return undefined;
  });
}

async function checkCollection(database: Database | undefined, info: CollectionInfo): Promise<Finding[]> {
  const check = `collection ${info.name}`;
  if (!database) return [ok(check, `${counted(info.blocks, 'block')}, ${size(info.bytes)}, version ${info.version}`)];
  try {
    const { records, blocks, plan } = await database.describe(info.name);
    const found = `${counted(records, 'record')} in ${counted(blocks, 'block')}, ${size(info.bytes)}, version ${info.version}`;
    const hasPending = records > blocks * plan.capacity;
    return [
      hasPending
        ? note(
            check,
            `${found}; some are pending`,
            `hers optimize --collection ${info.name} encrypts them for the scan`,
          )
        : ok(check, found),
    ];
  } catch (error) {
    return [problemOf(check, error)];
  }
}

function problemOf(check: string, error: unknown): Finding {
  if (!(error instanceof HersError)) throw error;
  return problem(check, error.message, adviceFor(error));
}

/**
 * Every byte of every file, without the key: the store compares it with the checksums that were
 * written with it.
 */
async function scrubbed(context: Context, store: FolderStore, bytes: number): Promise<Finding[]> {
  using progress = context.progress({ label: 'Scrubbing', total: bytes, unit: 'bytes' });
  const { signal } = context;
  const findings: Finding[] = [];
  let [read, files] = [0, 0];
  const onProgress = ({ done, total }: { done: number; total: number }) => progress.update(done, total);
  for await (const { file, bytes: each, damage } of store.scrub({ signal, onProgress })) {
    files++;
    read += each;
    if (damage) findings.push(problem(`scrub ${file}`, damage.message, adviceFor(damage)));
  }
  const whole = ok('scrub', `${counted(files, 'file')}, ${size(read)}: every byte is as it was written`);
  return findings.length > 0 ? findings : [whole];
}

/**
 * With the key, every seal is opened: that shows what no checksum can, that nobody else wrote it.
 */
async function unsealed(context: Context, database: Database | undefined, name: string): Promise<Finding[]> {
  const check = `seals ${name}`;
  try {
    const collection = await database?.collection(name);
    if (!collection) return [];
    return [ok(check, `${counted(await openAll(context, collection), 'record')} opened with the key`)];
  } catch (error) {
    return [problemOf(check, error)];
  }
}

const TOGETHER = 512;

async function openAll(context: Context, collection: Collection): Promise<number> {
  using progress = context.progress({
    label: `Opening ${collection.name}`,
    total: await collection.count(),
    unit: 'records',
  });
  let opened = 0;
  let part: string[] = [];
  const open = async () => {
    context.signal.throwIfAborted();
    opened += (await collection.get(part)).length;
    part = [];
    progress.update(opened);
  };
  for await (const id of collection.list()) if (part.push(id) === TOGETHER) await open();
  if (part.length > 0) await open();
  return opened;
}

function adviceFor(error: HersError): string {
  const certificate = certificateAdvice(error);
  if (certificate !== undefined) return certificate;
  switch (error.code) {
    case 'INVALID_ARGUMENT':
      return 'check --gallery and --token-file';
    case 'LOCKED':
      return 'another process writes to it: end that, then run this again';
    case 'WRONG_KEY':
      return 'it was made with another key: name that with --key';
    case 'DAMAGED':
      return 'hers doctor --repair brings back what can be; or bring the gallery back from a copy, or the collection from a snapshot with hers restore';
    case 'INTEGRITY':
      return 'it is not what this key has written last: if you put back an older copy yourself, hers collections accept goes on with it; else do not use it, and compare it with a snapshot you trust';
    case 'UNSUPPORTED_VERSION':
      return 'use the version that wrote it, or make it again from its source';
    case 'UNAVAILABLE':
    case 'OVERLOADED':
    case 'TIMED_OUT':
      return 'check the address, and that the server runs; then run this again';
    case 'UNAUTHENTICATED':
    case 'FORBIDDEN':
      return 'set HERS_TOKEN or --token-file to a token that allows it';
    case 'STORAGE':
      return 'check the disk, its room and the permissions of the folder';
    default:
      return 'run it again with --verbose, and report what that prints';
  }
}

export async function examine(path: string, folder: FolderStore): Promise<readonly ServerFinding[]> {
  const { findings, bytes } = await servedFolder(folder);
  return [versions(), processor(), cryptography(), ...findings, await disk(path, bytes), await memory(bytes)];
}
