// What a view remembers while another is shown: results, forms, pages. All of it is forgotten when
// the gallery is locked.

import { type Signal, signal } from '@preact/signals';

const forgotten: (() => void)[] = [];

/** A value that is gone when the gallery is locked. */
export function shown<T>(initial: T): Signal<T> {
  const value = signal(initial);
  forgotten.push(() => {
    value.value = initial;
  });
  return value;
}

export function forgetShown(): void {
  for (const forget of forgotten) forget();
}

/** Does something besides when the gallery is locked. */
export function whenForgotten(forget: () => void): void {
  forgotten.push(forget);
}
