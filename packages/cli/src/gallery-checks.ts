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
import { inParts } from './input/lines.ts';
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

const COPIED =
  'start the node: it copies damaged shards from other nodes; if it does not start, start it with an empty folder';

/** Shards have no collection that a key opens: the node that runs on them has. */
async function nodeFolder(files: FolderStore): Promise<Finding> {
  const { folderStatus } = await import('@hers/cluster');
  try {
    const { nodes, collections, shards, leftover } = await folderStatus(files);
    const known = `a node of a cluster of ${counted(nodes.length, 'node')} (${nodes.join(', ')}): ${counted(shards, 'shard')} of ${counted(collections, 'collection')}`;
    if (leftover === 0) return ok('node', known);
    const found = `${known}; ${leftover} belong to no collection`;
    return note('node', found, 'the node removes them an hour after it was started');
  } catch (error) {
    if (!(error instanceof HersError && error.code === 'NOT_FOUND')) return problemOf('node', error);
    return note('node', 'a node that has joined no cluster yet', 'start it with hers serve --cluster');
  }
}

/** Everything about the folder; the key is used where it can be opened without a question. */
export async function gallery(context: Context, scrub: boolean): Promise<{ findings: Finding[]; bytes: number }> {
  const { settings, out, keys } = context;
  const folder = settings.value('gallery');
  const remote = isServer(folder);
  const alone = (finding: Finding) => ({ findings: [finding], bytes: 0 });
  if (!remote && !existsSync(folder))
    return alone(
      problem('gallery', `there is no gallery at ${folder}`, 'hers init makes one, --gallery names another'),
    );
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
    const isAbsent = error instanceof HersError && error.code === 'NOT_FOUND';
    return alone(
      isAbsent ? note('gallery', error.message, 'hers collections create makes one') : problemOf('gallery', error),
    );
  }
  let database: Database | undefined;
  try {
    const { infos, bytes, found } = await collectionsIn(store);
    const open = remote ? 0 : (await stat(folder)).mode & 0o077;
    const findings = [
      open === 0
        ? ok('gallery', `${folder}, ${found}`)
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
    for (const info of infos) findings.push(...(await checkCollection(database, info)));
    if (files && !scrub) findings.push(...lengths(files));
    if (scrub) {
      if (files) findings.push(...(await scrubbed(context, files, bytes)));
      else
        findings.push(note('scrub', 'the files of a server cannot be read from here', 'run hers doctor --scrub there'));
      for (const { name } of infos) findings.push(...(await unsealed(context, database, name)));
    }
    return { findings, bytes };
  } finally {
    await (database ?? store).close();
  }
}

const damaged = (store: FolderStore): Finding[] =>
  store.damagedCollections().map(({ name, damage }) => problemOf(`collection ${name}`, damage));

/** What a server says of the folder that it serves, which it has open already, without a key. */
async function servedFolder(store: FolderStore): Promise<{ findings: Finding[]; bytes: number }> {
  const { infos, bytes, found } = await collectionsIn(store);
  const collections = await Promise.all(infos.map((info) => checkCollection(undefined, info)));
  const findings = [...setAside(store), ...damaged(store), ...collections.flat(), ...lengths(store)];
  return { findings: [ok('gallery', found), ...findings], bytes };
}

/** The collections by name, how large they are together, and that in words. */
async function collectionsIn(store: Service): Promise<{ infos: CollectionInfo[]; bytes: number; found: string }> {
  const infos = (await store.listCollections()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const bytes = infos.reduce((sum, info) => sum + info.bytes, 0);
  return { infos, bytes, found: `${counted(infos.length, 'collection')}, ${size(bytes)}` };
}

function writer(store: FolderStore): Finding[] {
  const who = store.writer();
  const advice =
    'reading goes on beside it; whatever else would write has to wait for it, or goes through it where it is hers serve: --gallery http://127.0.0.1:7443';
  return who === undefined ? [] : [note('writer', `written by ${who}`, advice)];
}

/** What a look into the folders shows; a scrub shows that too. */
function lengths(store: FolderStore): Finding[] {
  let files: Scrubbed[];
  try {
    files = store.lengths();
  } catch (error) {
    return [problemOf('files', error)];
  }
  const wrong = files.flatMap(({ file, damage }) => (damage ? [problemOf(`file ${file}`, damage)] : []));
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
  const rest = `${size(info.bytes)}, version ${info.version}`;
  if (!database) return [ok(check, `${counted(info.blocks, 'block')}, ${rest}`)];
  try {
    const { records, blocks, plan } = await database.describe(info.name);
    const found = `${counted(records, 'record')} in ${counted(blocks, 'block')}, ${rest}`;
    const hasPending = records > blocks * plan.capacity;
    const advice = `hers optimize --collection ${info.name} encrypts them for the scan`;
    return [hasPending ? note(check, `${found}; some are pending`, advice) : ok(check, found)];
  } catch (error) {
    return [problemOf(check, error)];
  }
}

function problemOf(check: string, error: unknown): Finding {
  if (!(error instanceof HersError)) throw error;
  return problem(check, error.message, adviceFor(error));
}

/** Reads every byte without the key: the store compares it with the checksums beside it. */
async function scrubbed(context: Context, store: FolderStore, bytes: number): Promise<Finding[]> {
  using progress = context.progress({ label: 'Scrubbing', total: bytes, unit: 'bytes' });
  const { signal } = context;
  const findings: Finding[] = [];
  let [read, files] = [0, 0];
  const onProgress = ({ done, total }: { done: number; total: number }) => progress.update(done, total);
  for await (const { file, bytes: each, damage } of store.scrub({ signal, onProgress })) {
    files++;
    read += each;
    if (damage) findings.push(problemOf(`scrub ${file}`, damage));
  }
  const whole = ok('scrub', `${counted(files, 'file')}, ${size(read)}: every byte is as it was written`);
  return findings.length > 0 ? findings : [whole];
}

/** Opens every seal with the key: that shows what no checksum can, that nobody else wrote it. */
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
  for await (const part of inParts(collection.list(), TOGETHER)) {
    context.signal.throwIfAborted();
    progress.update((opened += (await collection.get(part)).length));
  }
  return opened;
}

function adviceFor(error: HersError): string {
  const certificate = certificateAdvice(error);
  if (certificate !== undefined) return certificate;
  return ADVICE[error.code] ?? 'run it again with --verbose, and report what that prints';
}

const UNREACHED = 'check the address, and that the server runs; then run this again';
const UNALLOWED = 'set HERS_TOKEN or --token-file to a token that allows it';
const ADVICE: Partial<Record<HersError['code'], string>> = {
  INVALID_ARGUMENT: 'check --gallery and --token-file',
  LOCKED: 'another process writes to it: end that, then run this again',
  WRONG_KEY: 'it was made with another key: name that with --key',
  DAMAGED:
    'hers doctor --repair brings back what can be; or bring the gallery back from a copy, or the collection from a snapshot with hers restore',
  INTEGRITY:
    'it is not what this key has written last: if you put back an older copy yourself, hers collections accept goes on with it; else do not use it, and compare it with a snapshot you trust',
  UNSUPPORTED_VERSION: 'use the version that wrote it, or make it again from its source',
  UNAVAILABLE: UNREACHED,
  OVERLOADED: UNREACHED,
  TIMED_OUT: UNREACHED,
  UNAUTHENTICATED: UNALLOWED,
  FORBIDDEN: UNALLOWED,
  STORAGE: 'check the disk, its room and the permissions of the folder',
};

export async function examine(path: string, folder: FolderStore): Promise<readonly ServerFinding[]> {
  const { findings, bytes } = await servedFolder(folder);
  return [versions(), processor(), cryptography(), ...findings, await disk(path, bytes), await memory(bytes)];
}
