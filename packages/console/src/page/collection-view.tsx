// One collection: what it is, and the tabs for all that is done with it.

import type { CollectionDescription } from '@hers/client';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { errorText } from './collections-view.tsx';
import { EnrolView } from './enrol-view.tsx';
import { Button, Confirm, Fact, Guarded, JobLine, Problem, Tabs, useTask } from './parts.tsx';
import { RecordsView } from './records-view.tsx';
import { go, hrefOf, TABS, type Tab } from './route.ts';
import { SearchView } from './search-view.tsx';
import { jobsEnded, useLoaded } from './state.ts';
import { count, isCode, size } from './text.ts';
import { unlocked } from './unlocked.ts';
import { UpkeepView } from './upkeep-view.tsx';

export function CollectionView({ name, tab }: { readonly name: string; readonly tab: Tab }): JSX.Element {
  const { database } = unlocked.value!;
  const { loaded, reload } = useLoaded(() => database.describe(name), [name, jobsEnded.value]);
  const { value, problem, error } = loaded.value;
  const isAccepting = useSignal(false);
  return (
    <section>
      <header class="heading">
        <h1>
          <a href={hrefOf({ view: 'collections' })}>Collections</a> <span aria-hidden="true">/</span> {name}
        </h1>
        <span class="faint number">
          {value ? `${count(value.records)} records · ${value.dimension} dimensions · ${value.metric}` : ''}
        </span>
      </header>
      <Tabs
        label="Of this collection"
        tabs={TABS}
        chosen={tab}
        hrefOf={(tab) => hrefOf({ view: 'collection', name, tab })}
      />
      <Problem text={problem} />
      {isCode(error, 'INTEGRITY') ? (
        <div class="card">
          <h2>This is what tampering looks like</h2>
          <p>
            It is also what a restored backup looks like, or a collection that another client has deleted and made
            again. If you know that one of these is the cause, accept what is there now.
          </p>
          <Button onClick={() => (isAccepting.value = true)}>Accept it …</Button>
        </div>
      ) : null}
      {isAccepting.value ? (
        <Confirm
          title={`Accept ${name} as it is now`}
          word={name}
          action="Accept it"
          onClose={() => (isAccepting.value = false)}
          onConfirm={async () => {
            await database.accept(name).catch(() => {});
            isAccepting.value = false;
            reload();
          }}
        >
          <p>What was seen of it before is forgotten. A server that cheats would like you to do this.</p>
        </Confirm>
      ) : null}
      {value ? (
        <Guarded of={tab}>
          <TabView tab={tab} description={value} onChange={reload} />
        </Guarded>
      ) : null}
      {value && (tab === 'enrol' || tab === 'upkeep') ? <JobLine collection={name} /> : null}
    </section>
  );
}

interface TabProps {
  readonly tab: Tab;
  readonly description: CollectionDescription;
  readonly onChange: () => void;
}

const VIEWS: Readonly<Record<Tab, (props: Omit<TabProps, 'tab'>) => JSX.Element>> = {
  overview: Overview,
  search: SearchView,
  records: RecordsView,
  enrol: EnrolView,
  upkeep: UpkeepView,
};

function TabView({ tab, ...props }: TabProps): JSX.Element {
  const View = VIEWS[tab];
  return <View {...props} />;
}

function Overview({ description }: { readonly description: CollectionDescription }): JSX.Element {
  const { name, records, pending, blocks, bytes, version, plan, fields, partitionBy, compressor } = description;
  const { integrity, dimension, metric, profile } = description;
  const { database } = unlocked.value!;
  const isDeleting = useSignal(false);
  const { problem, run } = useTask();
  return (
    <>
      <div class="cards">
        <div class="card">
          <h2>What it holds</h2>
          <dl class="facts">
            <Fact term="records">{count(records)}</Fact>
            <Fact term="pending">{count(pending)}</Fact>
            <Fact term="blocks">
              {count(blocks)} of up to {count(plan.capacity)} records
            </Fact>
            <Fact term="on disk">{size(bytes)}</Fact>
            <Fact term="version seen">{version}</Fact>
            <Fact term="fields">
              {Object.keys(fields).length === 0
                ? 'none'
                : Object.entries(fields)
                    .map(([field, type]) => `${field} (${type})`)
                    .join(', ')}
            </Fact>
            {partitionBy === undefined ? null : <Fact term="partitions">by {partitionBy}</Fact>}
          </dl>
          <p class="hint">
            {pending > 0
              ? 'Pending records are in no block yet: this page compares them itself. Optimize, under upkeep, puts them into one.'
              : ' '}
          </p>
        </div>
        <div class="card">
          <h2>What is promised</h2>
          <dl class="facts">
            <Fact term="metric">{metric}</Fact>
            <Fact term="profile">{profile}</Fact>
            <Fact term="dimension">
              {compressor ? `${dimension}, indexed as ${compressor.dimension} (${compressor.method})` : dimension}
            </Fact>
            <Fact term="error of a score">{errorText(plan)}</Fact>
            <Fact term="security">{plan.security.coreSvp.quantum} bits against quantum computers (core-SVP)</Fact>
            <Fact term="a stored vector">{size(plan.bytes.perTemplate)}</Fact>
            <Fact term="a query">{size(plan.bytes.query)}</Fact>
            <Fact term="a response">{plan.bytes.responsePerScore.toFixed(2)} bytes a record</Fact>
            <Fact term="integrity">{integrity}</Fact>
          </dl>
        </div>
      </div>
      <Problem text={problem} />
      <div class="actions far">
        <Button class="danger" onClick={() => (isDeleting.value = true)}>
          Delete this collection …
        </Button>
      </div>
      {isDeleting.value ? (
        <Confirm
          title={`Delete ${name}`}
          word={name}
          action="Delete it"
          onClose={() => (isDeleting.value = false)}
          onConfirm={() =>
            run(async () => {
              isDeleting.value = false;
              await database.deleteCollection(name);
              go({ view: 'collections' });
            })
          }
        >
          <p>All {count(records)} records go with it. Only a snapshot can bring them back.</p>
        </Confirm>
      ) : null}
    </>
  );
}
