// Where the key is, and where it is not.

import type { JSX } from 'preact';

const HERE = ['the key', 'vectors and pictures', 'ids and payloads', 'scores, and who matched'];
const THERE = ['encrypted templates', 'sealed records under handles', 'how many, how large, when'];

export function KeyPicture({ place }: { readonly place: string }): JSX.Element {
  return (
    <figure class="where">
      <div class="side here">
        <h2>
          <Key /> This page
        </h2>
        <ul>
          {HERE.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      </div>
      <div class="between" aria-hidden="true">
        <svg viewBox="0 0 120 24" preserveAspectRatio="none" aria-hidden="true">
          <path d="M0 8H112M106 3l8 5-8 5M120 17H8M14 12l-8 5 8 5" />
        </svg>
        <span>ciphertexts only</span>
      </div>
      <div class="side there">
        <h2>{place.charAt(0).toUpperCase() + place.slice(1)}</h2>
        <ul>
          {THERE.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
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
