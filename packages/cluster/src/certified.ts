// Connections of a node that shows a certificate to others.

import { readFileSync } from 'node:fs';
import { Agent } from 'node:https';
import { createSecureContext, getCACertificates } from 'node:tls';
import { HersError } from '@hers/service';
import { stampOf } from '@hers/service/target';

/** By what nodes know each other, as files in PEM. */
export interface NodeCertificate {
  /** The certificate of the authority that has signed those of all nodes. */
  readonly authority: string;
  readonly cert: string;
  readonly key: string;
}

const LOOK_EVERY_MS = 2000;

function agentOf({ authority, cert, key }: NodeCertificate): Agent {
  try {
    const ca = [...getCACertificates('default'), readFileSync(authority, 'utf8')];
    const secureContext = createSecureContext({ ca, cert: readFileSync(cert), key: readFileSync(key) });
    return new Agent({ keepAlive: true, secureContext });
  } catch {
    // What OpenSSL says could hold a part of the key.
    throw new HersError(
      'INVALID_ARGUMENT',
      `${authority}, ${cert} and ${key} are not the certificates of an authority and of a node, and its private key`,
    );
  }
}

/** Gives what others are reached with, at addresses that begin with https. */
export type Certified = () => Agent;

/**
 * Shows a certificate to whoever is asked. One that was renewed is read again. INVALID_ARGUMENT for
 * files that cannot be used.
 */
export function certifiedBy(files: NodeCertificate): Certified {
  const paths = [files.authority, files.cert, files.key];
  let agent = agentOf(files);
  let [stamp, looked] = [stampOf(...paths), performance.now()];
  return () => {
    if (performance.now() - looked < LOOK_EVERY_MS) return agent;
    looked = performance.now();
    try {
      const now = stampOf(...paths);
      if (now === stamp) return agent;
      agent = agentOf(files);
      stamp = now;
    } catch {
      // They are being replaced: the old ones serve until then.
    }
    return agent;
  };
}
