// Runs the cases it is sent, in its own process: a case may hang, or end the process. For
// campaign.ts alone.

import { type Outcome, Trials } from './trial.ts';

/** Its messages: that it is ready, how far a case is, and the outcome. */
export type Told = { readonly ready: true } | { readonly so: Outcome } | { readonly outcome: Outcome };
const tell = (told: Told) => process.send!(told);

const [folder, seed, room, kept] = process.argv.slice(2);
const unheard: string[] = [];
process.on('unhandledRejection', (error) =>
  unheard.push(`a rejection that nobody handled: ${(error as Error)?.stack}`),
);
// Warnings of the store go to the code that opened it.
process.removeAllListeners('warning');
process.on('disconnect', () => process.exit());

const trials = await Trials.open(folder, Number(seed), room);
process.on('message', async (number: number) => {
  const outcome = await trials.run(number, `${kept}-${number}`, (so) => tell({ so }));
  outcome.failures.push(...unheard.splice(0));
  tell({ outcome });
});
tell({ ready: true });
