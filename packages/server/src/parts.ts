// What a server is made of, for the hooks and the routes.

import type { Audit } from './audit.ts';
import type { Call } from './call.ts';
import type { Connections } from './connections.ts';
import type { Refusal } from './errors.ts';
import type { Guest, Guests, Rates } from './guests.ts';
import type { Limits } from './limits.ts';
import type { DeviceGauges, Metrics } from './metrics.ts';
import type { Pages } from './pages.ts';
import type { Route } from './routes.ts';
import type { Scans } from './scans.ts';
import type { Token, TokenCheck } from './tokens.ts';

export interface Parts {
  readonly limits: Limits;
  readonly metrics: Metrics;
  readonly guests: Guests;
  readonly strangers: Rates;
  readonly scans: Scans;
  readonly pages: Pages;
  readonly connections: Connections;
  readonly hasTls: boolean;
  readonly tokens: TokenCheck | undefined;
  readonly audit: Audit | undefined;
  readonly device: () => DeviceGauges | undefined;
  closing: boolean;
}

declare module 'fastify' {
  interface FastifyRequest {
    token: Token | undefined;
    guest: Guest | undefined;
    call: Call | undefined;
    refusal: Refusal | undefined;
    /** One of so many strangers that the log would be full of them. */
    untold: boolean | undefined;
  }
  interface FastifyContextConfig {
    hers?: Route;
  }
}
