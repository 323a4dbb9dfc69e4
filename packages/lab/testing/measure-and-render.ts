// For tests: an experiment measured and rendered, as the command does it.

import type { Data, Rendered } from '../src/experiments/experiment.ts';
import { EXPERIMENTS } from '../src/experiments/index.ts';
import type { Values } from '../src/runner.ts';

export interface Outcome extends Rendered {
  readonly data: Data;
}

/** The page is made from what is left of the data after it was JSON. */
export async function measureAndRender(name: string, values: Values): Promise<Outcome> {
  const data = await (await EXPERIMENTS[name].experiment()).measure(values);
  const page = await EXPERIMENTS[name].page();
  return { data, ...(await page.render(JSON.parse(JSON.stringify(data)))) };
}
