// The program on the command line: clear messages, something to do next, and exit codes.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { MODEL, Server, runProgram } from './harness.mjs';

let folder;

before(async () => {
    folder = await mkdtemp(`${process.env.TMPDIR ?? '/tmp'}/cairn-cli-`);
});

after(async () => {
    await rm(folder, { recursive: true });
});

async function fails(args, code, pattern, env = {}) {
    const end = await runProgram(args, { env });
    assert.equal(end.code, code, `${args.join(' ')}\n${end.out}${end.err}`);
    assert.match(end.err, pattern);
    assert.equal(end.out, '');
}

test('help of every command names its options and variables', async () => {
    for (const args of [['--help'], ['serve', '--help'], ['verify', '--help'], ['model', 'synth', '--help']]) {
        const end = await runProgram(args);
        assert.equal(end.code, 0);
        assert.match(end.out, /usage: cairn/);
        assert.equal(end.err, '');
    }
    const { out } = await runProgram(['serve', '-h']);
    for (const option of ['--model FILE', '--host', '--port', '--ctx-size', '--threads', '--slots', '--cache-ram', '--no-cache', '--resume', '--verbose', 'CAIRN_CACHE_RAM']) {
        assert.ok(out.includes(option), option);
    }
    assert.ok(out.split('\n').every((line) => line.length <= 100));
});

test('the version names the libllama build', async () => {
    const end = await runProgram(['--version']);
    assert.equal(end.code, 0);
    assert.match(end.out, /^cairn \d+\.\d+\.\d+\n.*libllama/);
});

test('wrong calls end with 2 and point to help', async () => {
    await fails([], 2, /command is missing/);
    await fails(['sing'], 2, /no command "sing"; there are serve, .*simulate, version\n/);
    await fails(['serve'], 2, /model is missing: -m FILE[^]*--help/);
    await fails(['serve', '-m', MODEL, '--port', '99999'], 2, /--port 99999/);
    await fails(['serve', '-m', MODEL, '--port'], 2, /--port/);
    await fails(['serve', '-m', MODEL, '--colour', 'red'], 2, /--colour/);
    await fails(['serve', '-m', MODEL, '--resume', 'quick'], 2, /fast\|exact/);
    await fails(['serve', '-m', MODEL, '--cache-ram', 'lots'], 2, /--cache-ram lots.*512M/);
    await fails(['serve', '-m', MODEL, 'extra'], 2, /unexpected argument/);
    await fails(['serve', '-m', MODEL], 2, /CAIRN_PORT x/, { CAIRN_PORT: 'x' });
    await fails(['model', 'synth'], 2, /-o FILE/);
    await fails(['model', 'synth', '--arch', 'nothing', '-o', `${folder}/x.gguf`], 2, /nothing/);
    await fails(['verify'], 2, /-m FILE/);
    for (const args of [['verify', '-m', MODEL], ['top'], ['model', 'synth', '-o', `${folder}/x.gguf`]]) {
        await fails([...args, 'extra'], 2, /unexpected argument "extra"[^]*--help/);
    }
});

test('model files that can not be used are told from each other', async () => {
    await fails(['serve', '-m', `${folder}/missing.gguf`, '--port', '0'], 1, /missing\.gguf[^]*-m/);
    await fails(['serve', '-m', folder, '--port', '0'], 1, /folder/);
    await writeFile(`${folder}/text.gguf`, 'this is no model, only text that is long enough to be read as a header');
    await fails(['serve', '-m', `${folder}/text.gguf`, '--port', '0'], 1, /GGUF/);
    const bytes = await readFile(MODEL);
    await writeFile(`${folder}/cut.gguf`, bytes.subarray(0, Math.floor(bytes.length / 2)));
    await fails(['serve', '-m', `${folder}/cut.gguf`, '--port', '0'], 1, /cut\.gguf|damaged|short|GGUF/);
    const strange = Buffer.from(bytes);
    const at = strange.indexOf('general.architecture') + 'general.architecture'.length + 4 + 8;
    strange.write('zzzz', at, 'latin1');
    await writeFile(`${folder}/strange.gguf`, strange);
    await fails(['serve', '-m', `${folder}/strange.gguf`, '--port', '0'], 1, /architecture/);
});

test('what can not fit into memory is refused before loading', async () => {
    await fails(['serve', '-m', MODEL, '--port', '0', '--cache-ram', '900T'], 1, /machine has[^]*--cache-ram/);
});

test('options come from the environment, and the command line wins', async () => {
    const server = await Server.start(['-c', '1024'], { CAIRN_CTX_SIZE: '2048', CAIRN_ALIAS: 'from-env', CAIRN_CACHE_RAM: '64M', CAIRN_NO_CACHE: '0' });
    try {
        assert.equal((await server.get('/props')).json.default_generation_settings.n_ctx, 1024);
        assert.equal((await server.get('/v1/models')).json.data[0].id, 'from-env');
        assert.equal((await server.get('/cairn/cache')).json.bytes.limit, 64 << 20);
        assert.match(server.started(), /memory +at most .*, cache 64 MiB,/);
    } finally {
        await server.stop();
    }
});

test('the port file has the port', async () => {
    const server = await Server.start(['-c', '1024', '--cache-ram', '64M', '--port-file', `${folder}/port`]);
    try {
        assert.equal(Number(await readFile(`${folder}/port`, 'utf8')), server.port);
    } finally {
        await server.stop();
    }
});

test('a synthetic model is the same for the same seed', async () => {
    for (const name of ['a', 'b']) {
        const end = await runProgram(['model', 'synth', '--arch', 'qwen35', '--size', 'tiny', '--seed', '5', '-o', `${folder}/${name}.gguf`]);
        assert.equal(end.code, 0, end.err);
        assert.match(end.out, /wrote/);
    }
    assert.ok((await readFile(`${folder}/a.gguf`)).equals(await readFile(`${folder}/b.gguf`)));
    assert.ok((await stat(`${folder}/a.gguf`)).size <= 25e6);
});

test('verify proves exactness on this machine, and its control differs', async () => {
    const end = await runProgram(['verify', '-m', MODEL, '--json', '--tokens', '1100', '--answer', '6', '-t', '1']);
    assert.equal(end.code, 0, end.out + end.err);
    const report = JSON.parse(end.out);
    assert.equal(report.passed, true);
    const exact = report.cases.filter((one) => one.mode === 'exact' && !one.control);
    assert.ok(exact.length >= 7);
    assert.ok(exact.every((one) => one.bit_equal));
    assert.ok(exact.filter((one) => one.reused > 0).length >= 6);
    const control = report.cases.filter((one) => one.control);
    assert.equal(control.length, 1);
    assert.ok(control[0].largest_difference > 0.01);
    assert.ok(report.cases.some((one) => one.mode === 'fast' && one.reused > 0));
});

// Docs: decisions/0014-work-blocks.md. The loader tells which operator each library got.
test("ggml's work buffer comes from the program's operator new[]", async (t) => {
    const env = { LD_BIND_NOW: '1', LD_DEBUG: 'bindings', LD_DEBUG_OUTPUT: `${folder}/bindings` };
    const end = await runProgram(['verify', '-m', MODEL, '--tokens', '200', '--answer', '1', '-t', '1'], { env });
    assert.equal(end.code, 0, end.err);
    const told = (await readdir(folder)).filter((name) => name.startsWith('bindings.'));
    const text = (await Promise.all(told.map((name) => readFile(`${folder}/${name}`, 'latin1')))).join('');
    if (!/libggml-cpu[^ ]*\.so/.test(text)) {
        return t.skip('libggml-cpu is part of the program');
    }
    for (const symbol of ['_Znam', '_ZdaPv']) { // operator new[] and delete[]
        const bound = text.split('\n').filter((line) => /libggml-cpu[^ ]*\.so/.test(line) && line.includes(`\`${symbol}'`));
        assert.ok(bound.length > 0, symbol);
        assert.deepEqual(bound.filter((line) => !/ to [^ ]*\/cairn \[/.test(line)), []);
    }
});
