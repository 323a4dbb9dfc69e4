// Something that is read when a view is shown, and again when it is asked to.

import { type Signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { messageOf } from './message.ts';

export interface Loaded<T> {
  readonly value: T | undefined;
  readonly error: unknown;
  readonly problem: string | undefined;
  readonly isLoading: boolean;
}

/** What was read stays shown until the next is there, so that nothing jumps. */
export function useLoaded<T>(
  read: () => Promise<T>,
  inputs: readonly unknown[],
): { readonly loaded: Signal<Loaded<T>>; readonly reload: () => void } {
  const loaded = useSignal<Loaded<T>>({ value: undefined, error: undefined, problem: undefined, isLoading: true });
  const turn = useSignal(0);
  useEffect(() => {
    let isCurrent = true;
    loaded.value = { ...loaded.value, isLoading: true };
    read().then(
      (value) => {
        if (isCurrent) loaded.value = { value, error: undefined, problem: undefined, isLoading: false };
      },
      (error) => {
        if (isCurrent) loaded.value = { value: undefined, error, problem: messageOf(error), isLoading: false };
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [...inputs, turn.value]);
  return { loaded, reload: () => turn.value++ };
}
