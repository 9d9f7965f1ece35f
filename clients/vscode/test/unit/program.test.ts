import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isInstalled, otherThanRelay } from '../../src/core/program';

test('another command runs as the relay does', () => {
    assert.deepEqual(otherThanRelay({ path: 'sessiond', args: ['--stdio'] }, 'list'), { path: 'sessiond', args: ['list'] });
    const inHome = otherThanRelay({ path: '~/bin/sessiond', args: [] }, 'list');
    assert.deepEqual(inHome, { path: join(homedir(), 'bin/sessiond'), args: ['list'] });
    const module = otherThanRelay({ path: 'python3', args: ['-m', 'sessiond', '--stdio'] }, 'resume', 'an id');
    assert.deepEqual(module, { path: 'python3', args: ['-m', 'sessiond', 'resume', 'an id'] });
});

test('a program is installed if a folder of the path has it, and it may be run', () => {
    const folder = mkdtempSync(join(tmpdir(), 'programs-'));
    try {
        writeFileSync(join(folder, 'tool'), '');
        mkdirSync(join(folder, 'folder'));
        const path = `/nowhere:${folder}`;
        assert.equal(isInstalled('tool', path), false);
        chmodSync(join(folder, 'tool'), 0o755);
        assert.equal(isInstalled('tool', path), true);
        assert.equal(isInstalled('folder', path), false);
        assert.equal(isInstalled('tool', ''), false);
    } finally {
        rmSync(folder, { recursive: true });
    }
});
