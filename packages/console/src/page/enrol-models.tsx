// Enrol what a model understands: faces out of pictures, each with a name; or lines of text.

import type { CollectionDescription, VectorRecord } from '@hers/client';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { facesIn, LoadingText, modelOf, NoModel } from './model-probe.tsx';
import { embed } from './models.ts';
import { Button, Check, Field, Form, Input, Problem, TextArea } from './parts.tsx';
import { PictureInput } from './pictures.tsx';
import { isRunning, type JobTools } from './state.ts';
import { counted, messageOf } from './text.ts';

type Enrol = (title: string, records: (tools: JobTools) => AsyncIterable<VectorRecord>, total: number) => void;

interface Props {
  readonly description: CollectionDescription;
  readonly onEnrol: Enrol;
}

interface Person {
  readonly key: number;
  readonly id: string;
  readonly crop: string;
  readonly vector: Float32Array;
}

/** `anna-maria.jpeg` is of anna-maria. */
const nameOf = (file: string) => file.replace(/\.[^.]*$/, '');

export function EnrolPictures({ description, onEnrol }: Props): JSX.Element {
  const { dimension, name } = description;
  const people = useSignal<readonly Person[]>([]);
  const isBusy = useSignal(false);
  const keeps = useSignal(true);
  const problem = useSignal<string | undefined>(undefined);
  const said = useSignal('');
  const isStopped = useRef(false);
  const model = modelOf('picture', dimension);

  const look = async (pictures: readonly File[]) => {
    isBusy.value = true;
    isStopped.current = false;
    const problems: string[] = [];
    problem.value = undefined;
    try {
      for (const [at, picture] of pictures.entries()) {
        if (isStopped.current) break;
        said.value = `Looking at ${picture.name}, ${at + 1} of ${pictures.length} …`;
        // What is wrong with one picture leaves the others as they are.
        const found = await facesIn(model!, picture).catch((error) => {
          problems.push(`${picture.name}: ${messageOf(error)}`);
          return undefined;
        });
        if (isStopped.current || !found) continue;
        if (found.length === 0) problems.push(`No face was found in ${picture.name}.`);
        const next = Math.max(0, ...people.value.map(({ key }) => key)) + 1;
        const added = found.map(({ crop, vector }, at) => ({
          ...{ key: next + at, crop, vector },
          id: found.length > 1 ? `${nameOf(picture.name)}-${at + 1}` : nameOf(picture.name),
        }));
        people.value = [...people.value, ...added];
      }
    } finally {
      problem.value = problems.length === 0 ? undefined : problems.join(' ');
      isBusy.value = false;
      said.value = '';
    }
  };

  const enrol = () => {
    const ids = people.value.map(({ id }) => id.trim());
    const twice = ids.find((id, at) => ids.indexOf(id) !== at);
    if (ids.includes('') || twice !== undefined) {
      problem.value =
        twice === undefined || twice === '' ? 'Each needs a name.' : `Two are called ${JSON.stringify(twice)}.`;
      return;
    }
    problem.value = undefined;
    const records = people.value.map(({ crop, vector }, at) => ({
      ...{ id: ids[at]!, vector },
      ...(keeps.value ? { payload: { picture: crop } } : {}),
    }));
    onEnrol(`Enrol ${counted(records.length, 'face')}`, () => streamOf(records), records.length);
    people.value = [];
  };

  return (
    <Form class="card" onSubmit={enrol}>
      <h2>From pictures</h2>
      {model ? (
        <>
          <PictureInput
            label={`Pictures for ${name}`}
            isMany
            isBusy={isBusy.value}
            onPictures={(pictures) => void look(pictures)}
            onProblem={(text) => (problem.value = text)}
          />
          <LoadingText model={model} isBusy={isBusy.value} />
          {people.value.length > 0 ? (
            <ul class="people">
              {people.value.map(({ key, id, crop }) => (
                <li key={key}>
                  <img src={crop} alt="" width={72} height={72} />
                  <Input
                    aria-label="Name"
                    value={id}
                    spellcheck={false}
                    onText={(text) => {
                      people.value = people.value.map((each) => (each.key === key ? { ...each, id: text } : each));
                    }}
                  />
                  <Button
                    class="quiet"
                    aria-label={`leave out ${id}`}
                    onClick={() => (people.value = people.value.filter((each) => each.key !== key))}
                  >
                    ✕
                  </Button>
                </li>
              ))}
            </ul>
          ) : null}
          <Check checked={keeps.value} onCheck={(isChecked) => (keeps.value = isChecked)}>
            Keep the small picture in the payload, sealed
          </Check>
          <Problem text={problem.value} />
          <div class="actions">
            <button type="submit" class="main" disabled={people.value.length === 0 || isBusy.value || isRunning()}>
              {people.value.length === 0 ? 'Enrol' : `Enrol ${counted(people.value.length, 'face')}`}
            </button>
            {isBusy.value ? <Button onClick={() => (isStopped.current = true)}>Stop</Button> : null}
            <span class="hint" role="status">
              {said.value || 'Faces are found in this page. Pictures do not leave it.'}
            </span>
          </div>
        </>
      ) : (
        <NoModel takes="picture" dimension={dimension} />
      )}
    </Form>
  );
}

async function* streamOf(records: readonly VectorRecord[]): AsyncGenerator<VectorRecord> {
  yield* records;
}

export function EnrolSentences({ description, onEnrol }: Props): JSX.Element {
  const { dimension } = description;
  const text = useSignal('');
  const model = modelOf('text', dimension);
  const lines = [...new Set(text.value.split('\n').map((line) => line.trim()))].filter((line) => line !== '');
  const records = async function* ({ signal }: JobTools): AsyncGenerator<VectorRecord> {
    for (const line of lines) {
      signal.throwIfAborted();
      const [found] = await embed(model!, line);
      yield { id: line, vector: found!.vector };
    }
  };
  return (
    <Form class="card" onSubmit={() => onEnrol(`Enrol ${counted(lines.length, 'sentence')}`, records, lines.length)}>
      <h2>Sentences</h2>
      {model ? (
        <>
          <Field label="One on each line" hint="The sentence is its own id. The server sees a keyed hash of it.">
            <TextArea class="prose" rows={4} spellcheck value={text.value} onText={(next) => (text.value = next)} />
          </Field>
          <div class="actions">
            <button type="submit" class="main" disabled={lines.length === 0 || isRunning()}>
              {lines.length === 0 ? 'Enrol' : `Enrol ${counted(lines.length, 'sentence')}`}
            </button>
          </div>
        </>
      ) : (
        <NoModel takes="text" dimension={dimension} />
      )}
    </Form>
  );
}
