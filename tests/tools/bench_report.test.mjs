// The benchmarks' own arithmetic: the same seed makes the same requests, and the page judges goals by the numbers.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';

const require = createRequire(import.meta.url);
const bench = require('../../tools/bench_lib.js');
const { makeScenarios } = require('../../tools/bench_scenarios.js');
const report = require('../../tools/bench_peers_report.js');

test('the same seed makes the same requests, another seed others', () => {
    const text = (seed) => JSON.stringify(makeScenarios({ seed, scale: 0.1 }).filter((one) => !one.recorded));
    assert.equal(text(3), text(3));
    assert.notEqual(text(3), text(4));
});

test('an agent that keeps five observations parts five rounds back', () => {
    const [one] = makeScenarios({ scale: 0.1, only: ['five-observations'] });
    const [before, after] = [one.requests[7].body.messages, one.requests[8].body.messages];
    const differs = before.findIndex((message, index) => JSON.stringify(message) !== JSON.stringify(after[index]));
    assert.equal(before[differs].role, 'tool');
    assert.equal(after[differs].content, '(removed)');
    assert.equal((before.length - 1 - differs) / 2, 4);
});

test('medians, spreads and geometric means', () => {
    assert.equal(bench.median([3, 1, 2]), 2);
    assert.equal(bench.median([4, 1, 2, 3]), 2.5);
    assert.deepEqual(bench.spread([2, 9, 4]), { median: 4, low: 2, high: 9, n: 3 });
    assert.ok(Math.abs(bench.geomean([1, 4]) - 2) < 1e-12);
});

// Two requests of 100 and 120 tokens, the second parting after 80; `read` of the second and times as given.
function dataOf(systems) {
    const answer = (read, ms) => ({ read, reused: 0, first_ms: ms, total_ms: ms + 10, first_cpu_ms: ms, total_cpu_ms: ms + 9, text: 'x', error: null });
    const run = ([read, ms, peak]) => [{ peak_mib: peak, answers: [answer(100, 100), answer(read, ms)] }];
    return {
        command: 'make bench-peers', model: 'm.gguf', seconds: 1, options: { answer_tokens: 8 }, cold: [],
        machine: { processor: 'p', cores: 2, memory_gib: 1, kernel: 'k', cairn: 'c', commit: 'x', load_at_start: [0, 0, 0], date: 'd' },
        systems: Object.keys(systems).map((key) => ({ key, name: key, cold: key === 'llama-cold' || key === 'cairn-off', command: key })),
        scenarios: [{ name: 's', about: 'a', recorded: false, left_out: 0, prompts: [{ tokens: 100, least: 100, parts: false }, { tokens: 120, least: 40, parts: true }],
            runs: Object.fromEntries(Object.entries(systems).map(([key, values]) => [key, run(values)])) }],
    };
}

function summaryOf(fast) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cairn-report-'));
    try {
        const written = report.write(dataOf({ llama: [120, 120, 100], 'llama-tuned': [60, 60, 110], 'cairn-fast': fast, 'cairn-exact': [42, 31, 90], 'llama-cold': [120, 120, 80], 'cairn-off': [120, 120, 80] }), dir, 'peers');
        assert.ok(written.files.every((file) => fs.statSync(file).size > 0));
        return written.summary;
    } finally {
        fs.rmSync(dir, { recursive: true });
    }
}

test('goals that are reached are said to be, with the numbers', () => {
    const summary = summaryOf([40, 30, 90]);
    assert.match(summary, /reached +tokens read .*fast 1\.000 over all/);
    assert.match(summary, /reached +time to first token .*2\.00 times/);
    assert.match(summary, /reached +peak memory .*0\.90 times/);
});

test('goals that are missed are said to be', () => {
    const summary = summaryOf([120, 90, 150]);
    assert.match(summary, /missed +tokens read .*fast 1\.571 over all/);
    assert.match(summary, /missed +time to first token .*0\.67 times/);
    assert.match(summary, /missed +peak memory .*1\.50 times/);
});

test('plots hold every point and no number that is none', () => {
    const svg = bench.plotLogLog({ title: 't', xLabel: 'x', yLabel: 'y', series: [{ name: 'a<b', points: [[1, 0.001], [1000, 2], [10000, 30]] }] });
    assert.equal(svg.match(/<circle/g).length, 3);
    assert.match(svg, /a&lt;b/);
    assert.doesNotMatch(svg, /NaN|Infinity/);
});
