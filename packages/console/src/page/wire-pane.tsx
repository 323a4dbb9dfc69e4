// What the server saw, as it happens: a line for every request, with all that is in it.

import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Fact } from './parts.tsx';
import { count, counted, duration, size } from './text.ts';
import { type Exchange, exchanges, forgetExchanges, learnedFrom, nameOf, traffic } from './wire.ts';

/** Handles that are shown of a request. */
const SHOWN_HANDLES = 8;

export function WirePane(): JSX.Element {
  const chosen = useSignal<number | undefined>(undefined);
  // The page's own files say nothing; metrics are read every other second, and say always the same.
  const all = exchanges.value.filter(({ operation }) => operation !== 'page' && operation !== 'metrics');
  const { sent, received, requests } = traffic.value;
  return (
    <aside class="wire" aria-label="What the server saw">
      <details open={matchMedia('(min-width: 1180px)').matches}>
        <summary>
          <h2>What the server saw</h2>
          <span class="faint number">
            {counted(requests, 'request')} · {size(sent)} ↑ {size(received)} ↓
          </span>
        </summary>
        <p class="hint">
          Every request of this page, as the server gets it. Select one to see what it could conclude.{' '}
          <button type="button" class="link" onClick={forgetExchanges}>
            Empty the list
          </button>
        </p>
        {all.length === 0 ? <p class="faint">Nothing yet.</p> : null}
        <ol class="exchanges">
          {all.toReversed().map((exchange) => (
            <li key={exchange.number}>
              <button
                type="button"
                class={`exchange ${(exchange.status ?? 200) >= 400 || exchange.status === 0 ? 'failed' : ''}`}
                aria-expanded={chosen.value === exchange.number}
                onClick={() => {
                  chosen.value = chosen.value === exchange.number ? undefined : exchange.number;
                }}
              >
                <span class="what">{nameOf(exchange.operation)}</span>
                <span class="number">{exchange.sent > 0 ? `${size(exchange.sent)} ↑` : ''}</span>
                <span class="number">{exchange.received > 0 ? `${size(exchange.received)} ↓` : ''}</span>
                <span class="number">{exchange.endedAt ? duration(exchange.endedAt - exchange.beganAt) : '…'}</span>
              </button>
              {chosen.value === exchange.number ? <Detail exchange={exchange} /> : null}
            </li>
          ))}
        </ol>
      </details>
    </aside>
  );
}

function Detail({ exchange }: { readonly exchange: Exchange }): JSX.Element {
  const { method, path, sent, sample, handles, status, operation } = exchange;
  return (
    <div class="detail">
      <dl class="facts">
        <Fact term="request">
          <code>
            {method} {path}
          </code>
        </Fact>
        <Fact term="answer">{status === undefined ? 'on its way' : status === 0 ? 'none: not reached' : status}</Fact>
        <Fact term="it learns">{learnedFrom(operation)}</Fact>
      </dl>
      {sent > 0 ? (
        <>
          <Noise bytes={sample} label={`the first ${count(sample.length)} bytes of the request, as grey dots`} />
          <p class="hint">The first bytes of {size(sent)} that were sent. It is all there is to see.</p>
        </>
      ) : null}
      <Handles handles={handles} />
    </div>
  );
}

export function Handles({ handles }: { readonly handles: readonly string[] }): JSX.Element | null {
  if (handles.length === 0) return null;
  return (
    <>
      <p class="hint">{counted(handles.length, 'handle')}, which stand for records:</p>
      <ul class="handles">
        {handles.slice(0, SHOWN_HANDLES).map((handle) => (
          <li key={handle}>
            <code>{handle}</code>
          </li>
        ))}
        {handles.length > SHOWN_HANDLES ? (
          <li class="faint">and {count(handles.length - SHOWN_HANDLES)} more</li>
        ) : null}
      </ul>
    </>
  );
}

const WIDTH = 192;
const HEIGHT = 64;

/** Shows bytes as a picture: a ciphertext, to somebody without a key. */
export function Noise({ bytes, label }: { readonly bytes: Uint8Array; readonly label: string }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const context = canvas.current!.getContext('2d')!;
    const image = context.createImageData(WIDTH, HEIGHT);
    for (let at = 0; at < WIDTH * HEIGHT; at++) {
      const isThere = at < bytes.length;
      image.data.fill(isThere ? bytes[at]! : 128, 4 * at, 4 * at + 3);
      image.data[4 * at + 3] = isThere ? 255 : 0;
    }
    context.putImageData(image, 0, 0);
  }, [bytes]);
  return <canvas ref={canvas} class="noise" width={WIDTH} height={HEIGHT} role="img" aria-label={label} />;
}
