// The files of a new cluster, a folder for each machine: the configuration of NATS, certificates of
// an authority that is made for it, and the token of nodes.

import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TokenStore } from '@hers/server';
import { HersError } from '@hers/service';

export interface InitOptions {
  /** Names or addresses of the machines, as the others reach them. */
  readonly hosts: readonly string[];
  /** Machines that have no server of NATS: of nodes beside those, or that may come later. */
  readonly spare?: readonly string[];
  /** Of the cluster; `hers` by default. */
  readonly cluster?: string;
  /** Where NATS keeps its files; /var/lib/nats by default. */
  readonly store?: string;
  /** Without `sync_interval`, which servers of NATS before 2.10 refuse. */
  readonly withoutSync?: boolean;
  /** Ports of NATS for nodes and for its own servers; 4222 and 6222 by default. For tests, each. */
  readonly ports?: (host: number) => { readonly client: number; readonly route: number };
}

/** What is in the folder of a machine. */
export const CLUSTER_FILES = {
  nats: 'nats.conf',
  /** Where NATS is, with the password. */
  servers: 'nats.url',
  authority: 'ca.crt',
  certificate: 'node.crt',
  privateKey: 'node.key',
  tokens: 'node-tokens.json',
  token: 'node.token',
} as const;

const HOST = /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;
const YEARS = 10;

/** Makes the folders. None of them may exist. Returns their paths. */
export async function initCluster(folder: string, options: InitOptions): Promise<string[]> {
  const { hosts, spare = [], cluster = 'hers', store = '/var/lib/nats', withoutSync = false } = options;
  const all = [...hosts, ...spare];
  const ports = options.ports ?? (() => ({ client: 4222, route: 6222 }));
  if (hosts.length === 0 || new Set(all).size !== all.length)
    throw new HersError('INVALID_ARGUMENT', 'name the machines of the cluster, each once');
  for (const host of all)
    if (!HOST.test(host))
      throw new HersError('INVALID_ARGUMENT', `${JSON.stringify(host)} is no name of a machine, nor an address`);
  if (!/^[A-Za-z0-9_-]{1,32}$/.test(cluster))
    throw new HersError('INVALID_ARGUMENT', 'the name of a cluster has letters, digits, - and _ alone');
  const work = await mkdtemp(join(tmpdir(), 'hers-init-'));
  try {
    makeAuthority(work, cluster);
    const passwords = { nodes: secret(), routes: secret(), system: secret() };
    const tokens = new TokenStore(join(work, CLUSTER_FILES.tokens));
    const { secret: token } = await tokens.create({ scope: 'admin' });
    const folders = all.map((host) => join(folder, host));
    await mkdir(folder, { recursive: true });
    for (const [i, host] of all.entries()) {
      // Not one that exists: its secrets would be gone.
      await mkdir(folders[i], { mode: 0o700 });
      makeCertificate(work, host);
      const config = { hosts, own: i, cluster, store, withoutSync, passwords, ports };
      const files: Partial<Record<keyof typeof CLUSTER_FILES, string>> = {
        ...(i < hosts.length ? { nats: natsConfig(config) } : {}),
        servers: `${hosts.map((each, n) => `tls://${cluster}:${passwords.nodes}@${each}:${ports(n).client}`).join()}\n`,
        authority: await readFile(join(work, 'ca.crt'), 'utf8'),
        certificate: await readFile(join(work, `${host}.crt`), 'utf8'),
        privateKey: await readFile(join(work, `${host}.key`), 'utf8'),
        tokens: await readFile(tokens.path, 'utf8'),
        token: `${token}\n`,
      };
      for (const [kind, content] of Object.entries(files)) {
        const name = CLUSTER_FILES[kind as keyof typeof CLUSTER_FILES];
        await writeFile(join(folders[i], name), content, { mode: 0o600, flag: 'wx' });
      }
    }
    return folders;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST')
      throw new HersError('ALREADY_EXISTS', `${folder} has files of a cluster already; choose another folder`);
    throw error;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

const secret = () => randomBytes(24).toString('base64url');

/**
 * One account with JetStream for nodes, which may publish and read what the ledger needs and
 * nothing else; everything over TLS, with certificates of both sides.
 */
function natsConfig(made: {
  readonly hosts: readonly string[];
  readonly own: number;
  readonly cluster: string;
  readonly store: string;
  readonly withoutSync: boolean;
  readonly passwords: { readonly nodes: string; readonly routes: string; readonly system: string };
  readonly ports: NonNullable<InitOptions['ports']>;
}): string {
  const { hosts, own, cluster, store, withoutSync, passwords, ports } = made;
  const stream = `${cluster}-ledger`;
  const api = ['CREATE', 'MSG.GET', 'PURGE'].map((call) => `"$JS.API.STREAM.${call}.${stream}"`).join(', ');
  const routes = hosts
    .map((host, i) => `    "nats-route://${cluster}:${passwords.routes}@${host}:${ports(i).route}"`)
    .filter((_, i) => i !== own)
    .join('\n');
  const tls = `tls {
  cert_file: "${CLUSTER_FILES.certificate}"
  key_file: "${CLUSTER_FILES.privateKey}"
  ca_file: "${CLUSTER_FILES.authority}"
  verify: true
}`;
  const inner = tls.replaceAll('\n', '\n  ');
  const clustered =
    hosts.length === 1
      ? ''
      : `cluster {
  name: "${cluster}"
  listen: "0.0.0.0:${ports(own).route}"
  authorization { user: "${cluster}", password: "${passwords.routes}" }
  ${inner}
  routes: [
${routes}
  ]
}
`;
  return `# NATS on ${hosts[own]}. Start it in this folder: nats-server -c ${CLUSTER_FILES.nats}
server_name: "${hosts[own]}"
listen: "0.0.0.0:${ports(own).client}"
${tls}
jetstream {
  store_dir: "${store}"
${withoutSync ? '  # This version knows no sync_interval: a power cut of most servers may take the last minutes.\n' : '  sync_interval: always\n'}}
${clustered}accounts {
  HERS {
    jetstream: enabled
    users: [{
      user: "${cluster}", password: "${passwords.nodes}"
      permissions: {
        publish: ["${stream}.>", "${cluster}-said.>", ${api}]
        subscribe: ["_INBOX.>", "${cluster}-said.>"]
      }
    }]
  }
  SYS { users: [{ user: "system", password: "${passwords.system}" }] }
}
system_account: SYS
`;
}

/** Files are named within the folder, and nothing in `line` has a space in it. */
function openssl(folder: string, line: string, ...more: readonly string[]): void {
  const { error, status, stderr } = spawnSync('openssl', [...line.split(' '), ...more], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (error) throw new HersError('UNAVAILABLE', 'certificates are made by openssl, which is not there; install it');
  if (status !== 0) throw new HersError('INTERNAL', `openssl fails: ${stderr.trim().split('\n').at(-1)}`);
}

const EC = '-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc';
const DAYS = `-days ${365 * YEARS}`;

/** The certificate ca.crt. Its key, ca.key, is forgotten when all certificates are made. */
function makeAuthority(folder: string, cluster: string): void {
  const uses = '-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign';
  openssl(folder, `req -x509 ${EC} -keyout ca.key -out ca.crt ${DAYS} ${uses}`, '-subj', `/CN=${cluster} cluster`);
}

/** The certificate and the key of a machine: its name with the ends .crt and .key. */
function makeCertificate(folder: string, host: string): void {
  const isAddress = /^[0-9.]+$/.test(host);
  openssl(folder, `req ${EC} -keyout ${host}.key -out ${host}.csr -subj /CN=${host.slice(0, 64)}`);
  const names = `subjectAltName=${isAddress ? 'IP' : 'DNS'}:${host}\nextendedKeyUsage=serverAuth,clientAuth\n`;
  writeFileSync(join(folder, `${host}.ext`), `basicConstraints=CA:FALSE\n${names}`);
  const signing = '-CA ca.crt -CAkey ca.key -CAcreateserial';
  openssl(folder, `x509 -req -in ${host}.csr ${signing} -out ${host}.crt ${DAYS} -extfile ${host}.ext`);
}
