// Answers what an agent asks: in the session that is meant, or else in one that waits for you.

import * as vscode from 'vscode';
import { SessionInfo, Sessions } from './core/protocol';
import { asks, title } from './core/words';
import { Link } from './link';
import { Tell } from './tell';

const LIST_PAGE = 500;

type Answer = { choice: string } | { text: string };

export async function answer(link: Link, tell: Tell, meant: string | undefined): Promise<void> {
    const { sessions } = await link.request<Sessions>('session/list', { limit: LIST_PAGE, filter: { activity: 'waiting' } });
    const asked = sessions.filter((session) => session.activity?.question !== undefined);
    if (asked.length === 0) {
        tell.info('Nothing is asked in any session.');
        return;
    }
    const own = asked.find((session) => session.sessionId === meant);
    const session = own ?? (asked.length === 1 ? asked[0] : await chosen(asked));
    const given = session && (await read(session));
    if (session === undefined || given === undefined) {
        return;
    }
    const params = { sessionId: session.sessionId, questionId: session.activity?.question?.id, ...given };
    const { accepted } = await link.request<{ accepted: boolean }>('session/answer', params);
    tell.info(accepted ? 'Answered.' : 'This was answered before, or it is not asked any more.');
}

async function chosen(asked: SessionInfo[]): Promise<SessionInfo | undefined> {
    const items = asked.map((session) => ({ label: title(session), description: asks(session.activity), session }));
    return (await vscode.window.showQuickPick(items, { placeHolder: 'Answer in which session?' }))?.session;
}

async function read(session: SessionInfo): Promise<Answer | undefined> {
    const choices = session.activity?.question?.choices ?? [];
    const words = asks(session.activity);
    if (choices.length === 0) {
        const text = await vscode.window.showInputBox({ title: title(session), prompt: words, ignoreFocusOut: true });
        return text ? { text } : undefined;
    }
    const items = choices.map(({ id, label }) => ({ label, id }));
    const picked = await vscode.window.showQuickPick(items, { title: title(session), placeHolder: words, ignoreFocusOut: true });
    return picked && { choice: picked.id };
}
