// A probe out of a photograph or a sentence, by a model in this page.

import type { Signal } from '@preact/signals';
import type { JSX } from 'preact';
import { type Embedded, embed, loading, type ModelFacts, missingText, modelsFor } from './models.ts';
import { Button, Field, type Task, TextArea } from './parts.tsx';
import { cropOf, openPicture, PictureInput } from './pictures.tsx';

/** A face that was found in a picture: what it looks like, and what it is compared by. */
export interface FoundFace {
  readonly crop: string;
  readonly vector: Float32Array;
}

/** Finds all that is in a picture. */
export async function facesIn(model: ModelFacts, picture: Blob): Promise<FoundFace[]> {
  const whole = await openPicture(picture);
  try {
    const found: readonly Embedded[] = await embed(model, whole);
    return found.map((each) => ({ crop: cropOf(whole, each), vector: each.vector }));
  } finally {
    whole.close();
  }
}

/** The model that takes this, for a collection of these dimensions. */
export function modelOf(takes: ModelFacts['takes'], dimension: number): ModelFacts | undefined {
  return modelsFor(dimension).models.find((each) => each.takes === takes);
}

/** What a collection of these dimensions can be asked by, here or with a model that is missing. */
export function modelKinds(dimension: number): readonly ModelFacts['takes'][] {
  const { models, missing } = modelsFor(dimension);
  const kinds = [...models, ...missing.map(({ facts }) => facts)].map(({ takes }) => takes);
  return [...new Set(kinds)];
}

/** How to get the model that is missing. */
export function NoModel({ takes, dimension }: { readonly takes: string; readonly dimension: number }): JSX.Element {
  const missing = modelsFor(dimension).missing.find(({ facts }) => facts.takes === takes);
  if (!missing) return <p class="faint">There is no model for this.</p>;
  return (
    <div class="stack tight">
      <p>{missingText(missing)}</p>
      <code class="command">npm install {missing.packages.join(' ')}</code>
    </div>
  );
}

/** Says that a model loads, and how large that is to a reader: it takes a moment, once. */
export function LoadingText({ model, isBusy }: { readonly model: ModelFacts; readonly isBusy: boolean }): JSX.Element {
  return (
    <p class="hint" role="status">
      {isBusy
        ? loading.value.has(model.name)
          ? `The model ${model.name} is loaded into this page, and looks …`
          : 'Looking …'
        : ''}
    </p>
  );
}

interface PhotoProbeProps {
  readonly dimension: number;
  readonly faces: Signal<readonly FoundFace[]>;
  readonly chosen: Signal<number>;
  readonly task: Task;
}

export function PhotoProbe({ dimension, faces, chosen, task }: PhotoProbeProps): JSX.Element {
  const model = modelOf('picture', dimension);
  if (!model) return <NoModel takes="picture" dimension={dimension} />;
  const look = (picture: File) =>
    task.run(async () => {
      faces.value = [];
      const found = await facesIn(model, picture);
      if (found.length === 0) throw new Error('no face was found in this picture');
      chosen.value = 0;
      faces.value = found;
    });
  return (
    <>
      <PictureInput
        label="A photograph"
        isBusy={task.isBusy}
        onPictures={([picture]) => void look(picture!)}
        onProblem={task.fail}
      />
      {faces.value.length > 0 ? (
        <fieldset class="faces" aria-label="Which face">
          {faces.value.map(({ crop }, at) => (
            <Button
              key={crop}
              aria-pressed={chosen.value === at}
              aria-label={`face ${at + 1}`}
              onClick={() => (chosen.value = at)}
            >
              <img src={crop} alt="" width={56} height={56} />
            </Button>
          ))}
        </fieldset>
      ) : (
        <LoadingText model={model} isBusy={task.isBusy} />
      )}
    </>
  );
}

interface TextProbeProps {
  readonly dimension: number;
  readonly value: string;
  readonly onInput: (text: string) => void;
}

export function TextProbe({ dimension, value, onInput }: TextProbeProps): JSX.Element {
  const model = modelOf('text', dimension);
  if (!model) return <NoModel takes="text" dimension={dimension} />;
  return (
    <Field label="A sentence" hint="A model in this page makes numbers of it. English works best.">
      <TextArea class="prose" rows={3} spellcheck value={value} onText={onInput} />
    </Field>
  );
}
