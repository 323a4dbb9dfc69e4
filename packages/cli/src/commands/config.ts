// `hers config`: what is in force, and where each value came from.

import { existsSync } from 'node:fs';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { columns } from '../output.ts';
import { settings as allSettings, unknownVariables } from '../settings.ts';

export function addConfig(program: HersCommand, context: () => Context): void {
  program
    .command('config')
    .summary('the settings in force, and where each comes from')
    .description(
      'Shows every setting and where it comes from: a flag, an environment variable, hers.config.json (in this folder or the nearest above), or the default. Flags win over the environment, which wins over the file. Secrets are never shown.',
    )
    .example('hers config', 'A table')
    .example('HERS_GALLERY=/srv/gallery hers config --json', 'For a program')
    .action(() => show(context()));
}

function show({ settings, environment: { env }, out }: Context): void {
  const rows = allSettings.map(([name]) => {
    const setting = settings.get(name);
    return { name, value: setting?.value ?? null, origin: setting?.origin ?? 'not set' };
  });
  const given = (env.HERS_PASSPHRASE ?? '') !== '';
  const passphrase = {
    name: 'passphrase',
    value: given ? '(hidden)' : null,
    origin: given ? 'HERS_PASSPHRASE' : 'not set',
  };
  const file = settings.file ?? null;
  for (const name of unknownVariables(env)) out.note(`${name} is set, and means nothing to hers.`);
  if (out.json) {
    out.object({ file, settings: Object.fromEntries([...rows, passphrase].map(({ name, ...rest }) => [name, rest])) });
    return;
  }
  out.table(
    columns('setting', 'value', 'from'),
    [...rows, passphrase].map(({ name, value, origin }) => [name, value ?? '-', origin]),
  );
  if (file === null) out.hint('There is no hers.config.json here or above; hers init makes one.');
  else if (!existsSync(settings.value('key'))) out.hint('The key file does not exist; hers keys create makes one.');
}
