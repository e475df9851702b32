// Real coding agents work through several turns against a real server whose model is scripted, sub-agent and compaction
// included. Asserted: beyond what a perfect cache must read, no request reads more than 5 % of its prompt or FIRST_TIME_TOKENS,
// and all of them 3 % of their prompts in sum.
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

// What a path may read again that parts for the first time inside a tool list, as a sub-agent's does.
const FIRST_TIME_TOKENS = 1536;
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
        }
        assert.match(said[0], /one file, a\.js/);
        assert.match(said[1], /sub-agent says that it exports alpha/i);
        assert.match(said.at(-1), /Nothing is left to do/);
        const rows = server.requests();
        assert.ok(rows.length >= 2 * agent.turns.length, `${rows.length} requests`);
        const again = (row) => row.read - row.least;
        assert.deepEqual(rows.filter((row) => again(row) > Math.max(0.05 * row.prompt, FIRST_TIME_TOKENS)).map((row) => [row.prompt, row.read, row.least]), []);
        const sum = (each) => rows.reduce((total, row) => total + each(row), 0);
        assert.ok(sum(again) <= 0.03 * sum((row) => row.prompt), `${sum(again)} of ${sum((row) => row.prompt)} tokens were read again`);
        assert.ok(rows.every((row) => row.end === 'done'));
    } finally {
        await server.stop();
        await rm(folder, { recursive: true, force: true });
    }
});
