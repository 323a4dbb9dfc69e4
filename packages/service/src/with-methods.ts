// A service that does some things in another way: to count, to watch, to fail, to cheat.

import type { Service } from './service.ts';

/** The service with these methods in place of its own. */
export function withMethods<S extends Service>(service: S, methods: Partial<Service>): S {
  return new Proxy(service, {
    get(target, name: keyof Service) {
      const owner = methods[name] ? methods : target;
      const value = owner[name];
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(owner) : value;
    },
  });
}
