// `hers console`: a page for people, on this machine alone.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { HttpService, isSealed } from '@hers/client';
import type { ConsoleOptions } from '@hers/console';
import type { FolderStore } from '@hers/store';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { addressOf, isServer, openFolder, withToken } from '../gallery.ts';
import { doctorOf } from './serve.ts';

interface ConsoleFlags {
  readonly port: number;
  readonly open: boolean;
  readonly model?: readonly string[];
  readonly example?: boolean;
}

const DEFAULT_PORT = 7444;

export function addConsole(program: HersCommand, context: () => Context): void {
  program
    .command('console')
    .summary('open the gallery in a browser')
    .description(
      'Serves a page for people on 127.0.0.1, and opens it in the browser: search, enrol, records, upkeep, and beside every answer what the server saw. The gallery is the folder or the server of the settings. The key is opened in the page, and this command never has it. The address holds a secret that opens the page once; other programs and other pages cannot use it.',
    )
    .number('--port <number>', 'the port on 127.0.0.1; 0 for any that is free', 'port', DEFAULT_PORT)
    .option('--no-open', 'print the address, and do not open a browser')
    .option(
      '--model <folders...>',
      'models of your own for the page, each a folder with hers-model.json; docs/console.md says what is in it',
    )
    .option('--example', 'an example in a temporary folder, made up, that is removed at the end')
    .example('hers console', 'The gallery of this folder')
    .example('hers console --example', 'Synthetic faces and some sentences, to try things with')
    .action((flags: ConsoleFlags) => run(context(), flags));
}

async function run(context: Context, { port, open, model = [], example = false }: ConsoleFlags): Promise<void> {
  const { out, settings, signal, environment } = context;
  const { findModels, openModel, startConsole } = await import('@hers/console');
  const own = await Promise.all(model.map((folder) => openModel(context.path(folder))));
  const { models: found, missing } = findModels([environment.cwd]);
  // A model of the user's own takes the place of one of the same name.
  const isOther = ({ facts }: { readonly facts: { readonly name: string } }) =>
    own.every((each) => each.facts.name !== facts.name);
  const models = { models: [...own, ...found.filter(isOther)], missing: missing.filter(isOther) };
  const where = settings.value('gallery');
  const source = example
    ? await exampleSource(context)
    : isServer(where)
      ? await serverSource(context)
      : await folderSource(context);
  try {
    const { close: _, ...rest } = source;
    const served = await startConsole({ ...rest, port, models });
    try {
      const shown = example ? 'an example, made up' : where;
      out.result({ url: served.address, gallery: shown }, [
        ['console', shown],
        ['at', served.address],
        ...(source.example ? [['passphrase', source.example.passphrase] as const] : []),
      ]);
      out.hint('The address opens the page once, in one browser. Ctrl-C ends it.');
      if (open && environment.stdout.isTTY) await show(served.address, signal);
      if (!signal.aborted) await once(signal, 'abort');
    } finally {
      await served.close();
    }
  } finally {
    await source.close();
  }
}

/** What the page leads to, and how to end it. */
interface Source extends Pick<ConsoleOptions, 'upstream' | 'gallery' | 'keyFile' | 'example'> {
  close(): Promise<void>;
}

/** What the settings say of the gallery and its key. */
async function ofSettings({ settings }: Context): Promise<Pick<Source, 'gallery' | 'keyFile'>> {
  const keyFile = await sealedKey(settings.value('key'));
  return { gallery: await addressOf(settings.value('gallery')), ...given({ keyFile }) };
}

/**
 * The server of the settings. It is greeted once, so that what is wrong is said here, and a token
 * is asked for here where it wants one.
 */
async function serverSource(context: Context): Promise<Source> {
  const { settings, signal } = context;
  const url = settings.value('gallery');
  return withToken(context, async (token) => {
    const upstream = { url, ...given({ token }) };
    const service = new HttpService(url, given({ token }));
    await service.hello({ signal }).finally(() => service.close());
    return { ...(await ofSettings(context)), upstream, close: async () => {} };
  });
}

async function folderSource(context: Context): Promise<Source> {
  const { settings, out } = context;
  return {
    ...(await ofSettings(context)),
    ...(await serveFolder(settings.value('gallery'), await openFolder(settings, out))),
  };
}

/** A gallery that is made up for this, and gone afterwards. */
async function exampleSource({ out, signal }: Context): Promise<Source> {
  const [{ makeExampleGallery }, { openStore }] = await Promise.all([import('../example.ts'), import('@hers/store')]);
  const folder = await mkdtemp(join(tmpdir(), 'hers-example-'));
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    out.note('Encrypting an example …');
    const { keyFile, example } = await makeExampleGallery(join(folder, 'gallery'), signal);
    const gallery = join(folder, 'gallery');
    const served = await serveFolder(gallery, await openStore(gallery));
    const close = async () => {
      await served.close();
      await remove();
    };
    return {
      ...{ ...served, close, example },
      gallery: `example:${basename(folder)}`,
      keyFile: { name: 'example.key', text: keyFile },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/**
 * A folder behind a server of its own, on another port of this machine. A token that nobody else
 * knows keeps the other users of the machine out.
 */
async function serveFolder(path: string, store: FolderStore): Promise<Pick<Source, 'upstream' | 'close'>> {
  const { startServer, TokenStore } = await import('@hers/server');
  const folder = await mkdtemp(join(tmpdir(), 'hers-console-'));
  try {
    const tokens = join(folder, 'tokens.json');
    const { secret } = await new TokenStore(tokens).create({ scope: 'admin', note: 'hers console' });
    const admin = { doctor: () => doctorOf(path, store) };
    const server = await startServer(store, { port: 0, tokens, log: false, admin });
    const close = async () => {
      await server.close();
      await rm(folder, { recursive: true, force: true });
    };
    return { upstream: { url: server.url, token: secret }, close };
  } catch (error) {
    await store.close();
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** The key file of the settings, if it has a passphrase: the page asks for it. */
async function sealedKey(path: string): Promise<{ readonly name: string; readonly text: string } | undefined> {
  if (!existsSync(path)) return undefined;
  const text = await readFile(path, 'utf8');
  try {
    return isSealed(text) ? { name: basename(path), text } : undefined;
  } catch {
    return undefined;
  }
}

const OPENERS: Readonly<Record<string, readonly string[]>> = { darwin: ['open'], win32: ['cmd', '/c', 'start', ''] };

/**
 * Opens an address. Other users can see the arguments of a process, so it is given a file that only
 * this user can read, and that leads there.
 */
async function show(address: string, signal: AbortSignal): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-console-'));
  const file = join(folder, 'open.html');
  const page = `<!doctype html><meta charset="utf-8"><title>hers console</title><meta http-equiv="refresh" content="0;url=${address}">`;
  await writeFile(file, page, { mode: 0o600 });
  signal.addEventListener('abort', () => void rm(folder, { recursive: true, force: true }), { once: true });
  const [command, ...args] = OPENERS[process.platform] ?? ['xdg-open'];
  const opener = spawn(command!, [...args, pathToFileURL(file).href], { stdio: 'ignore', detached: true });
  // Whoever has no browser here has the address.
  opener.on('error', () => {});
  opener.unref();
}
