// A number over time, as a line: what it is now, and what it was.

import type { JSX } from 'preact';

const WIDTH = 240;
const HEIGHT = 56;

interface PlotProps {
  readonly title: string;
  /** Of the newest value, as people read it. */
  readonly now: string;
  /** Lines, each with a name; undefined where there was nothing to measure. */
  readonly lines: readonly { readonly name: string; readonly values: readonly (number | undefined)[] }[];
  /** Values that fit into it, from the right. */
  readonly room: number;
}

/** Parts of a path; a gap where there is no value. */
function pathOf(values: readonly (number | undefined)[], room: number, most: number): string {
  let isDrawing = false;
  return values
    .map((value, at) => {
      if (value === undefined) {
        isDrawing = false;
        return '';
      }
      const x = WIDTH * (1 - (values.length - 1 - at) / Math.max(1, room - 1));
      const y = HEIGHT - 2 - ((HEIGHT - 6) * value) / most;
      const step = isDrawing ? 'L' : 'M';
      isDrawing = true;
      return `${step}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join('');
}

export function Plot({ title, now, lines, room }: PlotProps): JSX.Element {
  const most = Math.max(...lines.flatMap(({ values }) => values.map((value) => value ?? 0)), 0) || 1;
  return (
    <figure class="card plot">
      <figcaption>
        <span>{title}</span> <strong class="number">{now}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${title}: ${now}`}>
        {lines.map(({ name, values }, at) => (
          <path key={name} class={at === 0 ? 'first' : 'second'} d={pathOf(values, room, most)} />
        ))}
      </svg>
    </figure>
  );
}
