// bench_lib - what tools/bench and tools/bench-peers share: servers that are started and stopped, streamed requests
// with times, medians with their spread, the description of the machine, tables, and log-log plots.
'use strict';
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');
const CAIRN = process.env.CAIRN || path.join(ROOT, 'build/release/bin/cairn');
const started = new Set();

function fail(text) {
    for (const child of started) {
        child.kill('SIGKILL');
    }
    console.error(`bench: FAILED: ${text}`);
    process.exit(1);
}
for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => fail('interrupted'));
}

function progress(text) {
    if (process.stderr.isTTY) {
        process.stderr.write(`\r\x1b[K${text}`);
    }
}

// --- numbers --------------------------------------------------------------------------------------------------------

function median(values) {
    const sorted = [...values].sort((a, b) => a - b);
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

const sum = (values) => values.reduce((a, b) => a + b, 0);
const geomean = (values) => Math.exp(sum(values.map(Math.log)) / values.length);

// { median, low, high, n }
function spread(values) {
    return { median: median(values), low: Math.min(...values), high: Math.max(...values), n: values.length };
}

const fixed = (value, digits) => (Number.isFinite(value) ? value.toFixed(digits) : '-');
const thousands = (value) => Math.round(value).toLocaleString('en-US');

// "1.003 (0.990 to 1.021, 8 pairs)"
function spreadText(s, digits = 3) {
    return `${fixed(s.median, digits)} (${fixed(s.low, digits)} to ${fixed(s.high, digits)}, ${s.n} pairs)`;
}

// Same seed, same numbers.
function randomOf(seed) {
    let state = (Math.imul(seed, 2654435761) ^ 0x9e3779b9) >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = Math.imul(state ^ (state >>> 15), state | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

// --- machine --------------------------------------------------------------------------------------------------------

function describeMachine() {
    const cpu = os.cpus();
    const version = spawnSync(CAIRN, ['--version'], { encoding: 'utf8' });
    const commit = spawnSync('git', ['-C', ROOT, 'rev-parse', '--short', 'HEAD'], { encoding: 'utf8' });
    return {
        processor: cpu[0].model.trim(), cores: cpu.length, memory_gib: Math.round(os.totalmem() / 2 ** 30),
        kernel: `${os.type()} ${os.release()}`, node: process.version,
        cairn: (version.stdout || '').trim().split('\n').join('; '), commit: (commit.stdout || '').trim(),
        load_at_start: os.loadavg().map((value) => Number(value.toFixed(2))), date: new Date().toISOString().slice(0, 16),
    };
}

function machineText(m) {
    return `${m.processor}, ${m.cores} cores, ${m.memory_gib} GiB, ${m.kernel}. ${m.cairn} (commit ${m.commit}). ` +
        `Load when it began: ${m.load_at_start[0]}.`;
}

// --- servers --------------------------------------------------------------------------------------------------------

function freePort() {
    return new Promise((resolve, reject) => {
        const server = net.createServer();
        server.on('error', reject);
        server.listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

// Peak memory so far, in MiB; 0 where the system doesn't tell.
function peakMemory(pid) {
    try {
        return Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;
    } catch {
        return 0;
    }
}

// Processor time of all threads of a process so far, in ms; NaN where the system doesn't tell.
function processorTime(pid) {
    try {
        return fs.readdirSync(`/proc/${pid}/task`).reduce((all, task) => all + Number(fs.readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1e6, 0);
    } catch {
        return NaN;
    }
}

class Server {
    // Start a program and wait until GET /health answers 200. `args` is a function of the port.
    static async start(program, args, options = {}) {
        const server = new Server();
        server.port = await freePort();
        server.args = args(server.port);
        server.child = spawn(program, server.args, { cwd: options.cwd, env: { ...process.env, ...options.env }, stdio: ['ignore', 'pipe', 'pipe'] });
        started.add(server.child);
        server.log = '';
        const keep = (piece) => { server.log = (server.log + piece).slice(-20000); };
        server.child.stdout.on('data', keep);
        server.child.stderr.on('data', keep);
        server.over = null;
        server.ended = new Promise((resolve) => {
            server.child.on('error', (error) => resolve(error.message));
            server.child.on('close', (code) => resolve(`exit code ${code}`));
        }).then((how) => { server.over = how; });
        server.agent = new http.Agent({ keepAlive: false, maxSockets: 64 });
        for (let tries = 0; ; tries++) {
            if (server.over !== null || tries > 6000) {
                fail(`${path.basename(program)} ${server.args.join(' ')}: did not start (${server.over})\n${server.log}`);
            }
            const answer = await server.send('GET', '/health').catch(() => null);
            if (answer && answer.status === 200) {
                return server;
            }
            await new Promise((resolve) => setTimeout(resolve, 20));
        }
    }

    static cairn(model, { context, threads, args = [] }) {
        return Server.start(CAIRN, (port) => ['serve', '-m', model, '--port', String(port), '-c', String(context), '-t', String(threads),
            '--force', ...args]);
    }

    send(method, route, body) {
        return new Promise((resolve, reject) => {
            const text = body === undefined ? undefined : JSON.stringify(body);
            const request = http.request({ host: '127.0.0.1', port: this.port, method, path: route, agent: this.agent,
                headers: text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) } }, (response) => {
                const pieces = [];
                response.on('data', (piece) => pieces.push(piece));
                response.on('error', reject);
                response.on('end', () => resolve({ status: response.statusCode, text: Buffer.concat(pieces).toString() }));
            });
            request.on('error', reject);
            request.end(text);
        });
    }

    async post(route, body) {
        const answer = await this.send('POST', route, body);
        if (answer.status !== 200) {
            throw new Error(`${route}: ${answer.status}: ${answer.text.slice(0, 400)}`);
        }
        return JSON.parse(answer.text);
    }

    // A streamed request. Gives { status, events, times, first_ms, total_ms, first_cpu_ms, total_cpu_ms }: times from the request's last byte
    // sent, and the server's processor time; `first` is the first event, which both servers send when the prompt has been read.
    stream(route, body) {
        return new Promise((resolve, reject) => {
            const text = JSON.stringify({ ...body, stream: true });
            const begun = process.hrtime.bigint();
            const since = () => Number(process.hrtime.bigint() - begun) / 1e6;
            const cpuBegun = processorTime(this.child.pid);
            const cpu = () => processorTime(this.child.pid) - cpuBegun;
            let first = null;
            let firstCpu = NaN;
            let rest = '';
            const events = [];
            const times = [];
            const request = http.request({ host: '127.0.0.1', port: this.port, method: 'POST', path: route, agent: this.agent,
                headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), 'anthropic-version': '2023-06-01' } }, (response) => {
                response.setEncoding('utf8');
                response.on('data', (piece) => {
                    rest += piece;
                    let end;
                    while ((end = rest.indexOf('\n')) >= 0) {
                        const line = rest.slice(0, end).trim();
                        rest = rest.slice(end + 1);
                        if (line.startsWith('data:') && first === null) {
                            first = since();
                            firstCpu = cpu();
                        }
                        if (line.startsWith('data:') && line !== 'data: [DONE]') {
                            times.push(since());
                            try {
                                events.push(JSON.parse(line.slice(5)));
                            } catch {
                                events.push({ bad: line });
                            }
                        } else if (response.statusCode !== 200 && line) {
                            events.push({ error_text: line });
                        }
                    }
                });
                response.on('error', reject);
                response.on('end', () => resolve({ status: response.statusCode, events, times, first_ms: first, total_ms: since(), first_cpu_ms: firstCpu, total_cpu_ms: cpu(), rest }));
            });
            request.on('error', reject);
            request.end(text);
        });
    }

    peak() {
        return peakMemory(this.child.pid);
    }

    async stop() {
        this.agent.destroy();
        this.child.kill('SIGTERM');
        const timer = setTimeout(() => this.child.kill('SIGKILL'), 15000);
        await this.ended;
        clearTimeout(timer);
        started.delete(this.child);
    }
}

// Stop what a failed measurement left running.
async function stopAll() {
    for (const child of started) {
        child.kill('SIGKILL');
        started.delete(child);
    }
}

// --- models and programs ----------------------------------------------------------------------------------------------

// A synthetic model by size, made once in build/models; or the file that MODEL names.
function findModel(size) {
    const file = path.join(ROOT, `build/models/qwen35-${size}.gguf`);
    if (!fs.existsSync(file)) {
        fs.mkdirSync(path.dirname(file), { recursive: true });
        console.error(`writing the synthetic model ${path.basename(file)}`);
        const made = spawnSync(CAIRN, ['model', 'synth', '--arch', 'qwen35', '--size', size, '--seed', '1', '-o', file], { encoding: 'utf8' });
        if (made.status !== 0) {
            fail(`the synthetic model can't be written: ${made.stderr || made.error}`);
        }
    }
    return file;
}

// --- output -----------------------------------------------------------------------------------------------------------

// A table in Markdown; the first column is text, the others are numbers.
function markdownTable(heads, rows) {
    const line = (cells) => `| ${cells.join(' | ')} |`;
    return [line(heads), line(heads.map((_, column) => (column === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

function textTable(heads, rows) {
    const widths = heads.map((head, column) => Math.max(head.length, ...rows.map((row) => String(row[column]).length)));
    const line = (cells) => cells.map((cell, column) => (column === 0 ? String(cell).padEnd(widths[column]) : String(cell).padStart(widths[column]))).join('  ').trimEnd();
    return [line(heads), ...rows.map(line)].join('\n');
}

const COLOURS = ['#1b6ca8', '#c8553d', '#3a7d44', '#7b4b94', '#b58900', '#444444'];
const escapeXml = (text) => String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

// A log-log plot as SVG. series: [{ name, points: [[x, y], ...] }]
function plotLogLog({ title, xLabel, yLabel, series }) {
    const [width, height, left, right, top, bottom] = [760, 440, 80, 190, 40, 60];
    const xs = series.flatMap((one) => one.points.map((point) => point[0]));
    const ys = series.flatMap((one) => one.points.map((point) => point[1])).filter((y) => y > 0);
    const range = (values) => [Math.floor(Math.log10(Math.min(...values)) + 1e-9), Math.max(Math.ceil(Math.log10(Math.max(...values)) - 1e-9), Math.floor(Math.log10(Math.min(...values)) + 1e-9) + 1)];
    const [x0, x1] = range(xs);
    const [y0, y1] = range(ys);
    const px = (x) => left + (Math.log10(x) - x0) / (x1 - x0) * (width - left - right);
    const py = (y) => height - bottom - (Math.log10(y) - y0) / (y1 - y0) * (height - top - bottom);
    const out = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="12">`,
        `<rect width="${width}" height="${height}" fill="white"/>`, `<text x="${left}" y="22" font-size="15">${escapeXml(title)}</text>`];
    for (let e = x0; e <= x1; e++) {
        const x = px(10 ** e).toFixed(1);
        out.push(`<line x1="${x}" y1="${top}" x2="${x}" y2="${height - bottom}" stroke="#ddd"/>`, `<text x="${x}" y="${height - bottom + 18}" text-anchor="middle">${(10 ** e).toLocaleString('en-US')}</text>`);
    }
    for (let e = y0; e <= y1; e++) {
        const y = py(10 ** e).toFixed(1);
        out.push(`<line x1="${left}" y1="${y}" x2="${width - right}" y2="${y}" stroke="#ddd"/>`, `<text x="${left - 8}" y="${Number(y) + 4}" text-anchor="end">${Number((10 ** e).toPrecision(1)).toLocaleString('en-US', { maximumFractionDigits: 9 })}</text>`);
    }
    out.push(`<text x="${(left + width - right) / 2}" y="${height - 18}" text-anchor="middle">${escapeXml(xLabel)}</text>`,
        `<text transform="translate(18 ${(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeXml(yLabel)}</text>`);
    series.forEach((one, index) => {
        const colour = COLOURS[index % COLOURS.length];
        const points = one.points.filter((point) => point[1] > 0).map((point) => `${px(point[0]).toFixed(1)},${py(point[1]).toFixed(1)}`);
        out.push(`<polyline fill="none" stroke="${colour}" stroke-width="2" points="${points.join(' ')}"/>`);
        points.forEach((point) => out.push(`<circle cx="${point.split(',')[0]}" cy="${point.split(',')[1]}" r="3" fill="${colour}"/>`));
        out.push(`<text x="${width - right + 12}" y="${top + 16 + index * 20}" fill="${colour}">${escapeXml(one.name)}</text>`);
    });
    out.push('</svg>');
    return `${out.join('\n')}\n`;
}

// Grouped bars as SVG. groups: names; series: [{ name, values }] with one value a group.
function plotBars({ title, yLabel, groups, series, yMax }) {
    const [left, right, top, bottom, step] = [60, 190, 40, 130, Math.max(46, series.length * 10 + 14)];
    const width = left + right + groups.length * step;
    const height = 460;
    const most = yMax || Math.max(...series.flatMap((one) => one.values.filter(Number.isFinite))) * 1.05;
    const py = (y) => height - bottom - Math.min(y, most) / most * (height - top - bottom);
    const out = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" font-family="sans-serif" font-size="12">`,
        `<rect width="${width}" height="${height}" fill="white"/>`, `<text x="${left}" y="22" font-size="15">${escapeXml(title)}</text>`];
    for (let i = 0; i <= 5; i++) {
        const y = py(most * i / 5).toFixed(1);
        out.push(`<line x1="${left}" y1="${y}" x2="${width - right}" y2="${y}" stroke="#ddd"/>`, `<text x="${left - 8}" y="${Number(y) + 4}" text-anchor="end">${(most * i / 5).toPrecision(2)}</text>`);
    }
    out.push(`<text transform="translate(16 ${(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeXml(yLabel)}</text>`);
    groups.forEach((group, g) => {
        const x = left + g * step + 7;
        series.forEach((one, index) => {
            if (Number.isFinite(one.values[g])) {
                const y = py(one.values[g]);
                out.push(`<rect x="${x + index * 10}" y="${y.toFixed(1)}" width="9" height="${(height - bottom - y).toFixed(1)}" fill="${COLOURS[index % COLOURS.length]}"/>`);
            }
        });
        out.push(`<text transform="translate(${x + series.length * 5} ${height - bottom + 10}) rotate(-45)" text-anchor="end">${escapeXml(group)}</text>`);
    });
    series.forEach((one, index) => out.push(`<text x="${width - right + 12}" y="${top + 16 + index * 20}" fill="${COLOURS[index % COLOURS.length]}">${escapeXml(one.name)}</text>`));
    out.push('</svg>');
    return `${out.join('\n')}\n`;
}

module.exports = { ROOT, CAIRN, Server, stopAll, fail, progress, median, sum, geomean, spread, spreadText, fixed, thousands, randomOf, describeMachine, processorTime,
    machineText, findModel, markdownTable, textTable, plotLogLog, plotBars };
