// The folder or the server, and what is in it, open for as long as one command needs it.
//
// Not by `connect` of the SDK: a command chooses the kernel, tells of damaged collections, shows
// retries and responses, asks for a token when the server wants one, and looks into files (doctor,
// serve). `connect` would need an option for each, and what is left in common is two lines: a
// service, and the address under which its collections are remembered (`addressOf`).

import { existsSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { type Collection, Database, galleryOf, HersError, HttpService, openListCache } from '@hers/client';
import type { VersionFile } from '@hers/client/versions';
import type { Kernel, KernelChoice } from '@hers/scan';
import { Grouped, groupsOf, type Service, withMethods } from '@hers/service';
import type { FolderStore, InboxLimits } from '@hers/store';
import { given } from './command.ts';
import type { Context } from './context.ts';
import { absentError, CommandError, EXIT, messageOf, usageError } from './exit.ts';
import { namesIn } from './fields.ts';
import { versionsOf } from './keys.ts';
import type { Output } from './output.ts';
import { secretOf } from './secrets.ts';
import { isServer, type Settings } from './settings.ts';

export { isServer };

export interface Gallery {
  readonly database: Database;
  readonly service: Service;
  /** The collection that the options or the settings name, or the only one there is. */
  collection(): Promise<Collection>;
}

export interface GalleryOptions {
  /** Only reads: another process may write to the folder meanwhile. */
  readonly read?: boolean;
  /** Make the folder where there is none. */
  readonly create?: boolean;
  /** The collection that is meant, where an argument names it. */
  readonly collection?: string | undefined;
  /** Hears what is wrong with the folder as a whole; a note by default. */
  readonly onBackgroundError?: (error: unknown) => void;
  /** Hears which kernel scans, once there is one. */
  readonly onKernel?: (kernel: Kernel) => void;
  /** How much devices may leave in inboxes. */
  readonly inbox?: InboxLimits;
  /** Hears of every response of a search, to show progress. */
  readonly onResponse?: () => void;
}

/** The store in the folder of the settings. */
export async function openFolder(settings: Settings, out: Output, options: GalleryOptions = {}): Promise<FolderStore> {
  const {
    read = false,
    create = false,
    onKernel,
    inbox,
    onBackgroundError = (error) => out.note(`warning: ${messageOf(error)}`),
  } = options;
  const folder = settings.value('gallery');
  if (!create && !existsSync(folder))
    throw absentError(
      `there is no gallery at ${folder}`,
      '`hers init` makes one, or `hers collections create` where there is a configuration; --gallery names another',
    );
  const warn = (message: string) => out.detail(message);
  const [{ openStore }, openKernel] = await Promise.all([import('@hers/store'), kernelOpener(settings, warn)]);
  const store = await openStore(folder, {
    mode: read ? 'read' : 'write',
    kernel: async () => {
      const choice = await openKernel();
      out.detail(`scanned by ${choice.chosen}`);
      onKernel?.(choice.kernel);
      return choice.kernel;
    },
    onBackgroundError,
    ...(inbox ? { inbox } : {}),
  });
  // They are in no list: what is silent about them would look like a gallery without them.
  for (const { name } of store.damagedCollections())
    out.note(`warning: the collection ${name} is damaged and cannot be opened; see hers doctor.`);
  return store;
}

/** Connects with the token that was given. Asks for one where the server wants one and none was. */
export async function withToken<T>(
  { settings, secrets }: Context,
  connect: (token: string | undefined) => Promise<T>,
): Promise<T> {
  const source = secretOf(settings, 'tokenFile', {
    variable: 'HERS_TOKEN',
    name: 'token',
    remedy: 'set HERS_TOKEN, or name a file with --token-file',
  });
  const token = await secrets.given(source);
  return connect(token).catch(async (error) => {
    if (token !== undefined || !(error instanceof HersError && error.code === 'UNAUTHENTICATED')) throw error;
    return connect(await secrets.existing(source));
  });
}

/** The server that the settings name. */
export function openServer(context: Context): Promise<HttpService> {
  const { settings, out, signal } = context;
  const where = settings.value('gallery');
  return withToken(context, async (token) => {
    const service = new HttpService(serversIn(where), {
      ...given({ token }),
      onRetry: ({ operation, attempt, delayMs, message }) =>
        out.note(`${operation}: ${message}; attempt ${attempt + 1} in ${(delayMs / 1000).toFixed(1)} s.`),
    });
    const { version } = await service.hello({ signal });
    out.detail(`${where} is hers ${version}`);
    return service;
  });
}

/** Opens the gallery with the key, runs `use`, and closes it whatever happens. */
export async function withGallery<T>(
  context: Context,
  options: GalleryOptions,
  use: (gallery: Gallery) => Promise<T>,
): Promise<T> {
  const { settings, keys, out } = context;
  const versions = await openVersions(settings);
  using key = await keys.open();
  const store: Service = isServer(settings.value('gallery'))
    ? await openServer(context)
    : await openFolder(settings, out, options);
  const service = options.onResponse ? watched(store, options.onResponse) : store;
  const { threads } = settings;
  const gallery = await addressOf(settings.value('gallery'));
  // Beside what was seen; none for a folder, which is read as fast without one.
  const isKept = isServer(settings.value('gallery')) && settings.value('listCache') === 'on';
  const cache = isKept ? await openListCache(`${settings.value('key')}.lists`) : undefined;
  const only = settings.value('onlyPartitions');
  const database = new Database(service, {
    key,
    versions,
    gallery,
    ...given({ cache, threads, partitions: only === undefined ? undefined : namesIn(only) }),
  });
  try {
    const collection = async () => {
      const name = options.collection ?? settings.value('collection') ?? (await onlyCollection(service));
      return database.collection(name);
    };
    return await use({ database, service, collection });
  } finally {
    await database.close();
  }
}

/** The address of a server, or those of the nodes of a cluster. */
const serversIn = (where: string) => (where.includes(',') ? where.split(',').map((each) => each.trim()) : where);

/**
 * What tells the gallery's collections from those of the same names elsewhere: the address of the
 * server, or where the folder really is.
 */
export async function addressOf(where: string): Promise<string> {
  return isServer(where) ? galleryOf(serversIn(where)) : `file:${await realpath(where)}`;
}

/** What was seen so far. A file that cannot be read must not pass for one that has seen nothing. */
export async function openVersions(settings: Settings): Promise<VersionFile> {
  const versions = versionsOf(settings.value('key'));
  try {
    await versions.count();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new CommandError(
      EXIT.integrity,
      `${(error as { path?: string }).path}, which remembers what was seen of collections, is damaged`,
      'bring back a copy of it, or delete it and trust the gallery as it is now',
    );
  }
  return versions;
}

async function onlyCollection(service: Service): Promise<string> {
  const names = (await service.listCollections()).map(({ name }) => name).sort();
  const [first, second] = names;
  if (first === undefined)
    throw absentError(
      'there is no collection in this gallery yet',
      'make one: `hers collections create <name> --dimension <number>`',
    );
  if (second === undefined) return first;
  const shown = names.length > 8 ? `${names.slice(0, 8).join(', ')}, …` : names.join(', ');
  throw usageError(`there are several collections (${shown})`, 'say which with --collection');
}

/** A service that tells of every response as it passes. */
function watched(service: Service, onResponse: () => void): Service {
  const search = (...request: Parameters<Service['search']>) =>
    new Grouped(async function* () {
      for await (const responses of groupsOf(service.search(...request))) {
        for (const _ of responses) onResponse();
        yield responses;
      }
    });
  return withMethods(service, { search });
}

/** Loads `@hers/cuda`: galleries that are opened later scan and rank on a GPU, if there is one. */
async function registerGpu(settings: Settings): Promise<void> {
  const memory = settings.value('deviceMemory');
  try {
    const { registerCuda } = await import('@hers/cuda');
    await registerCuda({ memory: memory === undefined ? undefined : Number(memory) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    if (settings.value('kernel') === 'cuda')
      throw absentError(
        'the kernel cuda needs @hers/cuda, which is not part of this installation',
        'run it in a clone of the repository, or choose another kernel',
      );
  }
}

/** Returns what opens the kernel. Call it before a gallery is opened. */
export async function kernelOpener(
  settings: Settings,
  warn: (message: string) => void,
): Promise<() => Promise<KernelChoice>> {
  const [{ openKernel }] = await Promise.all([import('@hers/scan'), registerGpu(settings)]);
  return () => openKernel({ kernel: settings.value('kernel'), threads: settings.threads, warn });
}
