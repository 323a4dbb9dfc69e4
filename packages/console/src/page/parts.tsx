// Small parts that every view is made of.

import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useErrorBoundary, useRef } from 'preact/hooks';
import { type Job, job, stop } from './state.ts';
import { count, messageOf } from './text.ts';

type Attributes<Tag extends keyof JSX.IntrinsicElements> = JSX.IntrinsicElements[Tag];

interface FormProps {
  readonly class?: string;
  readonly onSubmit: (form: HTMLFormElement) => Promise<void> | void;
  readonly children: ComponentChildren;
}

/** Handles a form in this page, and sends it nowhere. */
export function Form({ onSubmit, ...rest }: FormProps): JSX.Element {
  return (
    <form
      {...rest}
      onSubmit={(event) => {
        event.preventDefault();
        void onSubmit(event.currentTarget);
      }}
    />
  );
}

/** A line of text or a number; no browser offers what was typed before. */
export function Input({ onText, ...rest }: Attributes<'input'> & { onText: (text: string) => void }): JSX.Element {
  return <input autocomplete="off" {...rest} onInput={({ currentTarget }) => onText(currentTarget.value)} />;
}

type AreaProps = Attributes<'textarea'> & { onText: (text: string) => void };

/** Several lines of text; prose alone is checked for its spelling. */
export function TextArea({ onText, ...rest }: AreaProps): JSX.Element {
  return <textarea spellcheck={false} {...rest} onInput={({ currentTarget }) => onText(currentTarget.value)} />;
}

interface CheckProps {
  readonly checked: boolean;
  readonly onCheck: (isChecked: boolean) => void;
  readonly children: ComponentChildren;
}

export function Check({ checked, onCheck, children }: CheckProps): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={({ currentTarget }) => onCheck(currentTarget.checked)} />
      <span>{children}</span>
    </label>
  );
}

export function Button(props: Attributes<'button'>): JSX.Element {
  return <button type="button" {...props} />;
}

interface SelectProps<T extends string> {
  readonly 'aria-label'?: string;
  readonly disabled?: boolean;
  readonly value: T;
  readonly options: readonly (readonly [value: T, text: string])[];
  readonly onText: (value: T) => void;
}

export function Select<T extends string>({ options, onText, ...rest }: SelectProps<T>): JSX.Element {
  return (
    <select {...rest} onChange={({ currentTarget }) => onText(currentTarget.value as T)}>
      {options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

interface TabsProps<T extends string> {
  readonly label: string;
  readonly tabs: readonly T[];
  readonly chosen: T;
  readonly hrefOf: (tab: T) => string;
}

export function Tabs<T extends string>({ label, tabs, chosen, hrefOf }: TabsProps<T>): JSX.Element {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((each) => (
        <a key={each} href={hrefOf(each)} {...(each === chosen ? { 'aria-current': 'page' as const } : {})}>
          {each}
        </a>
      ))}
    </nav>
  );
}

interface FieldProps {
  readonly label: string;
  /** What to know before it is filled in. */
  readonly hint?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly class?: string;
}

export function Field({ label, hint, children, class: more = '' }: FieldProps): JSX.Element {
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the control is among the children
    <label class={`field ${more}`}>
      <span class="label">{label}</span>
      {children}
      {hint === undefined ? null : <span class="hint">{hint}</span>}
    </label>
  );
}

/** The title of a column, and its class where it has one; `aside` is for screen readers alone. */
export type Column = string | readonly [title: string, kind: 'number' | 'score' | 'aside'];

interface TableProps {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly children: ComponentChildren;
}

/** May be wider than the page: it scrolls by itself, by keys too. */
export function Table({ label, columns, children }: TableProps): JSX.Element {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: without it, keys could not scroll it
    <section class="scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column, at) => {
              const [title, kind = ''] = typeof column === 'string' ? [column] : column;
              return (
                <th scope="col" key={`${at} ${title}`} class={kind === 'aside' ? '' : kind}>
                  {kind === 'aside' ? <span class="aside">{title}</span> : title}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

interface FileButtonProps {
  readonly text: string;
  readonly accept?: string;
  readonly multiple?: boolean;
  readonly disabled?: boolean;
  readonly 'aria-label'?: string;
  readonly 'aria-labelledby'?: string;
  readonly onFiles: (files: readonly File[]) => void;
}

/** A button that opens the choice of a file. The same one can be chosen again. */
export function FileButton({ text, disabled = false, onFiles, ...rest }: FileButtonProps): JSX.Element {
  return (
    <label class={`button ${disabled ? 'disabled' : ''}`}>
      {text}
      <input
        type="file"
        class="hidden"
        disabled={disabled}
        {...rest}
        onChange={({ currentTarget }) => {
          onFiles([...(currentTarget.files ?? [])]);
          currentTarget.value = '';
        }}
      />
    </label>
  );
}

interface FileChoiceProps {
  readonly id: string;
  readonly label: string;
  readonly chosen: string | undefined;
  readonly none?: string;
  readonly accept: string;
  readonly onFile: (file: File | undefined) => void;
}

/** A file to be chosen: its label, its name, and a button. */
export function FileChoice({ id, label, chosen, none, accept, onFile }: FileChoiceProps): JSX.Element {
  return (
    <>
      <span class="label" id={id}>
        {label}
      </span>
      <div class="chosen">
        <span class={chosen === undefined ? 'name faint' : 'name'}>{chosen ?? none ?? 'none chosen'}</span>
        <FileButton text="Choose …" aria-labelledby={id} accept={accept} onFiles={([file]) => onFile(file)} />
      </div>
    </>
  );
}

/** Work that a view was asked for: whether it goes on, and what went wrong with it. */
export interface Task {
  readonly isBusy: boolean;
  readonly problem: string | undefined;
  /** `say` makes a sentence of an error. */
  run(work: () => Promise<void> | void, say?: (error: unknown) => string): Promise<void>;
  fail(problem: string | undefined): void;
}

export function useTask(): Task {
  const isBusy = useSignal(false);
  const problem = useSignal<string | undefined>(undefined);
  return {
    isBusy: isBusy.value,
    problem: problem.value,
    fail: (text) => void (problem.value = text),
    async run(work, say = messageOf) {
      isBusy.value = true;
      problem.value = undefined;
      try {
        await work();
      } catch (error) {
        problem.value = say(error);
      } finally {
        isBusy.value = false;
      }
    },
  };
}

/** A form's values, and how to change some of them. */
export function useForm<T extends object>(initial: T): { readonly form: Signal<T>; set(part: Partial<T>): void } {
  const form = useSignal(initial);
  return {
    form,
    set: (part) => {
      form.value = { ...form.value, ...part };
    },
  };
}

interface DropProps {
  readonly class: string;
  readonly onFiles: (files: readonly File[]) => void;
  readonly children: ComponentChildren;
}

/** Takes files that are dropped on it. There is a button for the same beside it. */
export function Drop({ class: name, onFiles, children }: DropProps): JSX.Element {
  const isOver = useSignal(false);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping is another way for what a button does
    <div
      class={`${name} ${isOver.value ? 'over' : ''}`}
      onDragOver={(event) => {
        event.preventDefault();
        isOver.value = true;
      }}
      onDragLeave={() => (isOver.value = false)}
      onDrop={(event) => {
        event.preventDefault();
        isOver.value = false;
        const files = [...(event.dataTransfer?.files ?? [])];
        if (files.length > 0) onFiles(files);
      }}
    >
      {children}
    </div>
  );
}

/** A browser would open a file that is dropped beside its place, in the place of the page. */
export function ignoreOtherDrops(): void {
  addEventListener('dragover', (event) => {
    if (event.defaultPrevented) return;
    event.preventDefault();
    if (event.dataTransfer) event.dataTransfer.dropEffect = 'none';
  });
  addEventListener('drop', (event) => event.preventDefault());
}

interface GuardedProps {
  /** What is shown; when it changes, it is tried again. */
  readonly of: string;
  readonly children: ComponentChildren;
}

/** A server may answer what no view can show: that ends the view, and not the page. */
export function Guarded({ of, children }: GuardedProps): JSX.Element {
  const [error, again] = useErrorBoundary();
  useEffect(() => {
    if (error) again();
  }, [of]);
  if (!error) return <>{children}</>;
  return (
    <div class="card" role="alert">
      <h2>This cannot be shown</h2>
      <p>The answer is not what it should be. The key is still in this page, and everything else works.</p>
      <Button onClick={again}>Try again</Button>
    </div>
  );
}

export function Problem({ text }: { readonly text: string | undefined }): JSX.Element {
  return (
    <div class="problem" role="alert">
      {text ? <p>{text}</p> : null}
    </div>
  );
}

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog({ title, onClose, children }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => element.current!.showModal(), []);
  return (
    <dialog ref={element} aria-label={title} onClose={onClose}>
      <header>
        <h2>{title}</h2>
        <Button class="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </Button>
      </header>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  /** What has to be typed. */
  readonly word: string;
  readonly action: string;
  readonly onConfirm: () => Promise<void> | void;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** For what cannot be undone: a word has to be typed. */
export function Confirm({ title, word, action, onConfirm, onClose, children }: ConfirmProps): JSX.Element {
  const typed = useSignal('');
  return (
    <Dialog title={title} onClose={onClose}>
      <Form onSubmit={() => (typed.value === word ? onConfirm() : undefined)}>
        {children}
        <Field label={`Type ${word} to go on`}>
          <Input value={typed.value} spellcheck={false} onText={(text) => (typed.value = text)} />
        </Field>
        <div class="actions">
          <button type="submit" class="danger" disabled={typed.value !== word}>
            {action}
          </button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </Form>
    </Dialog>
  );
}

const STATES: Readonly<Record<Job['state'], string>> = {
  running: '',
  stopping: 'stopping …',
  finished: 'finished',
  stopped: 'stopped',
  failed: 'failed',
};

/** The job of a collection. It has its place whether there is one or not. */
export function JobLine({ collection }: { readonly collection: string }): JSX.Element {
  const { value } = job;
  const own = value?.collection === collection ? value : undefined;
  const isRunning = own?.state === 'running' || own?.state === 'stopping';
  return (
    <div class={`job ${own?.state ?? 'none'}`} role="status">
      {own ? (
        <>
          <strong>{own.title}</strong>
          {isRunning ? (
            <>
              <progress aria-label={own.title} {...(own.total ? { value: own.done, max: own.total } : {})} />
              <span class="number">
                {count(own.done)}
                {own.total ? ` of ${count(own.total)}` : ''}
              </span>
              <button type="button" onClick={stop} disabled={own.state === 'stopping'}>
                {own.state === 'stopping' ? 'Stopping …' : 'Stop'}
              </button>
            </>
          ) : (
            <span class="outcome">
              {own.state === 'finished' ? '' : `${STATES[own.state]}: `}
              {own.outcome}
            </span>
          )}
        </>
      ) : (
        <span class="faint">Nothing is running.</span>
      )}
    </div>
  );
}

export function Fact({ term, children }: { readonly term: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{term}</dt>
      <dd>{children}</dd>
    </div>
  );
}

const WIDTH = 240;
const HEIGHT = 56;

interface PlotProps {
  readonly title: string;
  /** Of the newest value, as people read it. */
  readonly now: string;
  /** Lines, by their names; undefined where there was nothing to measure. */
  readonly lines: Readonly<Record<string, readonly (number | undefined)[]>>;
  /** Values that fit into it, from the right. */
  readonly room: number;
}

/** Parts of a path; a gap where there is no value. */
function pathOf(values: readonly (number | undefined)[], room: number, most: number): string {
  let isDrawing = false;
  return values
    .map((value, at) => {
      if (value === undefined) {
        isDrawing = false;
        return '';
      }
      const x = WIDTH * (1 - (values.length - 1 - at) / Math.max(1, room - 1));
      const y = HEIGHT - 2 - ((HEIGHT - 6) * value) / most;
      const step = isDrawing ? 'L' : 'M';
      isDrawing = true;
      return `${step}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join('');
}

/** Draws a number over time, as a line: what it is now, and what it was. */
export function Plot({ title, now, lines, room }: PlotProps): JSX.Element {
  const most = Math.max(...Object.values(lines).flatMap((values) => values.map((value) => value ?? 0)), 0) || 1;
  return (
    <figure class="card plot">
      <figcaption>
        <span>{title}</span> <strong class="number">{now}</strong>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`${title}: ${now}`}>
        {Object.entries(lines).map(([name, values], at) => (
          <path key={name} class={at === 0 ? 'first' : 'second'} d={pathOf(values, room, most)} />
        ))}
      </svg>
    </figure>
  );
}

/** Saves a file from this page. */
export function save(name: string, content: BlobPart[], type = 'application/octet-stream'): void {
  const url = URL.createObjectURL(new Blob(content, { type }));
  const link = Object.assign(document.createElement('a'), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
