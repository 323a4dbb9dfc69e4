// Runs cases that it is sent, in a process of its own: a case may hang, or end the process. For
// campaign.ts alone.

import { type Outcome, Trials } from './trial.ts';

/** What it tells: that it may be asked, how far a case has come, what came of it. */
export type Told = { readonly ready: true } | { readonly so: Outcome } | { readonly outcome: Outcome };
const tell = (told: Told) => process.send!(told);

const [folder, seed, room, kept] = process.argv.slice(2);
const unheard: string[] = [];
process.on('unhandledRejection', (error) =>
  unheard.push(`a rejection that nobody handled: ${(error as Error)?.stack}`),
);
// Warnings of the store are heard by whoever opened it.
process.removeAllListeners('warning');
process.on('disconnect', () => process.exit());

const trials = await Trials.open(folder, Number(seed), room);
process.on('message', async (number: number) => {
  const outcome = await trials.run(number, `${kept}-${number}`, (so) => tell({ so }));
  outcome.failures.push(...unheard.splice(0));
  tell({ outcome });
});
tell({ ready: true });
