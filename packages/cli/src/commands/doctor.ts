// `hers doctor`: whether all is well, and what to do where it is not.

import { existsSync } from 'node:fs';
import { styleText } from 'node:util';
import type { HersCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { EXIT, usageError } from '../exit.ts';
import type { Finding, Level } from '../machine-checks.ts';
import { printable } from '../output.ts';
import type { RepairFlags } from '../repair.ts';
import { isServer } from '../settings.ts';

export function addDoctor(program: HersCommand, context: () => Context): void {
  program
    .command('doctor')
    .summary('check this machine and this gallery')
    .description(
      'Checks versions, processor, kernel, cryptography, memory and disk, then configuration, key and gallery, and says what to do about every problem. It checks that the files of the gallery exist and have the right length; --scrub reads them. Exits with code 1 when it finds a problem.',
    )
    .option('--scrub', 'read and verify every byte of the gallery')
    .option(
      '--repair',
      'rebuild a damaged gallery, with the key, from everything that is not damaged; the damaged one is kept beside it. Exit code 0 when everything came back, 1 when something is missing',
    )
    .option(
      '--into <folder>',
      'with --repair: a new folder for the repaired gallery, and the damaged one stays where it is',
    )
    .option(
      '--unlisted',
      'with --repair: also bring back records whose lists are lost, as they were last written; deleted records may come back with them',
    )
    .example('hers doctor', 'A look at everything')
    .example('hers doctor --scrub', 'Every byte of the gallery, too')
    .example('hers doctor --repair', 'Repair the gallery; does nothing if it is intact')
    .example('hers doctor --repair --into repaired', 'The same, and leave the damaged gallery alone')
    .example('hers doctor --repair --json', 'What came back, and the ids of what is lost, for programs')
    .action(async ({ scrub = false, ...flags }: { scrub?: boolean; repair?: boolean } & RepairFlags) => {
      if (!flags.repair) return doctor(context(), scrub, flags);
      const { repair } = await import('../repair.ts');
      return repair(context(), flags);
    });
}

async function doctor(context: Context, scrub: boolean, { into, unlisted }: RepairFlags): Promise<void> {
  if (into !== undefined || unlisted) throw usageError('--into and --unlisted are about a repair', 'add --repair');
  const { configuration, gallery, key } = await import('../gallery-checks.ts');
  const { cryptography, disk, kernel, memory, processor, versions } = await import('../machine-checks.ts');
  const { out, settings, environment } = context;
  const findings: Finding[] = [];
  const report = (finding: Finding) => {
    findings.push(finding);
    if (!out.json) print(context, finding);
  };
  report(versions());
  report(processor());
  report(await kernel(settings));
  report(cryptography());
  report(configuration(context));
  report(await key(context));
  const folder = await gallery(context, scrub);
  for (const finding of folder.findings) report(finding);
  const path = settings.value('gallery');
  // The disk and the memory of a server are the business of a doctor there.
  if (!isServer(path)) {
    report(await disk(existsSync(path) ? path : environment.cwd, folder.bytes));
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

function print({ out, environment }: Context, { check, level, found, advice }: Finding): void {
  if (!out.terminal) {
    out.fields([level, check, found, advice ?? '']);
    return;
  }
  const { sign, colour } = SIGNS[level];
  const stream = environment.stdout as NodeJS.WriteStream;
  out.text(
    `${styleText(colour, sign, { stream })} ${styleText('bold', printable(check), { stream })}  ${printable(found)}`,
  );
  if (advice !== undefined) out.text(`    ${printable(advice)}`);
}
