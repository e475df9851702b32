// What an operator relies on: readiness, keys that change, the service manager, a port that is taken, signals.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { BIN, Server, holdSlot, runProgram, words } from './harness.mjs';

let folder;

before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cairn-ops-'));
});

after(async () => {
    await rm(folder, { recursive: true });
});

// A connection that stays open: ask(path) sends a GET on it and gives status and body.
async function keepAlive(port) {
    const socket = net.connect(port, '127.0.0.1');
    await new Promise((resolve) => socket.once('connect', resolve));
    let text = '';
    let wake = () => {};
    socket.on('data', (piece) => {
        text += piece;
        wake();
    });
    socket.on('error', () => {});
    return {
        async ask(path) {
            text = '';
            socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
            for (;;) {
                const length = /content-length: (\d+)/i.exec(text);
                const begin = text.indexOf('\r\n\r\n') + 4;
                if (length && text.length >= begin + Number(length[1])) {
                    return { status: Number(text.slice(9, 12)), json: JSON.parse(text.slice(begin)) };
                }
                await new Promise((resolve) => { wake = resolve; });
            }
        },
        close: () => socket.destroy(),
    };
}

test('readiness is apart from liveness: a full queue and a drain say "not now", the server lives', async () => {
    const server = await Server.start(['-c', '4096', '--cache-ram', '256M', '--queue', '0', '--drain', '200']);
    const line = await keepAlive(server.port);
    assert.deepEqual(await line.ask('/ready'), { status: 200, json: { status: 'ready', queued: 0, active: 0 } });
    const letGo = await holdSlot(server);
    const full = await server.get('/ready');
    assert.equal(full.status, 503);
    assert.equal(full.json.error.code, 'queue_full');
    assert.ok(Number(full.headers.get('retry-after')) > 0);
    assert.equal((await server.get('/health')).status, 200);
    assert.equal((await fetch(`${server.url}/ready`, { method: 'HEAD' })).status, 503);
    const end = server.stop();
    await server.waitForLog((event) => event.event === 'stopping');
    let draining = await line.ask('/ready');
    while (draining.json.error?.code === 'queue_full') { // the signal is on its way to the server
        draining = await line.ask('/ready');
    }
    assert.equal(draining.status, 503);
    assert.equal(draining.json.error.code, 'stopping');
    line.close();
    letGo();
    assert.deepEqual(await end, { code: 0, signal: null });
});

test('SIGHUP reads the keys again; what can not be read changes nothing', async () => {
    const file = join(folder, 'keys');
    await writeFile(file, '# first\n  alpha  \nbeta\n');
    const server = await Server.start(['-c', '2048', '--cache-ram', '256M', '--api-key-file', file]);
    try {
        const messages = [{ role: 'user', content: words(300, 1) }];
        const ask = (key) => server.post('/v1/chat/completions', { messages, max_tokens: 1 }, { headers: { authorization: `Bearer ${key}` } });
        const reload = async (text) => {
            const seen = server.lines.length;
            await writeFile(file, text);
            server.child.kill('SIGHUP');
            return server.waitForLog((event) => event.event === 'keys' && server.lines.indexOf(event) >= seen);
        };
        assert.equal((await ask('alpha')).status, 200);
        assert.equal((await ask('gamma')).status, 401);
        const told = await reload('alpha\ngamma\n');
        assert.equal(told.count, 2);
        assert.equal((await ask('beta')).status, 401);
        assert.equal((await ask('gamma')).json.usage.prompt_tokens_details.cached_tokens, 0);
        assert.ok((await ask('alpha')).json.usage.prompt_tokens_details.cached_tokens > 0, 'a key that stays keeps its namespace');
        for (const wrong of ['', '# none\n\n']) {
            assert.equal((await reload(wrong)).level, 'error');
            assert.equal((await ask('gamma')).status, 200);
        }
        assert.doesNotMatch(server.log, /alpha|beta|gamma/);
    } finally {
        await server.stop();
    }
});

test('the service manager hears of loading, readiness and stopping', async () => {
    const path = join(folder, 'notify');
    const manager = spawn(process.env.CAIRN_TEST_PRINT_NOTIFY, [path], { stdio: ['pipe', 'pipe', 'inherit'] });
    let heard = '';
    const closed = new Promise((resolve) => manager.on('close', resolve));
    await new Promise((resolve) => manager.stdout.on('data', (piece) => {
        heard += piece;
        if (heard.includes('listening')) {
            resolve();
        }
    }));
    const server = await Server.start(['-c', '2048', '--cache-ram', '256M'], { NOTIFY_SOCKET: path });
    await server.stop();
    manager.stdin.end();
    await closed;
    const lines = heard.trim().split('\n');
    assert.ok(lines.some((line) => /^STATUS=loading the model: \d+ % EXTEND_TIMEOUT_USEC=\d+$/.test(line)), heard);
    assert.ok(lines.includes(`READY=1 STATUS=serving on port ${server.port}`), heard);
    assert.match(lines.at(-1), /^STOPPING=1 /);
});

test('a port that is taken is told before the model is loaded', async () => {
    const taken = net.createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address();
    const ended = await runProgram(['serve', '-m', 'no-such-model.gguf', '--port', String(port), '--no-cache-disk']);
    assert.equal(ended.code, 1);
    assert.match(ended.err, new RegExp(`port ${port} .*is taken`));
    assert.doesNotMatch(ended.err, /no-such-model/);
    taken.close();
});

test('the port file appears with readiness, and holds the port', async () => {
    const path = join(folder, 'port');
    const server = await Server.start(['-c', '2048', '--cache-ram', '256M', '--port-file', path]);
    assert.equal((await readFile(path, 'utf8')).trim(), String(server.port));
    await server.stop();
});

test('log lines are JSON objects with time, level and event, and hold nothing of a prompt or a key', async () => {
    const server = await Server.start(['-c', '2048', '--cache-ram', '256M', '-v']);
    await server.chat([{ role: 'user', content: 'xylophone-secret' }], { max_tokens: 2, cairn: { cache_salt: 'salted-secret' } });
    await server.post('/v1/chat/completions', '{"messages":[{"role":"user","content":"xylophone-secret"', { headers: { authorization: 'Bearer key-secret' } });
    await server.post('/v1/chat/completions', { messages: [{ role: 'wizard', content: 'xylophone-secret' }] });
    await server.stop();
    assert.ok(server.lines.length > 3);
    for (const line of server.log.trim().split('\n')) {
        const event = JSON.parse(line);
        assert.match(event.time, /^\d{4}-\d\d-\d\dT/);
        assert.match(event.level, /^(debug|info|warn|error)$/);
        assert.equal(typeof event.event, 'string');
    }
    assert.doesNotMatch(server.log, /secret/);
});

test('the unit for systemd is well formed and hardened, where systemd can look at it', async (context) => {
    if (spawnSync('systemd-analyze', ['--version']).error) {
        context.skip('systemd-analyze is not installed');
        return;
    }
    const text = await readFile(fileURLToPath(new URL('../../packaging/cairn.service', import.meta.url)), 'utf8');
    const unit = join(folder, 'cairn.service');
    await writeFile(unit, text.replaceAll('/usr/bin/cairn', BIN));
    const verified = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' });
    assert.equal(verified.stderr.split('\n').filter((line) => line.includes('cairn.service')).join('\n'), '');
    const secured = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit], { encoding: 'utf8' });
    assert.equal(secured.status, 0, secured.stdout);
});
