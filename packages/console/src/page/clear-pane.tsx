// The same search in the clear, beside the encrypted one: what a server without encryption would
// have answered, and all that it would have seen.

import type { Match } from '@hers/client';
import type { JSX } from 'preact';
import { plainCollection, searchInTheClear } from './example.ts';
import { Fact, Problem, Table } from './parts.tsx';
import { useLoaded } from './state.ts';
import { count, duration, scoreText, size } from './text.ts';

/** Of the encrypted matches, so many are compared. */
const SHOWN = 5;
const FLOAT_BYTES = 4;
const HEIGHT = 64;

interface ClearPaneProps {
  readonly collection: string;
  readonly metric: string;
  readonly probe: ArrayLike<number>;
  readonly matches: readonly Match[];
  /** Whether the encrypted search left records out on purpose. */
  readonly isLimited: boolean;
}

export function ClearPane({ collection, metric, probe, matches, isLimited }: ClearPaneProps): JSX.Element {
  const { loaded } = useLoaded(
    async () => searchInTheClear(await plainCollection(collection), probe, metric),
    [collection, probe],
  );
  const { value, problem } = loaded.value;
  const scores = new Map(value?.ranked.map(({ id, score }) => [id, score]));
  // What was enrolled since is not in the plain copy.
  const known = matches.filter(({ id }) => scores.has(id));
  const largest = Math.max(0, ...known.map(({ id, score }) => Math.abs(score - scores.get(id)!)));
  const best = new Set(value?.ranked.slice(0, known.length).map(({ id }) => id));
  const shared = known.filter(({ id }) => best.has(id)).length;
  const isFirst = known[0]?.id === value?.ranked[0]?.id;
  return (
    <div class="card clear">
      <h2>The same search in the clear</h2>
      <Problem text={problem} />
      {value ? (
        <>
          <div class="seen">
            <ProbePlot probe={probe} />
            <dl class="facts">
              <Fact term="the query">{size(FLOAT_BYTES * probe.length)}: the probe itself, as drawn here</Fact>
              <Fact term="its answer">names and scores, which that server has computed</Fact>
              <Fact term="it took">{duration(value.ms)} in plain JavaScript</Fact>
              <Fact term="it concludes">who was searched for, who matched, and how well</Fact>
            </dl>
          </div>
          {known.length === 0 ? (
            <p class="faint">None of the matches is in the plain copy: they were enrolled since.</p>
          ) : (
            <Table
              label="Scores of both"
              columns={['id', ['encrypted', 'number'], ['in the clear', 'number'], ['difference', 'number']]}
            >
              {known.slice(0, SHOWN).map(({ id, score }) => (
                <tr key={id}>
                  <th scope="row" class="id">
                    {id}
                  </th>
                  <td class="number">{scoreText(score)}</td>
                  <td class="number">{scoreText(scores.get(id)!)}</td>
                  <td class="number">{(score - scores.get(id)!).toFixed(4)}</td>
                </tr>
              ))}
            </Table>
          )}
          <p class="hint">
            {isLimited
              ? 'The plain copy knows no filter, groups or threshold: only scores are compared. '
              : `The best match is ${isFirst ? 'the same' : 'another'}; of the best ${count(known.length)}, ${count(shared)} are the same. `}
            {known.length > 0 ? `The largest difference is ${largest.toFixed(4)}. ` : ''}This is computed in the page
            from a plain copy of the example; nothing of it was sent.
          </p>
        </>
      ) : (
        <p class="faint">…</p>
      )}
    </div>
  );
}

/** The numbers of a probe as bars: what a server in the clear is given. */
function ProbePlot({ probe }: { readonly probe: ArrayLike<number> }): JSX.Element {
  const values = Array.from(probe);
  const most = Math.max(...values.map(Math.abs)) || 1;
  const path = values.map((value, at) => `M${at + 0.5} ${HEIGHT / 2}V${(HEIGHT / 2) * (1 - value / most)}`).join('');
  return (
    <svg
      class="probe-plot"
      viewBox={`0 0 ${values.length} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label="the numbers of the probe, as bars"
    >
      <path d={path} />
    </svg>
  );
}
