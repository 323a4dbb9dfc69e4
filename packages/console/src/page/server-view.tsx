// The server: its numbers, its tokens, its audit log, what a doctor finds, and its cluster.

import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { growth, numberIn, quantile, type Reading, readingOf } from './metrics.ts';
import {
  Button,
  Confirm,
  Field,
  Form,
  Guarded,
  Input,
  Plot,
  Problem,
  Select,
  Table,
  Tabs,
  useForm,
  useTask,
} from './parts.tsx';
import { hrefOf, SERVER_TABS, type ServerTab } from './route.ts';
import { adminToken, askServer, readMetrics } from './server-api.ts';
import { shown, useLoaded } from './state.ts';
import { count, duration, isCode, messageOf, size } from './text.ts';

export function ServerView({ tab }: { readonly tab: ServerTab }): JSX.Element {
  const View = VIEWS[tab];
  return (
    <section>
      <header class="heading">
        <h1>Server</h1>
      </header>
      <Tabs label="Of this server" tabs={SERVER_TABS} chosen={tab} hrefOf={(tab) => hrefOf({ view: 'server', tab })} />
      <Guarded of={tab}>
        <View key={tab} />
      </Guarded>
    </section>
  );
}

const VIEWS: Readonly<Record<ServerTab, () => JSX.Element>> = {
  metrics: MetricsTab,
  tokens: TokensTab,
  'audit log': AuditTab,
  doctor: DoctorTab,
  cluster: ClusterTab,
};

const EVERY_MS = 2000;
/** Readings that are kept: four minutes. */
const KEPT = 120;
const LEAST = 16;
const readings: Signal<readonly Reading[]> = shown<readonly Reading[]>([]);

function MetricsTab(): JSX.Element {
  const problem = useSignal<string | undefined>(undefined);
  useEffect(() => {
    let isHere = true;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      try {
        const reading = readingOf(await readMetrics(), performance.now() / 1000);
        if (isHere) readings.value = [...readings.value.slice(1 - KEPT), reading];
        problem.value = undefined;
      } catch (error) {
        problem.value = messageOf(error);
      }
      if (isHere) timer = setTimeout(read, EVERY_MS);
    };
    void read();
    return () => {
      isHere = false;
      clearTimeout(timer);
    };
  }, []);
  return (
    <>
      <Problem text={problem.value} />
      <Plots all={readings.value} />
      <p class="hint">
        Read every other second while this is shown. Times are from the head of a request to the end of its answer.
      </p>
    </>
  );
}

function Plots({ all }: { readonly all: readonly Reading[] }): JSX.Element {
  const last = all.at(-1);
  // A short history fills its plots, too.
  const room = Math.max(LEAST, all.length);
  const between = <T,>(measure: (before: Reading, after: Reading) => T): T[] =>
    all.slice(1).map((after, at) => measure(all[at]!, after));
  const searches = between((a, b) => growth(a, b, 'hers_searches_total') / Math.max(0.001, b.at - a.at));
  const half = between((a, b) => quantile(a, b, 'search', 0.5));
  const most = between((a, b) => quantile(a, b, 'search', 0.95));
  const rate = between((a, b) => {
    const seconds = growth(a, b, 'hers_scan_seconds_total');
    return seconds > 0 ? growth(a, b, 'hers_scanned_bytes_total') / seconds : undefined;
  });
  const memory = all.map((each) => numberIn(each, 'process_resident_memory_bytes'));
  const waiting = all.map((each) => numberIn(each, 'hers_scans_waiting'));
  const running = all.map((each) => numberIn(each, 'hers_scans_running'));
  const newest = (values: readonly (number | undefined)[]) => values.findLast((value) => value !== undefined);
  const text = (value: number | undefined, write: (value: number) => string) =>
    value === undefined ? '–' : write(value);
  const ms = (value: number) => duration(1000 * value);
  const [p50, p95] = [newest(half), newest(most)];
  return (
    <div class="plots">
      <Plot
        title="searches a second"
        now={text(searches.at(-1), (each) => each.toFixed(1))}
        lines={{ searches }}
        room={room}
      />
      <Plot
        title="a search, p50 and p95"
        now={`${text(p50, ms)} · ${text(p95, ms)}`}
        lines={{ p50: half, p95: most }}
        room={room}
      />
      <Plot title="scanned" now={text(newest(rate), (each) => `${size(each)}/s`)} lines={{ rate }} room={room} />
      <Plot title="memory" now={text(memory.at(-1), size)} lines={{ memory }} room={room} />
      <Plot
        title="scans that run and wait"
        now={`${running.at(-1) ?? '–'} · ${waiting.at(-1) ?? '–'}`}
        lines={{ running, waiting }}
        room={room}
      />
      <div class="card plot">
        <dl class="totals">
          <dt>searches since the start</dt>
          <dd class="number">{last ? count(numberIn(last, 'hers_searches_total')) : '–'}</dd>
          <dt>received, sent</dt>
          <dd class="number">
            {last
              ? `${size(numberIn(last, 'hers_received_bytes_total'))} · ${size(numberIn(last, 'hers_sent_bytes_total'))}`
              : '–'}
          </dd>
          <dt>connections</dt>
          <dd class="number">{last ? count(numberIn(last, 'hers_connections')) : '–'}</dd>
        </dl>
      </div>
    </div>
  );
}

interface AskedProps<T> {
  readonly path: string;
  readonly children: (value: T, reload: () => void) => ComponentChildren;
}

/** What the server answers, or why it does not, and a place for a token where it wants one. */
function Asked<T>({ path, children }: AskedProps<T>): JSX.Element {
  const { loaded, reload } = useLoaded(() => askServer<T>(path), [path, adminToken.value]);
  const { value, problem, error, isLoading } = loaded.value;
  if (isCode(error, 'NOT_FOUND')) return <p class="card empty">{problem}</p>;
  const isRefused = isCode(error, 'FORBIDDEN') || isCode(error, 'UNAUTHENTICATED');
  return (
    <div class="stack">
      <Problem text={problem} />
      {isRefused ? <AdminToken /> : null}
      {value === undefined ? <p class="faint">{isLoading ? 'Reading …' : ''}</p> : children(value, reload)}
      {value !== undefined || (error && !isRefused) ? (
        <div class="actions">
          <Button onClick={reload} disabled={isLoading}>
            Refresh
          </Button>
        </div>
      ) : null}
    </div>
  );
}

function AdminToken(): JSX.Element {
  return (
    <Form
      class="card"
      onSubmit={(form) => {
        const input = form.elements.namedItem('admin') as HTMLInputElement;
        adminToken.value = input.value.trim();
        input.value = '';
      }}
    >
      <Field
        label="A token of scope admin"
        hint="For this place alone, until the page is locked. With hers console, start it with such a token instead."
      >
        <input type="password" name="admin" autocomplete="off" spellcheck={false} required />
      </Field>
      <div class="actions">
        <button type="submit">Use it</button>
      </div>
    </Form>
  );
}

interface TokenFacts {
  readonly id: string;
  readonly scope: string;
  readonly collection?: string;
  readonly partitions?: readonly string[];
  readonly note?: string;
  readonly created: string;
  readonly by?: string;
}

function TokensTab(): JSX.Element {
  return (
    <Asked<{ tokens: readonly TokenFacts[] }> path="tokens">
      {({ tokens }, reload) => <Tokens tokens={tokens} onChange={reload} />}
    </Asked>
  );
}

interface TokensProps {
  readonly tokens: readonly TokenFacts[];
  readonly onChange: () => void;
}

function Tokens({ tokens, onChange }: TokensProps): JSX.Element {
  const revoking = useSignal<TokenFacts | undefined>(undefined);
  const { problem, run } = useTask();
  const revoke = (id: string) =>
    run(async () => {
      revoking.value = undefined;
      await askServer(`tokens/${id}`, { method: 'DELETE' }).finally(onChange);
    });
  return (
    <>
      <Problem text={problem} />
      <Table label="Tokens" columns={['id', 'scope', 'collection', 'note', 'made', ['Revoke', 'aside']]}>
        {tokens.map((token) => (
          <tr key={token.id}>
            <th scope="row">
              <code>{token.id}</code>
            </th>
            <td>{token.scope}</td>
            <td>
              {token.collection ?? 'all'}
              {token.partitions ? `, ${count(token.partitions.length)} of its partitions` : ''}
            </td>
            <td>{token.note ?? ''}</td>
            <td>
              {token.created.slice(0, 10)}
              {token.by === undefined ? '' : ` with ${token.by}`}
            </td>
            <td>
              <Button class="link" onClick={() => (revoking.value = token)}>
                Revoke …
              </Button>
            </td>
          </tr>
        ))}
      </Table>
      <NewToken onChange={onChange} />
      {revoking.value ? (
        <Confirm
          title={`Revoke ${revoking.value.id}`}
          word={revoking.value.id}
          action="Revoke it"
          onClose={() => (revoking.value = undefined)}
          onConfirm={() => revoke(revoking.value!.id)}
        >
          <p>
            Whoever uses it is refused from the next request on, and so is whoever has a token that was made with it. If
            this page uses it, this page is refused as well.
          </p>
        </Confirm>
      ) : null}
    </>
  );
}

const SCOPES = [
  ['search', 'search: read and search'],
  ['write', 'write: change records, too'],
  ['admin', 'admin: everything'],
] as const;

function NewToken({ onChange }: { readonly onChange: () => void }): JSX.Element {
  const { form, set } = useForm({ scope: 'search' as (typeof SCOPES)[number][0], collection: '', note: '' });
  const made = useSignal<string | undefined>(undefined);
  const { problem, run } = useTask();
  const make = () =>
    run(async () => {
      made.value = undefined;
      const { scope, collection, note } = form.value;
      const head = { scope, ...(collection === '' ? {} : { collection }), ...(note === '' ? {} : { note }) };
      const { secret } = await askServer<{ secret: string }>('tokens', { method: 'POST', head });
      made.value = secret;
      onChange();
    });
  return (
    <Form class="card" onSubmit={make}>
      <h2>A new token</h2>
      <div class="grid">
        <Field label="Scope">
          <Select value={form.value.scope} options={SCOPES} onText={(scope) => set({ scope })} />
        </Field>
        <Field label="Collection">
          <Input
            value={form.value.collection}
            placeholder="all"
            spellcheck={false}
            onText={(collection) => set({ collection })}
          />
        </Field>
        <Field label="Note">
          <Input value={form.value.note} maxLength={200} onText={(note) => set({ note })} />
        </Field>
      </div>
      <Problem text={problem} />
      {made.value === undefined ? null : (
        <div class="stack tight" role="status">
          <code class="command">{made.value}</code>
          <p class="hint">
            Keep it like a password: it is shown this once.{' '}
            <Button class="link" onClick={() => (made.value = undefined)}>
              I have it
            </Button>
          </p>
        </div>
      )}
      <div class="actions">
        <button type="submit">Make it</button>
      </div>
    </Form>
  );
}

interface AuditLine {
  readonly time: string;
  readonly token?: string;
  readonly address?: string;
  readonly operation: string;
  readonly collection?: string;
  readonly status?: number;
  readonly code?: string;
  readonly requests?: number;
}

function AuditTab(): JSX.Element {
  return (
    <Asked<{ entries: readonly AuditLine[] }> path="audit">
      {({ entries }) => (
        <Table label="Audit log" columns={['time, UTC', 'token', 'address', 'did', 'collection', 'outcome']}>
          {entries.toReversed().map((entry, at) => (
            <tr key={`${entry.time} ${entries.length - at}`}>
              <td>{entry.time.slice(0, 19).replace('T', ' ')}</td>
              <td>
                <code>{entry.token ?? '–'}</code>
              </td>
              <td>{entry.address ?? ''}</td>
              <td>
                {entry.requests === undefined
                  ? entry.operation
                  : `${count(entry.requests)} more of strangers, not written down`}
              </td>
              <td>{entry.collection ?? ''}</td>
              <td class={entry.code === undefined ? '' : 'warn'}>{entry.code ?? entry.status ?? ''}</td>
            </tr>
          ))}
        </Table>
      )}
    </Asked>
  );
}

interface FindingFacts {
  readonly check: string;
  readonly level: 'ok' | 'note' | 'problem';
  readonly found: string;
  readonly advice?: string;
}

const SIGNS = { ok: '✓', note: '!', problem: '✗' } as const;
const WORDS = { ok: 'fine', note: 'could be better', problem: 'a problem' } as const;

function DoctorTab(): JSX.Element {
  return (
    <Asked<{ findings: readonly FindingFacts[] }> path="doctor">
      {({ findings }) => (
        <ul class="findings">
          {findings.map(({ check, level, found, advice }) => (
            <li key={check + found} class={level}>
              <span class="sign" role="img" aria-label={WORDS[level]}>
                {SIGNS[level]}
              </span>
              <div>
                <strong>{check}</strong> {found}
                {advice === undefined ? null : <p class="hint">{advice}</p>}
              </div>
            </li>
          ))}
        </ul>
      )}
    </Asked>
  );
}

interface ClusterFacts {
  readonly nodes: readonly {
    readonly name: string;
    readonly url: string;
    readonly error?: string;
    readonly shards: number;
    readonly bytes: number;
    readonly lagging: number;
    readonly draining?: boolean;
  }[];
  readonly collections: readonly {
    readonly name: string;
    readonly version: number | null;
    readonly shards: number;
    readonly replicas: number;
    readonly degraded: number;
    readonly blocked: number;
    readonly lost: number;
  }[];
  readonly moves?: readonly {
    readonly collection: string;
    readonly shard: number;
    readonly from?: string;
    readonly to?: string;
    readonly state: string;
    readonly bytes?: number;
  }[];
}

function ClusterTab(): JSX.Element {
  return (
    <Asked<ClusterFacts> path="cluster">
      {({ nodes, collections, moves = [] }) => (
        <>
          <Table
            label="Nodes"
            columns={['node', 'address', ['shards', 'number'], ['on disk', 'number'], ['lagging', 'number'], 'state']}
          >
            {nodes.map(({ name, url, shards, bytes, lagging, draining, error }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{url}</td>
                <td class="number">{count(shards)}</td>
                <td class="number">{size(bytes)}</td>
                <td class="number">{count(lagging)}</td>
                <td class={error === undefined ? '' : 'warn'}>
                  {error === undefined ? nodeState(draining, shards) : `down: ${error}`}
                </td>
              </tr>
            ))}
          </Table>
          <Table
            label="Collections of the cluster"
            columns={['collection', ['version', 'number'], ['shards', 'number'], ['replicas', 'number'], 'state']}
          >
            {collections.map(({ name, version, shards, replicas, degraded, blocked, lost }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="number">{version ?? '?'}</td>
                <td class="number">{count(shards)}</td>
                <td class="number">{count(replicas)}</td>
                <td class={degraded + blocked + lost > 0 ? 'warn' : ''}>{stateOf({ degraded, blocked, lost })}</td>
              </tr>
            ))}
          </Table>
          {moves.length > 0 ? (
            <Table
              label="Shards that move"
              columns={['collection', ['shard', 'number'], 'from', 'to', 'state', ['size', 'number']]}
            >
              {moves.map(({ collection, shard, from, to, state, bytes }) => (
                <tr key={`${collection} ${shard}`}>
                  <th scope="row">{collection}</th>
                  <td class="number">{shard}</td>
                  <td>{from ?? 'a replica more'}</td>
                  <td>{to ?? 'a replica less'}</td>
                  <td>{state}</td>
                  <td class="number">{bytes === undefined ? '?' : size(bytes)}</td>
                </tr>
              ))}
            </Table>
          ) : (
            <p class="hint">No shard moves.</p>
          )}
        </>
      )}
    </Asked>
  );
}

function nodeState(isDraining = false, shards: number): string {
  if (!isDraining) return 'up';
  return shards === 0 ? 'emptied, and can be stopped' : 'is being emptied';
}

function stateOf({ degraded, blocked, lost }: { degraded: number; blocked: number; lost: number }): string {
  if (lost > 0) return `${count(lost)} shards cannot be searched`;
  if (blocked > 0) return `${count(blocked)} shards take no changes`;
  return degraded > 0 ? `${count(degraded)} shards lack a replica` : 'whole';
}
