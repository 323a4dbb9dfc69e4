// The page begins here, with the frame around every view: where one is, whether the gallery is
// open, what the server saw.

import { type JSX, render } from 'preact';
import { CollectionView } from './collection-view.tsx';
import { CollectionsView } from './collections-view.tsx';
import { Button, Guarded, ignoreOtherDrops } from './parts.tsx';
import { followAddress, hrefOf, route } from './route.ts';
import { ServerView } from './server-view.tsx';
import { arrival, arrive, sessionHeaders } from './session.ts';
import { UnlockView } from './unlock-view.tsx';
import { IDLE_CHOICES, idleMinutes, lock, locksIn, lockWhenLeft, unlocked } from './unlocked.ts';
import { watchFetch } from './wire.ts';
import { WirePane } from './wire-pane.tsx';

export function App(): JSX.Element {
  const { value: here } = arrival;
  const open = unlocked.value;
  return (
    <div class={`frame ${open ? 'open' : 'locked'}`}>
      <a class="skip" href="#main">
        To the content
      </a>
      <header class="top">
        <a class="brand" href={hrefOf({ view: 'collections' })}>
          <Mark />
          HERS <span>console</span>
        </a>
        <span class="gallery" title="the gallery">
          {here.state === 'here' ? here.gallery : ''}
        </span>
        {open ? <Places /> : null}
        {open ? <Lock /> : <span class="state">locked</span>}
      </header>
      <main id="main" tabIndex={-1}>
        {here.state === 'refused' ? <Refused why={here.why} /> : null}
        {here.state === 'arriving' ? <p class="faint">…</p> : null}
        {here.state === 'here' ? (
          open ? (
            <Guarded of={route.value.view}>
              <View />
            </Guarded>
          ) : (
            <UnlockView origin={here} />
          )
        ) : null}
      </main>
      {open ? <WirePane /> : null}
    </div>
  );
}

function View(): JSX.Element {
  const { value } = route;
  if (value.view === 'server') return <ServerView tab={value.tab} />;
  return value.view === 'collections' ? (
    <CollectionsView />
  ) : (
    <CollectionView key={value.name} name={value.name} tab={value.tab} />
  );
}

/** The two places to be: what is in the gallery, and the server that keeps it. */
function Places(): JSX.Element {
  const isServer = route.value.view === 'server';
  const current = (is: boolean) => (is ? { 'aria-current': 'page' as const } : {});
  return (
    <nav class="places" aria-label="Places">
      <a href={hrefOf({ view: 'collections' })} {...current(!isServer)}>
        Gallery
      </a>
      <a href={hrefOf({ view: 'server', tab: 'metrics' })} {...current(isServer)}>
        Server
      </a>
    </nav>
  );
}

function Lock(): JSX.Element {
  const left = locksIn.value;
  return (
    <div class="lock">
      <span class={`state open ${left === undefined ? '' : 'soon'}`} role="status">
        {left === undefined ? 'unlocked' : `locks in ${left} s`}
      </span>
      <label class="idle">
        <span>locks after</span>
        <select
          value={idleMinutes.value}
          onChange={(event) => {
            idleMinutes.value = Number(event.currentTarget.value);
          }}
        >
          {IDLE_CHOICES.map((minutes) => (
            <option key={minutes} value={minutes}>
              {minutes} min
            </option>
          ))}
        </select>
      </label>
      <Button onClick={() => lock('You locked it.')}>Lock</Button>
    </div>
  );
}

function Refused({ why }: { readonly why: string }): JSX.Element {
  return (
    <section class="card narrow">
      <h1>This page may not be used yet</h1>
      <p>{why}</p>
      <p class="faint">An address of a console opens it once, in one browser. Other tabs of that browser may follow.</p>
    </section>
  );
}

function Mark(): JSX.Element {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
      <rect width="32" height="32" rx="7" class="mark" />
      <g fill="none" stroke="#fff" stroke-width="2.6" stroke-linecap="round">
        <circle cx="12" cy="16" r="4.4" />
        <path d="M16.4 16H26m-3.4 0v4.2" />
      </g>
    </svg>
  );
}

watchFetch(sessionHeaders);
followAddress();
lockWhenLeft();
ignoreOtherDrops();
render(<App />, document.getElementById('console')!);
void arrive();
