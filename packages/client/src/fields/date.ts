// Dates of RFC 3339, to the millisecond: what fields and filters take and give.

/** Year, month, day; hour, minute, second, fraction; zone. Every part has one way to match. */
const FORM = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d)))?$/;
const MAX_LENGTH = 64;
const MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const DAY_SECONDS = 86_400;
/** The years 0000 to 9999, which is all that four digits can say. */
const FIRST = -62_167_219_200_000;
const LAST = 253_402_300_799_999;

/** Milliseconds since 1970 in UTC; undefined if this is no date with a zone, and no date alone. */
export function dateOf(text: string): number | undefined {
  const form = text.length <= MAX_LENGTH ? FORM.exec(text) : null;
  if (!form) return undefined;
  const days = daysOf(Number(form[1]), Number(form[2]), Number(form[3]));
  if (days === undefined) return undefined;
  const [hour, minute, second] = [Number(form[4] ?? 0), Number(form[5] ?? 0), Number(form[6] ?? 0)];
  const [zoneHour, zoneMinute] = [Number(form[9] ?? 0), Number(form[10] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || zoneHour > 23 || zoneMinute > 59) return undefined;
  const zone = (form[8] === '-' ? -1 : 1) * (60 * zoneHour + zoneMinute);
  const fraction = form[7] === undefined ? 0 : Number(form[7].slice(0, 3).padEnd(3, '0'));
  const time = 1000 * (DAY_SECONDS * days + 60 * (60 * hour + minute - zone) + second) + fraction;
  return isDate(time) ? time : undefined;
}

/** Days since 1970 in the Gregorian calendar, undefined if there is no such day. */
function daysOf(year: number, month: number, day: number): number | undefined {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const length = month === 2 && isLeap ? 29 : (MONTH_DAYS[month - 1] ?? 0);
  if (day < 1 || day > length) return undefined;
  // Years that begin in March end with the leap day. Then months have 30.6 days on average, rounded
  // down (the calendar's own pattern of 153 days in five months).
  const shifted = month > 2 ? year : year - 1;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + day - 1;
  const leapDays = Math.floor(shifted / 4) - Math.floor(shifted / 100) + Math.floor(shifted / 400);
  return 365 * shifted + leapDays + dayOfYear - 719_468;
}

/** Whether these milliseconds are in the years that a date can say. */
export function isDate(milliseconds: number): boolean {
  return Number.isInteger(milliseconds) && milliseconds >= FIRST && milliseconds <= LAST;
}

/** In UTC, with three digits of the second: `2026-11-16T10:00:00.000Z`. */
export function dateText(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
