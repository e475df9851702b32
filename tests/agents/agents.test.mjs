// Real coding agents work through several turns against a real server whose model is scripted, sub-agent and compaction
// included. Asserted of each request, and of each turn in sum: it reads at most 5 % more than a perfect cache must (the record's
// `least`), and one batch where a path parts for the first time; and nothing more where the record says that nothing was lost. All of
// them read at most 1.5 % of their prompts in excess.
//
// Environment: CAIRN_TEST_AGENT (one of agents.mjs), CAIRN_TEST_AGENTS (the folder they are installed in), and the harness's.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Server } from '../e2e/harness.mjs';
import { AGENTS, SESSION } from './agents.mjs';

// Where a path parts for the first time at a place that nothing announces (inside a tool list, as a sub-agent's does), the nearest state
// is at the end of the batch before: states are taken between batches.
const BATCH_TOKENS = 512;
const agent = AGENTS[process.env.CAIRN_TEST_AGENT];

function run(command, folder, url) {
    const [program, ...args] = command;
    return new Promise((resolve, reject) => {
        const child = spawn(program, args, {
            cwd: join(folder, 'project'),
            env: { PATH: process.env.PATH, HOME: join(folder, 'home'), TERM: 'dumb', NO_PROXY: '127.0.0.1', ...agent.env(folder, url) },
            stdio: ['ignore', 'pipe', 'pipe'],
        });
        let out = '';
        let err = '';
        child.stdout.on('data', (piece) => { out += piece; });
        child.stderr.on('data', (piece) => { err += piece; });
        child.on('error', reject);
        child.on('close', (code) => resolve({ code, out, err }));
    });
}

function added(rows) {
    const sum = (field) => rows.reduce((total, row) => total + row[field], 0);
    return { prompt: sum('prompt'), read: sum('read'), least: sum('least') };
}

test(`${agent.name}: several turns, a sub-agent and a compaction read nothing twice`, async () => {
    const folder = await mkdtemp(join(tmpdir(), `cairn-${agent.name}-`));
    await mkdir(join(folder, 'project'));
    await mkdir(join(folder, 'home'));
    await writeFile(join(folder, 'project/a.js'), 'export const alpha = 1;\n');
    await writeFile(join(folder, 'script.jsonl'), agent.script(folder).map((line) => JSON.stringify(line)).join('\n'));
    const server = await Server.start(['-c', '65536', '--cache-ram', '2G', '--normalize', '--script', join(folder, 'script.jsonl')]);
    try {
        await agent.setup?.(folder, server.url);
        const said = [];
        const turns = [];
        let session = '';
        for (const turn of agent.turns) {
            const before = server.requests().length;
            await agent.before?.(turn, folder, server.url, server.requests());
            const ended = await run([...agent.program(), ...turn.map((part) => (part === SESSION ? session : part))], folder, server.url);
            session ||= /session id: (\S+)/.exec(ended.err)?.[1] ?? '';
            said.push(ended.out);
            console.log(`${turn.at(-1)}: exit ${ended.code}, "${ended.out.trim().slice(-90)}"`);
            for (const row of server.requests().slice(before)) {
                console.log(`  prompt ${row.prompt} reused ${row.reused} read ${row.read} least ${row.least} ${row.tier} ${row.reason} answer ${row.answer} recalled ${row.recalled}`);
            }
            assert.equal(ended.code, 0, `${ended.out}\n${ended.err}`);
            turns.push({ turn: turn.at(-1), ...added(server.requests().slice(before)) });
        }
        assert.match(said[0], /one file, a\.js/);
        assert.match(said[1], /sub-agent says that it exports alpha/i);
        assert.match(said.at(-1), /Nothing is left to do/);
        const rows = server.requests();
        assert.ok(rows.length >= 2 * agent.turns.length, `${rows.length} requests`);
        const counts = (row) => ({ prompt: row.prompt, read: row.read, least: row.least, reason: row.reason });
        const over = (row) => row.read > 1.05 * row.least + (row.reason === 'none' ? 0 : BATCH_TOKENS);
        assert.deepEqual(rows.filter(over).map(counts), []);
        assert.deepEqual(turns.filter((turn) => turn.read > 1.05 * turn.least + BATCH_TOKENS), []);
        const all = added(rows);
        assert.ok(all.read - all.least <= 0.015 * all.prompt, `${all.read} read, ${all.least} least, of ${all.prompt}`);
        assert.ok(rows.every((row) => row.end === 'done'));
    } finally {
        await server.stop();
        await rm(folder, { recursive: true, force: true });
    }
});
