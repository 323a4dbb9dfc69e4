// `hers doctor`: whether all is well, and what to do where it is not.

import { existsSync } from 'node:fs';
import { styleText } from 'node:util';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT } from '../exit.ts';
import type { Finding, Level } from '../finding.ts';
import { configuration, gallery, key } from '../gallery-checks.ts';
import { disk, kernel, memory, processor, versions } from '../machine-checks.ts';
import { printable } from '../output.ts';
import { isServer } from '../settings.ts';

export function addDoctor(program: HersCommand, context: () => Context): void {
  program
    .command('doctor')
    .summary('check this machine and this gallery')
    .description(
      'Looks at versions, processor, kernel, memory and disk, then at configuration, key and gallery, and says what to do about everything that is not as it should be. Ends with exit code 1 when it found a problem.',
    )
    .option('--scrub', 'read and verify every byte of the gallery')
    .example('hers doctor', 'A look at everything')
    .example('hers doctor --scrub', 'Every byte of the gallery, too')
    .action(({ scrub = false }: { scrub?: boolean }) => doctor(context(), scrub));
}

async function doctor(context: Context, scrub: boolean): Promise<void> {
  const { out, settings, surroundings } = context;
  const findings: Finding[] = [];
  const report = (finding: Finding) => {
    findings.push(finding);
    if (!out.json) print(context, finding);
  };
  report(versions());
  report(processor());
  report(await kernel(settings));
  report(configuration(context));
  report(await key(context));
  const folder = await gallery(context, scrub);
  for (const finding of folder.findings) report(finding);
  const path = settings.value('gallery');
  // The disk and the memory of a server are the business of a doctor there.
  if (!isServer(path)) {
    report(await disk(existsSync(path) ? path : surroundings.cwd, folder.bytes));
    report(await memory(folder.bytes));
  }
  const healthy = findings.every(({ level }) => level !== 'problem');
  if (out.json) out.object({ healthy, findings });
  if (!healthy) context.exit = EXIT.no;
}

const SIGNS: Readonly<Record<Level, { readonly sign: string; readonly colour: 'green' | 'yellow' | 'red' }>> = {
  ok: { sign: '✓', colour: 'green' },
  note: { sign: '!', colour: 'yellow' },
  problem: { sign: '✗', colour: 'red' },
};

function print({ out, surroundings }: Context, { check, level, found, advice }: Finding): void {
  if (!out.terminal) {
    out.fields([level, check, found, advice ?? '']);
    return;
  }
  const { sign, colour } = SIGNS[level];
  const stream = surroundings.stdout as NodeJS.WriteStream;
  out.text(
    `${styleText(colour, sign, { stream })} ${styleText('bold', printable(check), { stream })}  ${printable(found)}`,
  );
  if (advice !== undefined) out.text(`    ${printable(advice)}`);
}
