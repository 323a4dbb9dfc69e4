// The way in: a key file and its passphrase, or a new key. The key is made or opened in this page.

import { isSealed, MasterSeed, openKey, sealKey } from '@hers/client';
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { example } from './example.ts';
import { Button, Drop, Field, FileChoice, Form, Problem, save, useTask } from './parts.tsx';
import { type Origin, offeredKey } from './session.ts';
import { isCode, messageOf } from './text.ts';
import { lockedBecause, unlock } from './unlocked.ts';

/** Shorter ones are guessed, for whoever has the file tries as often as he likes. */
const MIN_PASSPHRASE = 10;

interface KeyFile {
  readonly name: string;
  readonly text: string;
}

export function UnlockView({ origin }: { readonly origin: Origin }): JSX.Element {
  const way = useSignal<'open' | 'make'>('open');
  return (
    <section class="unlock">
      <div class="card">
        <h1>Open the gallery</h1>
        {lockedBecause.value ? (
          <p class="note" role="status">
            {lockedBecause.value} The key is gone from this page.
          </p>
        ) : null}
        {example.value.passphrase === undefined ? null : (
          <p class="hint">
            This is an example, made up. Its passphrase is <code>{example.value.passphrase}</code>.
          </p>
        )}
        <fieldset class="segments" aria-label="Which key">
          <Button aria-pressed={way.value === 'open'} onClick={() => (way.value = 'open')}>
            I have a key file
          </Button>
          <Button aria-pressed={way.value === 'make'} onClick={() => (way.value = 'make')}>
            Make a new key
          </Button>
        </fieldset>
        {way.value === 'open' ? <OpenKey origin={origin} /> : <MakeKey origin={origin} />}
      </div>
      <KeyPicture place={origin.kind === 'command' ? 'the gallery' : 'the server'} />
    </section>
  );
}

/** Whatever is typed is in the elements alone, and emptied when it was used. */
function empty(form: HTMLFormElement): void {
  for (const input of form.querySelectorAll<HTMLInputElement>('input[type=password]')) input.value = '';
}

function valueIn(form: HTMLFormElement, name: string): string {
  return (form.elements.namedItem(name) as HTMLInputElement | null)?.value ?? '';
}

const refused = (error: unknown) =>
  isCode(error, 'UNAUTHENTICATED') ? 'This server asks for a token, and this is none of its own.' : messageOf(error);

function Token({ origin }: { readonly origin: Origin }): JSX.Element | null {
  if (origin.kind === 'command') return null;
  return (
    <Field label="Token, if the server asks for one" hint="It goes to the server with every request, and is not kept.">
      <input type="password" name="token" autocomplete="off" spellcheck={false} />
    </Field>
  );
}

function OpenKey({ origin }: { readonly origin: Origin }): JSX.Element {
  const file = useSignal<KeyFile | undefined>(undefined);
  const { isBusy, problem, run, fail } = useTask();
  const offered = useSignal<KeyFile | undefined>(undefined);
  useEffect(() => {
    if (origin.kind !== 'command') return;
    offeredKey().then(
      (key) => {
        offered.value = key;
        file.value ??= key;
      },
      () => {},
    );
  }, []);

  const choose = async (chosen: File | undefined) => {
    fail(undefined);
    if (!chosen) return;
    try {
      const text = await chosen.text();
      isSealed(text); // throws for what is no key file
      file.value = { name: chosen.name, text };
    } catch (error) {
      file.value = undefined;
      fail(messageOf(error));
    }
  };

  const open = async (form: HTMLFormElement) => {
    if (!file.value) return fail('Choose a key file first.');
    const { name, text } = file.value;
    await run(async () => {
      const key = await openKey(text, valueIn(form, 'passphrase'));
      await unlock(key, { keyName: name, gallery: origin.gallery, token: valueIn(form, 'token') });
    }, refused);
    empty(form);
  };

  return (
    <Form onSubmit={open}>
      <Drop class="field" onFiles={([dropped]) => void choose(dropped)}>
        <FileChoice
          id="key-file"
          label="Key file"
          chosen={file.value?.name}
          accept=".key,.json,application/json"
          onFile={(chosen) => void choose(chosen)}
        />
        <span class="hint">
          {offered.value && file.value === offered.value
            ? 'From the folder of hers console, still sealed.'
            : 'Or drop it here. It is read by this page and sent nowhere.'}
        </span>
      </Drop>
      <Field label="Passphrase">
        <input type="password" name="passphrase" autocomplete="off" />
      </Field>
      <Token origin={origin} />
      <Problem text={problem} />
      <div class="actions">
        <button type="submit" class="main" disabled={isBusy}>
          {isBusy ? 'Opening …' : 'Unlock'}
        </button>
        <span class="hint" role="status">
          {isBusy ? 'Checking a passphrase takes a second, on purpose.' : ''}
        </span>
      </div>
    </Form>
  );
}

function MakeKey({ origin }: { readonly origin: Origin }): JSX.Element {
  const problem = useSignal<string | undefined>(undefined);
  const state = useSignal<'asking' | 'sealing' | 'saved'>('asking');
  const made = useRef<MasterSeed>(undefined);
  // Left before it was used.
  useEffect(() => () => made.current?.wipe(), []);

  const make = async (form: HTMLFormElement) => {
    const [passphrase, again] = [valueIn(form, 'passphrase'), valueIn(form, 'again')];
    problem.value = undefined;
    if (passphrase !== again) problem.value = 'The two are not the same.';
    else if (passphrase.length < MIN_PASSPHRASE) problem.value = `Take at least ${MIN_PASSPHRASE} characters.`;
    if (problem.value !== undefined) return;
    state.value = 'sealing';
    try {
      const key = MasterSeed.generate();
      const text = await sealKey(key, passphrase);
      made.current = key;
      save('hers.key', [text], 'application/json');
      state.value = 'saved';
    } catch (error) {
      problem.value = messageOf(error);
      state.value = 'asking';
    } finally {
      empty(form);
    }
  };

  const use = async (form: HTMLFormElement) => {
    try {
      const token = valueIn(form, 'token');
      await unlock(made.current!.clone(), { keyName: 'hers.key', gallery: origin.gallery, token });
    } catch (error) {
      problem.value = messageOf(error);
    }
  };

  return (
    <Form onSubmit={state.value === 'saved' ? use : make}>
      {state.value === 'saved' ? (
        <>
          <p>
            Your browser has saved <strong>hers.key</strong>. Put it where you keep such files, and a copy elsewhere.{' '}
            <strong>Without it, and without its passphrase, nobody can read the gallery again.</strong>
          </p>
          <Token origin={origin} />
          <label class="check">
            <input type="checkbox" required />I have the file, and know the passphrase.
          </label>
        </>
      ) : (
        <>
          <Field
            label="Passphrase for the new key file"
            hint={`At least ${MIN_PASSPHRASE} characters; several words are easy to keep.`}
          >
            <input type="password" name="passphrase" autocomplete="off" required />
          </Field>
          <Field label="The same again">
            <input type="password" name="again" autocomplete="off" required />
          </Field>
        </>
      )}
      <Problem text={problem.value} />
      <div class="actions">
        <button type="submit" class="main" disabled={state.value === 'sealing'}>
          {state.value === 'saved'
            ? 'Open the gallery with it'
            : state.value === 'sealing'
              ? 'Sealing …'
              : 'Make and save it'}
        </button>
      </div>
    </Form>
  );
}

const HERE = ['the key', 'vectors and pictures', 'ids and payloads', 'scores, and who matched'];
const THERE = ['encrypted templates', 'sealed records under handles', 'how many, how large, when'];

function List({ texts }: { readonly texts: readonly string[] }): JSX.Element {
  return (
    <ul>
      {texts.map((text) => (
        <li key={text}>{text}</li>
      ))}
    </ul>
  );
}

/** Shows where the key is, and where it is not. */
function KeyPicture({ place }: { readonly place: string }): JSX.Element {
  return (
    <figure class="where">
      <div class="side here">
        <h2>
          <Key /> This page
        </h2>
        <List texts={HERE} />
      </div>
      <div class="between" aria-hidden="true">
        <svg viewBox="0 0 120 24" preserveAspectRatio="none" aria-hidden="true">
          <path d="M0 8H112M106 3l8 5-8 5M120 17H8M14 12l-8 5 8 5" />
        </svg>
        <span>ciphertexts only</span>
      </div>
      <div class="side there">
        <h2>{place.charAt(0).toUpperCase() + place.slice(1)}</h2>
        <List texts={THERE} />
        <p class="no">no key</p>
      </div>
      <figcaption>
        The key is opened in this page and never leaves it. {place.charAt(0).toUpperCase() + place.slice(1)} compares
        what it cannot read, and this page alone reads what comes of it. Locking, closing or leaving the page overwrites
        the key.
      </figcaption>
    </figure>
  );
}

function Key(): JSX.Element {
  return (
    <svg class="key" viewBox="0 0 32 20" width="26" height="16" aria-hidden="true">
      <circle cx="8" cy="10" r="5.5" />
      <path d="M13.5 10H29m-4 0v5.5M19.5 10v4" />
    </svg>
  );
}
