// The results of a run by name, for a page.

import type { Data, Figure } from './experiment.ts';
import { marked } from './quantities.ts';

export class Figures {
  readonly #byName: ReadonlyMap<string, Figure>;

  constructor({ results }: Pick<Data, 'results'>) {
    this.#byName = new Map(results.map((figure) => [figure.name, figure]));
  }

  has(name: string): boolean {
    return this.#byName.has(name);
  }

  of(name: string): Figure {
    const figure = this.#byName.get(name);
    if (figure === undefined) throw new Error(`There is no result '${name}' in the data.`);
    return figure;
  }

  value(name: string): number {
    return this.of(name).value;
  }

  /** A cell of a table: empty without a figure, marked if it is extrapolated. */
  cell(name: string, show: (value: number) => string): string {
    if (!this.has(name)) return '';
    const { value, source } = this.of(name);
    return marked(show(value), source);
  }
}
