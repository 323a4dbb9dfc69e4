// `hers tokens`: who may use a server.

import type { Scope, Token, TokenStore } from '@hers/server';
import { isFileThere } from '@hers/service/target';
import { given, type HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { namesIn } from '../fields.ts';
import { columns } from '../output.ts';
import { taken, writePrivately } from '../private-file.ts';

/** Named here, and not loaded: every command is described at every start, and a server is large. */
const SCOPES = Object.keys({ device: true, search: true, write: true, admin: true } satisfies Record<Scope, true>);

interface CreateFlags {
  readonly scope: Scope;
  readonly for?: string;
  readonly partitions?: readonly string[];
  readonly device?: number;
  readonly note?: string;
  readonly output?: string;
}

export function addTokens(program: HersCommand, context: () => Context): void {
  const tokens = program
    .command('tokens')
    .summary('who may use a server')
    .description(
      'Tokens let SDKs, browsers and other `hers` commands use a server. The file keeps only their hashes, so a token is shown once, when it is made. Changes take effect immediately, also on a running server.',
    );

  tokens
    .command('create')
    .summary('make a token, and show it once')
    .description(
      'Makes a token and prints it, or writes it to a file: it cannot be shown again. Scope search reads and searches; write also changes records; admin also makes, deletes, copies and restores collections. Scope device only posts the questions and enrolments of one device: `hers devices add` says its number.',
    )
    .choice('--scope <scope>', 'what it allows', SCOPES, 'search')
    .option('--for <collection>', 'only this collection')
    .option(
      '--partitions <handles>',
      'with --for: only these partitions of it, by their handles, separated by commas (`hers partitions` shows them)',
      namesIn,
    )
    .option('--device <number>', 'with --scope device and --for: the number of the device', Number)
    .option('--note <text>', 'what it is for, shown by `hers tokens list`')
    .option('-o, --output <file>', 'write the token to this file, for its owner alone, instead of printing it')
    .example('hers tokens create --scope admin --output admin.token', 'For whoever runs the gallery')
    .example('hers tokens create --scope search --for faces --note "the door camera"', 'To search one collection')
    .example(
      'hers tokens create --for faces --partitions 0f1e2d3c4b5a6978',
      'To search one partition, whose name the server does not know',
    )
    .example('hers tokens create --scope device --for faces --device 3 --output door-3.token', 'For device 3')
    .action(async (options: CreateFlags) => {
      const { out } = context();
      const { scope, for: collection, partitions, device, note, output } = options;
      const path = output === undefined ? undefined : context().path(output);
      // A token that could not be written down would be lost.
      if (path !== undefined && isFileThere(path)) throw taken(path);
      const made = await (await storeOf(context())).create({
        scope,
        ...given({ collection, partitions, device, note }),
      });
      if (path !== undefined)
        await writePrivately(path, { replace: false }, (file) => file.writeFile(`${made.secret}\n`));
      if (out.json) out.object({ ...made.token, ...(path === undefined ? { token: made.secret } : { file: path }) });
      else out.line(path === undefined ? made.secret : `Token ${made.token.id} is in ${path}.`);
      out.hint('Keep it like a password: it cannot be shown again. Clients take it from HERS_TOKEN or --token-file.');
    });

  tokens
    .command('list')
    .summary('ids, scopes and notes of all tokens')
    .description('Lists the tokens: their ids, scopes, collections, notes and ages. Never the tokens themselves.')
    .example('hers tokens list', 'All of them')
    .action(async () => {
      const { out } = context();
      const all = await (await storeOf(context())).list();
      if (out.json) out.object({ tokens: all });
      else if (all.length === 0) out.note('There are no tokens yet; hers tokens create makes one.');
      else
        out.table(
          columns('id', 'scope', 'collection', 'created', 'note'),
          all.map(({ id, scope, collection, partitions, device, created, note }) => [
            id,
            device === undefined ? scope : `${scope} ${device}`,
            `${collection ?? 'all'}${partitions ? ` (${partitions.join(', ')})` : ''}`,
            created.slice(0, 10),
            note ?? '',
          ]),
        );
    });

  tokens
    .command('revoke')
    .summary('revoke a token')
    .description(
      'Revokes tokens, by the ids that `hers tokens list` shows. A running server refuses them from then on.',
    )
    .argument('<ids...>', 'the ids')
    .example('hers tokens revoke 0123456789ab --tokens server-tokens.json', 'One of them')
    .action(async (ids: string[]) => {
      const { out } = context();
      const revoked: Token[] = [];
      const store = await storeOf(context());
      for (const id of ids) revoked.push(await store.revoke(id));
      if (out.json) out.object({ revoked });
      else for (const { id } of revoked) out.line(`${id} is revoked.`);
    });
}

async function storeOf({ settings }: Context): Promise<TokenStore> {
  const { TokenStore } = await import('@hers/server/tokens');
  return new TokenStore(settings.value('tokens'));
}
