// Times as people read them, in their own time zone.

const two = (value: number): string => String(value).padStart(2, '0');

/** `2026-01-11 14:30`; anything else is returned unchanged. */
export function localTime(stamp: string | undefined): string {
    const at = new Date(stamp ?? '');
    if (Number.isNaN(at.getTime())) {
        return stamp ?? '';
    }
    return `${localDay(at)} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** `2026-01-11` */
export function localDay(at: Date): string {
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** `Today`, `Yesterday`, or the day. */
export function dayName(stamp: string, now: Date): string {
    const at = new Date(stamp);
    if (Number.isNaN(at.getTime())) {
        return 'At no known time';
    }
    const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
    const day = localDay(at);
    if (day === localDay(now)) {
        return 'Today';
    }
    return day === localDay(yesterday) ? 'Yesterday' : day;
}
