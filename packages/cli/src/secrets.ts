// Passphrases and tokens. They come from a file, an environment variable or a prompt: never from an
// argument, which other users of the machine can see, and which shells write down. And the question
// before something that cannot be taken back.

import { readFile, stat } from 'node:fs/promises';
import type { Context, Environment } from './context.ts';
import { CommandError, EXIT, Interrupted, usageError } from './exit.ts';
import { flagOf, type Settings } from './settings.ts';

export interface SecretSource {
  /** A file that was named on the command line. */
  readonly flag?: string | undefined;
  readonly variable: string;
  /** A file that a variable or the configuration names. */
  readonly file?: string | undefined;
  /** What it is called in prompts and errors. */
  readonly name: string;
  /** How to give it without a terminal. */
  readonly remedy: string;
}

/** Makes the source of a secret whose file a setting may name. */
export function secretOf(
  settings: Settings,
  setting: 'passphraseFile' | 'tokenFile',
  rest: Pick<SecretSource, 'variable' | 'name' | 'remedy'>,
): SecretSource {
  const { value, origin } = settings.get(setting) ?? {};
  return { ...rest, [origin === flagOf(setting) ? 'flag' : 'file']: value };
}

/** Whether it can be had without asking anybody. */
export function isGiven({ env }: Environment, { flag, variable, file }: SecretSource): boolean {
  return flag !== undefined || (env[variable] ?? '') !== '' || file !== undefined;
}

export class Secrets {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** A secret that exists already. */
  async existing(source: SecretSource): Promise<string> {
    return (await this.given(source)) ?? (await this.#ask(`${source.name}:`, source));
  }

  /** A new one: asked for twice, because a typing error would lock everything. */
  async chosen(source: SecretSource): Promise<string> {
    const given = await this.given(source);
    if (given !== undefined) return given;
    const first = await this.#ask(`Choose a ${source.name}:`, source);
    const again = await this.#ask('The same again:', source);
    if (first !== again) throw new CommandError(EXIT.key, 'the two are not the same', 'run the command again');
    return first;
  }

  /** What was given without asking. */
  async given({ flag, variable, file, name }: SecretSource): Promise<string | undefined> {
    const fromVariable = this.#context.environment.env[variable];
    if (flag === undefined && fromVariable) return fromVariable;
    const path = flag ?? file;
    return path === undefined ? undefined : this.#read(path, name);
  }

  async #read(path: string, name: string): Promise<string> {
    const text = await readFile(path, 'utf8').catch((error) => Promise.reject(Object.assign(error, { path })));
    const secret = text.replace(/\r?\n$/, '');
    if (secret === '') throw new CommandError(EXIT.key, `${path} is empty`, `put the ${name} into it`);
    const { mode } = await stat(path);
    if ((mode & 0o077) !== 0) this.#context.out.note(`${path} can be read by others: chmod 600 it.`);
    return secret;
  }

  async #ask(message: string, { name, remedy }: SecretSource): Promise<string> {
    const { stdin, stderr, signal } = this.#context.environment;
    if (!stdin.isTTY || !stderr.isTTY)
      throw new CommandError(EXIT.key, `a ${name} is needed, and there is no terminal to ask for it`, remedy);
    const { isCancel, password } = await import('@clack/prompts');
    const validate = (value: string | undefined) => (value ? undefined : 'It must not be empty.');
    const answer = await password({ message, validate, input: stdin, output: stderr, signal, withGuide: false });
    if (isCancel(answer)) throw new Interrupted('SIGINT');
    return answer;
  }
}

export async function confirmed(
  { environment: { stdin, stderr, signal } }: Context,
  yes: boolean,
  question: string,
): Promise<void> {
  if (yes) return;
  if (!stdin.isTTY || !stderr.isTTY)
    throw usageError('this is to be confirmed, and there is no terminal to ask', 'add --yes if it is meant');
  const { confirm, isCancel } = await import('@clack/prompts');
  const terminal = { input: stdin, output: stderr, signal, withGuide: false };
  const answer = await confirm({ message: question, initialValue: false, ...terminal });
  if (isCancel(answer)) throw new Interrupted('SIGINT');
  if (!answer) throw new CommandError(EXIT.no, 'nothing was done', 'answer yes, or add --yes, if it is meant');
}
