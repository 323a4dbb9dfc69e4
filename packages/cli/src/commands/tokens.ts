// `hers tokens`: who may use a server.

import { SCOPES, type Scope, type Token, TokenStore } from '@hers/server';
import { Option } from 'commander';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';

export function addTokens(program: HersCommand, context: () => Context): void {
  const tokens = program
    .command('tokens')
    .summary('who may use a server')
    .description(
      'Tokens let SDKs, pages and other `hers` use a server. The file keeps their hashes alone, so a token is shown once, when it is made. A server that runs takes every change at once.',
    );

  tokens
    .command('create')
    .summary('make a token, and show it once')
    .description(
      'Makes a token and shows it: it cannot be shown again. Scope search reads and searches; write also changes records; admin also makes, deletes, copies and restores collections.',
    )
    .addOption(new Option('--scope <scope>', 'what it allows').choices(SCOPES as string[]).default('search'))
    .option('--for <collection>', 'only this collection')
    .option('--note <text>', 'what it is for, shown by `hers tokens list`')
    .example('hers tokens create --scope admin', 'For whoever runs the gallery')
    .example('hers tokens create --scope search --for faces --note "the door camera"', 'To search one collection')
    .action(async (options: { scope: Scope; for?: string; note?: string }) => {
      const { out } = context();
      const { scope, for: collection, note } = options;
      const made = await storeOf(context()).create({
        scope,
        ...(collection === undefined ? {} : { collection }),
        ...(note === undefined ? {} : { note }),
      });
      if (out.json) out.object({ ...made.token, token: made.secret });
      else out.line(made.secret);
      out.hint('Keep it like a password: it cannot be shown again. Clients take it from HERS_TOKEN or --token-file.');
    });

  tokens
    .command('list')
    .summary('the tokens there are, without what they are')
    .description('Lists the tokens: their ids, scopes, collections, notes and ages. Never the tokens themselves.')
    .example('hers tokens list', 'All of them')
    .action(async () => {
      const { out } = context();
      const all = await storeOf(context()).list();
      if (out.json) out.object({ tokens: all });
      else if (all.length === 0) out.note('There are no tokens yet; hers tokens create makes one.');
      else
        out.table(
          [{ title: 'id' }, { title: 'scope' }, { title: 'collection' }, { title: 'created' }, { title: 'note' }],
          all.map(({ id, scope, collection, created, note }) => [
            id,
            scope,
            collection ?? 'all',
            created.slice(0, 10),
            note ?? '',
          ]),
        );
    });

  tokens
    .command('revoke')
    .summary('take a token back')
    .description(
      'Takes tokens back, by the id that `hers tokens list` shows. A server that runs refuses them from then on.',
    )
    .argument('<ids...>', 'the ids')
    .example('hers tokens revoke 0123456789ab --tokens server-tokens.json', 'One of them')
    .action(async (ids: string[]) => {
      const { out } = context();
      const revoked: Token[] = [];
      for (const id of ids) revoked.push(await storeOf(context()).revoke(id));
      if (out.json) out.object({ revoked });
      else for (const { id } of revoked) out.line(`${id} is revoked.`);
    });
}

const storeOf = ({ settings }: Context) => new TokenStore(settings.value('tokens'));
