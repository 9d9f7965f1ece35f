// What came back into a draft. It may be durable after all, so it keeps its id until that is seen in the session, or until something else is
// sent. It is a message of its own, also together with other text.

export interface Part {
    id?: string;
    text: string;
}

export class Returned {
    /** In the order in which it stands at the beginning of the draft. */
    private parts: Required<Part>[] = [];

    add(parts: Required<Part>[]): void {
        this.parts = [...parts, ...this.parts];
    }

    /** The messages of a draft that is sent as a whole. */
    take(draft: string): Part[] {
        const parts = this.split(draft);
        this.parts = [];
        return parts;
    }

    /** These messages are in the session. Returns the draft without them, undefined if it remains as it is. */
    arrived(ids: Set<string>, draft: string): string | undefined {
        const seen = (part: Part): boolean => part.id !== undefined && ids.has(part.id);
        const parts = this.split(draft);
        this.parts = this.parts.filter((part) => !seen(part));
        const left = parts.filter((part) => !seen(part));
        return left.length === parts.length ? undefined : left.map(({ text }) => text).join('\n\n');
    }

    private split(draft: string): Part[] {
        const parts: Part[] = [];
        let rest = draft;
        for (const part of this.parts) {
            if (rest.trimEnd() === part.text.trimEnd() || rest.startsWith(`${part.text}\n\n`)) {
                parts.push(part);
                rest = rest.slice(part.text.length + 2);
            }
        }
        return rest.trim() === '' ? parts : [...parts, { text: rest }];
    }
}
