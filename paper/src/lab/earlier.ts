// An experiment that takes hours is measured a part at a time: what an earlier run found of the
// other parts stays on the page, with its day and its command.

import { readFile } from 'node:fs/promises';
import type { Data } from './experiment.ts';
import type { RunnerOption } from './runner.ts';

export const BESIDE_OPTION: RunnerOption = {
  type: 'string',
  help: 'the data of an earlier run, such as paper/results/NAME.json; what is not measured now is taken from there',
};

/** The day and the command of the run that a part of a page is from. */
export interface Apart {
  readonly date: string;
  readonly command: string;
}

/** An earlier run of the same experiment. */
export async function earlierRun<Parameters>(file: string, bench: string): Promise<Data<Parameters>> {
  let data: Data<Parameters> | undefined;
  try {
    data = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new RangeError(`${file} cannot be read as the data of a run`, { cause });
  }
  if (data?.bench !== bench) throw new RangeError(`${file} is no run of ${bench}`);
  return data;
}

/** The earlier run, which has to be of the same split; `undefined` where none is named. */
export async function besideRun<Parameters extends { readonly split: string }>(
  { beside }: { readonly beside?: unknown },
  bench: string,
  split: string,
): Promise<Data<Parameters> | undefined> {
  if (typeof beside !== 'string') return undefined;
  const data = await earlierRun<Parameters>(beside, bench);
  if (data.parameters.split !== split)
    throw new RangeError(`${beside} is of the split ${data.parameters.split}, not ${split}`);
  return data;
}

/** The command that runs it again, without the place of the file. */
export const besideAgain = (again: string, file: unknown): string =>
  file === undefined ? again : `${again} --beside <file>`;

export const saidApart = (apart: Apart | undefined): string =>
  apart === undefined ? '' : ` Measured on ${apart.date} by \`npm run lab -- ${apart.command}\`.`;
