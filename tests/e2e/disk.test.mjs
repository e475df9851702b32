// The disk tier through the server: conversations outlive restarts and kills, answers are those of a fresh server.
import assert from 'node:assert/strict';
import { chmod, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { Server, metric, runProgram, words } from './harness.mjs';

let root;
let fresh;
const SETTINGS = ['-c', '8192', '--cache-ram', '256M', '--resume', 'exact'];
const EXPLAIN = { cairn: { explain: true }, ignore_eos: true };
const KILLS = Number(process.env.CAIRN_TEST_KILLS ?? 40);

before(async () => {
    root = await mkdtemp(path.join(tmpdir(), 'cairn-disk-'));
    fresh = await Server.start([...SETTINGS.slice(0, 2), '--no-cache']);
});
after(async () => {
    await fresh.stop();
    await rm(root, { recursive: true, force: true });
});

const start = (dir, args = []) => Server.start([...SETTINGS, '--cache-disk', `${dir}:512M`, ...args]);

function conversation(name, turns) {
    const messages = [{ role: 'system', content: `${name} ${words(150, 1)}` }];
    for (let i = 0; i < turns; i++) {
        messages.push({ role: 'user', content: words(300, 10 + i) });
        if (i + 1 < turns) {
            messages.push({ role: 'assistant', content: words(20, 50 + i) });
        }
    }
    return messages;
}

test('a time line shows what was written behind the request', async () => {
    const dir = path.join(root, 'timeline');
    const server = await start(dir);
    try {
        await server.chat(conversation('timeline', 2), EXPLAIN);
        await settled(server);
        const [{ id }] = (await server.get('/cairn/requests')).json.requests;
        const writesOf = async (request) => (await server.get(`/cairn/requests/${request}/perfetto`)).json.traceEvents.filter((event) => event.ph === 'X' && event.tid === 3);
        const writes = await writesOf(id);
        assert.ok(writes.length >= 2 && writes.every((event) => event.name === 'keep' && event.args.bytes > 0 && event.ts >= 0 && event.dur > 0), JSON.stringify(writes));
        // Another namespace's writes are not on it: the end of that path is not one of its ends.
        await server.chat(conversation('other', 1), { ...EXPLAIN, cache_salt: 'other' });
        await settled(server);
        const [other] = (await server.get('/cairn/requests')).json.requests;
        const end = Math.max(...(await writesOf(other.id)).map((event) => event.args.end ?? 0));
        assert.ok(end > 300 && (await writesOf(id)).every((event) => event.args.end !== end));
    } finally {
        await server.stop();
    }
});

const answerOf = (answer) => answer.json.choices[0].message;
const cached = (answer) => answer.json.usage.prompt_tokens_details.cached_tokens;

// Until nothing is on its way to disk, and something is there.
async function settled(server, blobs = 1) {
    for (;;) {
        if (await metric(server, 'disk_waiting') === 0 && await metric(server, 'disk_blobs') >= blobs) {
            return;
        }
    }
}

async function resumesFromDisk(server, name, turns) {
    const messages = conversation(name, turns);
    const answer = await server.chat(messages, EXPLAIN);
    assert.equal(answer.status, 200);
    assert.equal(answer.json.cairn.tier, 'disk');
    const { prompt_tokens: prompt } = answer.json.usage;
    assert.ok(cached(answer) > 512 && cached(answer) >= prompt - answer.json.cairn.least - 512,
        `${cached(answer)} of ${prompt}, least ${answer.json.cairn.least}`);
    assert.deepEqual(answerOf(answer), answerOf(await fresh.chat(messages, EXPLAIN)));
    const line = await server.waitForLog((event) => event.event === 'request');
    assert.equal(line.tier, 'disk');
}

test('after SIGTERM the next turn resumes from disk, and the answer is that of a fresh server', async () => {
    const dir = path.join(root, 'term');
    const first = await start(dir);
    await first.chat(conversation('term', 3), EXPLAIN);
    assert.deepEqual(await first.stop(), { code: 0, signal: null });
    assert.equal((await first.waitForLog((event) => event.event === 'flushed')).all, true);
    const second = await start(dir);
    try {
        await resumesFromDisk(second, 'term', 4);
        assert.ok(await metric(second, 'disk_fetched_total') > 0);
        const { disk } = (await second.get('/cairn/cache')).json;
        assert.ok(disk.now > 0 && disk.blobs > 0 && disk.limit === 512 * 1024 * 1024 && disk.failures === 0);
        assert.match(second.started(), /^disk +.*up to 512 MiB/m);
    } finally {
        await second.stop();
    }
});

test('after kill -9 the same, once it was written', async () => {
    const dir = path.join(root, 'kill');
    const first = await start(dir);
    await first.chat(conversation('kill', 3), EXPLAIN);
    await settled(first, 3);
    await first.stop('SIGKILL');
    const second = await start(dir);
    try {
        await resumesFromDisk(second, 'kill', 4);
    } finally {
        await second.stop();
    }
});

test('namespaces share nothing on disk, and are the same after a restart', async () => {
    const dir = path.join(root, 'spaces');
    const ask = (server, salt) => server.chat(conversation('spaces', 2), { cairn: { explain: true, cache_salt: salt } });
    const first = await start(dir);
    await ask(first, 'one');
    await first.stop();
    const second = await start(dir);
    try {
        assert.equal(cached(await ask(second, 'two')), 0);
        assert.equal(cached(await ask(second, 'three')), 0);
        const again = await ask(second, 'one');
        assert.equal(again.json.cairn.tier, 'disk');
    } finally {
        await second.stop();
    }
});

test('directory and files are private', async () => {
    const dir = path.join(root, 'term');
    assert.equal((await stat(dir)).mode & 0o777, 0o700);
    assert.equal((await stat(path.join(dir, 'namespace.key'))).mode & 0o777, 0o600);
    for (const folder of (await readdir(dir)).filter((name) => /^[0-9a-f]{2}$/.test(name))) {
        assert.equal((await stat(path.join(dir, folder))).mode & 0o777, 0o700);
        for (const file of await readdir(path.join(dir, folder))) {
            assert.equal((await stat(path.join(dir, folder, file))).mode & 0o777, 0o600);
        }
    }
});

test('with a key nothing is readable, and another key finds nothing and is told', async () => {
    const dir = path.join(root, 'sealed');
    const [one, two] = [path.join(root, 'one.key'), path.join(root, 'two.key')];
    await writeFile(one, 'ab'.repeat(32) + '\n', { mode: 0o600 });
    await writeFile(two, Buffer.alloc(32, 7), { mode: 0o600 });
    const first = await start(dir, ['--cache-key', one]);
    assert.match(first.started(), /encrypted/);
    await first.chat(conversation('sealed', 2), EXPLAIN);
    await first.stop();
    const other = await start(dir, ['--cache-key', two]);
    assert.equal(cached(await other.chat(conversation('sealed', 2), EXPLAIN)), 0);
    const told = await other.waitForLog((event) => event.event === 'disk' && event.level === 'warn');
    assert.match(JSON.stringify(told), /key/);
    await other.stop();
    await chmod(one, 0o644);
    const second = await start(dir, ['--cache-key', one]);
    try {
        await second.waitForLog((event) => event.event === 'disk' && /chmod 600/.test(event.message));
        await resumesFromDisk(second, 'sealed', 3);
        await second.chat(conversation('sealed', 2), { cairn: { cache_salt: 'tenant' } });
    } finally {
        await second.stop();
    }
    // without the key nobody can tell whose files they are: that is said, and nothing is taken for forgotten
    const blind = await runProgram(['store', 'rm', dir, '--salt', 'tenant']);
    assert.equal(blind.code, 1, blind.out);
    assert.match(blind.err, /\d+ encrypted files were left out.*--cache-key/);
    await chmod(one, 0o600);
    const seeing = await runProgram(['store', 'rm', dir, '--salt', 'tenant', '--cache-key', one]);
    assert.equal(seeing.code, 0, seeing.err);
    assert.match(seeing.out, /[1-9]\d* files?, .* removed/);
});

test('what is wrong with the options is said with a way out', async () => {
    const fails = async (args, code, pattern, env = {}) => {
        const end = await runProgram(['serve', '-m', process.env.CAIRN_TEST_MODEL, '--port', '0', ...args], { env });
        assert.equal(end.code, code, end.err);
        assert.match(end.err, pattern);
    };
    await writeFile(path.join(root, 'short.key'), 'abc');
    await fails(['--cache-disk', ':5G'], 2, /directory is expected/);
    await fails(['--cache-disk', `${root}/x:5Q`], 2, /unknown unit/);
    await fails(['--cache-disk', `${root}/x`, '--cache-key', path.join(root, 'none.key')], 1, /none\.key[^]*openssl rand/);
    await fails(['--cache-disk', `${root}/x`, '--cache-key', path.join(root, 'short.key')], 1, /64 hexadecimal[^]*openssl rand/);
});

test('a directory that can not be used is told once, and requests are answered', async () => {
    await writeFile(path.join(root, 'file'), 'not a directory');
    const server = await start(path.join(root, 'file'));
    try {
        const answer = await server.chat(conversation('file', 2), EXPLAIN);
        assert.equal(answer.status, 200);
        assert.match(server.started(), /^disk +off/m);
        assert.ok(server.lines.filter((line) => line.event === 'disk').length >= 1);
        assert.equal(await readFile(path.join(root, 'file'), 'utf8'), 'not a directory');
    } finally {
        await server.stop();
    }
});

test('a directory that is removed while running comes back by itself', async () => {
    const dir = path.join(root, 'gone');
    const server = await start(dir);
    try {
        await server.chat(conversation('gone', 2), EXPLAIN);
        await settled(server, 3);
        await rm(dir, { recursive: true });
        await server.chat(conversation('elsewhere', 3), EXPLAIN);
        await settled(server, 3);
        assert.ok((await readdir(dir)).some((name) => /^[0-9a-f]{2}$/.test(name)));
    } finally {
        await server.stop();
    }
});

test('without HOME and XDG_CACHE_HOME it is off and said once; XDG_CACHE_HOME is where it is', async () => {
    const off = await Server.start(SETTINGS, { HOME: '', XDG_CACHE_HOME: '', CAIRN_TEST_DISK_DEFAULT: '1' });
    try {
        assert.match(off.started(), /^disk +off/m);
        assert.equal(off.lines.filter((line) => line.event === 'disk').length, 1);
    } finally {
        await off.stop();
    }
    const cache = path.join(root, 'xdg');
    const on = await Server.start(SETTINGS, { XDG_CACHE_HOME: cache, CAIRN_TEST_DISK_DEFAULT: '1' });
    try {
        assert.match(on.started(), new RegExp(`^disk +${cache}/cairn, up to `, 'm'));
    } finally {
        await on.stop();
    }
});

// The names and bytes of all files below a directory.
async function snapshot(dir) {
    const files = {};
    for (const entry of await readdir(dir, { recursive: true, withFileTypes: true })) {
        if (entry.isFile()) {
            const file = path.join(entry.parentPath ?? entry.path, entry.name);
            files[path.relative(dir, file)] = (await readFile(file)).toString('base64');
        }
    }
    return files;
}

const store = async (args) => {
    const end = await runProgram(['store', ...args]);
    return { ...end, json: end.out.startsWith('{') || end.out.startsWith('[') ? JSON.parse(end.out) : null };
};

test('cairn store looks and changes nothing, finds damage, and removes only what it is asked to', async () => {
    const dir = path.join(root, 'store');
    const server = await start(dir);
    for (const salt of ['one', 'two']) {
        await server.chat(conversation('store', 2), { cairn: { cache_salt: salt } });
    }
    await server.stop();
    const before = await snapshot(dir);
    const list = (await store(['ls', dir, '--json'])).json;
    assert.ok(list.files >= 6 && list.damaged === 0);
    assert.equal(new Set(list.blobs.map((blob) => blob.namespace)).size, 2);
    assert.match((await store(['ls', dir])).out, /^name[^]*\brows\b[^]*\bstate\b[^]*files, /);
    assert.match((await store(['tree', dir])).out, /^namespace [0-9a-f]{32}[^]*- rows 0 to 512[^]*\* state at/);
    assert.equal((await store(['tree', dir, '--json'])).json.length, 2);
    const [blob] = list.blobs;
    const shown = await store(['show', dir, blob.name.slice(0, 10), '--json']);
    assert.equal(shown.json[0].name, blob.name);
    assert.equal(shown.json[0].bytes_checked, true);
    assert.equal((await store(['show', dir, 'ffffffffffffffff'])).code, 1);
    assert.equal((await store(['verify', dir])).code, 0);
    assert.equal((await store(['gc', dir, '--dry-run', '--max', '1K'])).code, 0);
    assert.equal((await store(['rm', dir, '--all', '--dry-run'])).code, 0);
    assert.deepEqual(await snapshot(dir), before);

    const file = path.join(dir, blob.name.slice(0, 2), `${blob.name}.blob`);
    const bytes = await readFile(file);
    bytes[bytes.length - 1] ^= 1;
    await writeFile(file, bytes);
    await writeFile(path.join(dir, '00ff'), 'x');
    const damaged = await store(['verify', dir, '--json']);
    assert.equal(damaged.code, 1);
    assert.deepEqual(damaged.json.problems.map((problem) => problem.name), [blob.name]);
    bytes[20] ^= 1; // now its header, too
    await writeFile(file, bytes);
    assert.equal((await store(['ls', dir, '--json'])).json.damaged, 1);
    assert.equal((await store(['show', dir, blob.name])).code, 1);
    assert.deepEqual((await store(['gc', dir, '--json'])).json.removed.map((one) => one.name), [blob.name]);
    assert.equal((await store(['verify', dir])).code, 0);

    const two = list.blobs.filter((one) => one.name !== blob.name).map((one) => one.namespace);
    const gone = (await store(['rm', dir, '--salt', 'two', '--json'])).json;
    const left = (await store(['ls', dir, '--json'])).json;
    assert.equal(new Set(left.blobs.map((one) => one.namespace)).size, 1);
    assert.equal(gone.files + left.files, two.length);
    const again = await start(dir);
    try {
        const ask = (salt) => again.chat(conversation('store', 2), { cairn: { explain: true, cache_salt: salt } });
        assert.equal(cached(await ask('two')), 0);
    } finally {
        await again.stop();
    }
    assert.equal((await store(['rm', dir])).code, 2);
    assert.equal((await store(['rm', dir, '--all'])).code, 0);
    assert.equal((await store(['ls', dir, '--json'])).json.files, 0);
    assert.equal((await store(['ls', path.join(dir, 'none')])).code, 1);
    assert.equal((await store(['ls'])).code, 2);
    assert.equal((await store(['sing', dir])).code, 2);
});

test(`killed at ${KILLS} random moments: the store opens clean and answers are right`, async (t) => {
    const dir = path.join(root, 'random');
    const seed = Number(process.env.CAIRN_SEED ?? 5);
    t.diagnostic(`CAIRN_SEED=${seed}`);
    let state = seed >>> 0;
    const random = (below) => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return (state >>> 8) % below;
    };
    const right = new Map();
    let fromDisk = 0;
    for (let i = 0; i < KILLS; i++) {
        const server = await start(dir);
        const name = `random${random(3)}`;
        const turns = 1 + random(4);
        const messages = conversation(name, turns);
        const answer = await server.chat(messages, EXPLAIN);
        const id = `${name} ${turns}`;
        if (!right.has(id)) {
            right.set(id, answerOf(await fresh.chat(messages, EXPLAIN)));
        }
        assert.deepEqual(answerOf(answer), right.get(id), `round ${i}`);
        fromDisk += answer.json.cairn.tier === 'disk' ? 1 : 0;
        assert.equal(await metric(server, 'disk_set_aside_total'), 0);
        // A moment in or after the writing, or in the middle of a request.
        const until = performance.now() + random(60);
        const asked = random(2) === 0 ? server.chat(conversation(`random${random(3)}`, 4), EXPLAIN).catch(() => {}) : null;
        while (performance.now() < until) {
            await server.get('/health').catch(() => {});
        }
        await server.stop('SIGKILL');
        await asked;
    }
    assert.ok(KILLS < 20 || fromDisk > KILLS / 4, `${fromDisk} of ${KILLS} from disk`);
    assert.deepEqual(await readdir(path.join(dir, 'bad')), []);
});
