// Which view is shown, in the fragment of the address: names of collections, which servers know,
// and never an id, a value or a vector, because browsers write addresses down.

import { type Signal, signal } from '@preact/signals';

export const TABS = ['overview', 'search', 'records', 'enrol', 'upkeep'] as const;
export type Tab = (typeof TABS)[number];

export const SERVER_TABS = ['metrics', 'tokens', 'audit log', 'doctor', 'cluster'] as const;
export type ServerTab = (typeof SERVER_TABS)[number];

export type Route =
  | { readonly view: 'collections' }
  | { readonly view: 'server'; readonly tab: ServerTab }
  | { readonly view: 'collection'; readonly name: string; readonly tab: Tab };

function routeOf(fragment: string): Route {
  const [, first, encoded = '', tab] = fragment.replace(/^#/, '').split('/');
  const name = decoded(encoded);
  if (first === 'server') return { view: 'server', tab: SERVER_TABS.find((each) => each === name) ?? 'metrics' };
  if (first !== 'collections' || !name) return { view: 'collections' };
  const known = TABS.find((each) => each === tab) ?? 'overview';
  return { view: 'collection', name, tab: known };
}

/** Nothing for what was never encoded: people change addresses by hand. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

export const route: Signal<Route> = signal(routeOf(location.hash));

export function hrefOf(to: Route): string {
  if (to.view === 'server') return `#/server/${encodeURIComponent(to.tab)}`;
  return to.view === 'collections' ? '#/collections' : `#/collections/${encodeURIComponent(to.name)}/${to.tab}`;
}

export function go(to: Route): void {
  location.hash = hrefOf(to);
}

export function followAddress(): void {
  addEventListener('hashchange', () => {
    route.value = routeOf(location.hash);
  });
}
