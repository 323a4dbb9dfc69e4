// What whoever runs a server may ask of it: tokens, the audit log, a doctor, the nodes of its
// cluster. A token of scope admin for all collections is needed, and nothing here holds a secret
// but a token that was just made, which is shown once.

import { HersError } from '@hers/service';
import type { AuditEntry, LeftOut } from './audit.ts';
import type { Parts } from './parts.ts';
import { json, message, type Route, route, type Scope } from './routes.ts';
import * as schemas from './schemas.ts';
import type { TokenStore } from './tokens.ts';

/** What a doctor has looked at, and what it found. */
export interface ServerFinding {
  /** What was looked at. */
  readonly check: string;
  /** `problem`: something does not work or is not safe. `note`: it works, and could be better. */
  readonly level: 'ok' | 'note' | 'problem';
  /** What it is like. */
  readonly found: string;
  /** What to do about it. */
  readonly advice?: string;
}

/** What a server can be asked about itself. What is absent is answered with NOT_FOUND. */
export interface AdminOptions {
  /** Whether tokens can be listed, made and revoked over HTTP; false by default. */
  readonly tokens?: boolean;
  /** Looks at the machine and the gallery, without a key. */
  readonly doctor?: () => Promise<readonly ServerFinding[]>;
  /** The nodes of the cluster, as JSON can hold them. */
  readonly cluster?: () => Promise<object>;
}

export interface AdminTools extends Omit<AdminOptions, 'tokens'> {
  readonly tokens?: TokenStore;
}

interface NewToken {
  readonly scope: Scope;
  readonly collection?: string;
  readonly device?: number;
  readonly note?: string;
}

/** Lines of the audit log at a time. */
const AUDIT_LINES = 200;
/** A doctor writes to the disk and measures the memory: not more often than this. */
const DOCTOR_MS = 5000;

const absent = (what: string) => new HersError('NOT_FOUND', what);

export function adminRoutes({ tokens, doctor, cluster }: AdminTools, { audit }: Parts): Route[] {
  const examine = doctor && rarely(doctor, DOCTOR_MS);
  const store = () => {
    if (!tokens)
      throw absent('tokens are not managed here: use `hers tokens` on the server, or serve with tokens and --console');
    return tokens;
  };
  const routes = [
    route(
      'GET /v1/server/tokens',
      'admin',
      'listTokens',
      'Ids, scopes and notes of all tokens; never the tokens themselves',
      {
        gives: json(schemas.tokensBody),
        handle: async () => ({ tokens: await store().list() }),
      },
    ),
    route(
      'POST /v1/server/tokens',
      'admin',
      'createToken',
      'Make a token; its secret is in the answer, and never again',
      {
        takes: message(schemas.newTokenHead, 'nothing'),
        gives: json(schemas.madeTokenBody, 201),
        handle: async (call) => {
          const made = store();
          const { head } = await call.message<NewToken>(schemas.newTokenHead, 0);
          const by = call.token?.id;
          return made.create({ ...head, ...(by === undefined ? {} : { by }) });
        },
      },
    ),
    route('DELETE /v1/server/tokens/:token', 'admin', 'revokeToken', 'Revoke a token, and all that were made with it', {
      handle: async ({ request }) => void (await store().revoke((request.params as { token: string }).token)),
    }),
    route('GET /v1/server/audit', 'admin', 'audit', 'The last lines of the audit log', {
      gives: json(schemas.auditBody),
      handle: async (): Promise<{ entries: readonly (AuditEntry | LeftOut)[] }> => {
        if (!audit) throw absent('this server keeps no audit log: serve with --audit-log');
        return { entries: await audit.last(AUDIT_LINES) };
      },
    }),
    route(
      'GET /v1/server/doctor',
      'admin',
      'doctor',
      'Whether all is well with the machine and the gallery, as far as that shows without a key',
      {
        gives: json(schemas.findingsBody),
        handle: async () => {
          if (!examine) throw absent('this server has no doctor: run `hers doctor` there');
          return { findings: await examine() };
        },
      },
    ),
    route('GET /v1/server/cluster', 'admin', 'cluster', 'The nodes of the cluster and what they keep', {
      gives: json(schemas.clusterBody),
      handle: async () => {
        if (!cluster) throw absent('this server is no node of a cluster');
        return cluster();
      },
    }),
  ];
  return routes.map((each) => ({ ...each, whole: true }));
}

/** One run at a time, whose result all share who ask within so long. */
function rarely<T>(run: () => Promise<T>, ms: number): () => Promise<T> {
  let last: { readonly result: Promise<T>; readonly at: number } | undefined;
  return () => {
    if (!last || performance.now() - last.at > ms) {
      const result = run();
      last = { result, at: performance.now() };
    }
    return last.result;
  };
}
