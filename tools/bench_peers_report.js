// bench_peers_report - the figures of tools/bench-peers as a page, JSON and plots. Judges each goal by the numbers alone.
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const bench = require('./bench_lib.js');

const { sum, median, geomean, fixed, thousands, markdownTable } = bench;
const TUNED = 'llama-tuned';
const FAST = 'cairn-fast';

// --- figures --------------------------------------------------------------------------------------------------------

const times = (run) => sum(run.answers.map((one) => one.total_ms));
const cpuTimes = (run) => sum(run.answers.map((one) => one.total_cpu_ms));

// Was the answer that of the reference? A written JSON holds the outcome, not the texts.
const isSame = (one, reference) => (one.same === undefined ? one.text === reference.text : one.same);

// Of one system in one scenario, over its runs.
function figures(scenario, key) {
    const runs = scenario.runs[key];
    // A request that broke before it told what it read counts for neither side of the ratio.
    const told = scenario.prompts.map((_, index) => index).filter((index) => runs.every((run) => Number.isFinite(run.answers[index].read ?? NaN)));
    const least = sum(told.map((index) => scenario.prompts[index].least));
    const reads = (run) => sum(told.map((index) => run.answers[index].read));
    const reference = scenario.runs[key.startsWith('cairn') ? 'cairn-off' : 'llama-cold'][0];
    const parting = scenario.prompts.map((one, index) => (one.parts ? index : -1)).filter((index) => index >= 0);
    const same = runs[0].answers.filter((one, index) => !one.error && isSame(one, reference.answers[index])).length;
    return {
        read: median(runs.map(reads)), least, ratio: median(runs.map(reads)) / least,
        whole: scenario.prompts.map((_, index) => runs.every((run) => !run.answers[index].error)), runs,
        seconds: runs.map((run) => times(run) / 1000), cpu_seconds: runs.map((run) => cpuTimes(run) / 1000), parting: parting.length,
        first_ms: runs.map((run) => sum(parting.map((index) => run.answers[index].first_ms ?? NaN))), // NaN: one was refused
        first_cpu_ms: runs.map((run) => sum(parting.map((index) => run.answers[index].first_cpu_ms))),
        first_median_ms: median(runs.map((run) => (parting.length ? median(parting.map((index) => run.answers[index].first_ms)) : NaN))),
        peak_mib: Math.max(...runs.map((run) => run.peak_mib)), same, count: runs[0].answers.length,
        errors: sum(runs.map((run) => run.answers.filter((one) => one.error).length)),
    };
}

// Ratios of the runs of two systems, pair by pair: a / b.
function pairs(a, b) {
    return a.map((value, index) => value / b[Math.min(index, b.length - 1)]);
}

// Sums over the requests that neither system broke, run by run: what a broken answer did not take isn't time won.
function bothWhole(a, b, field) {
    const indices = a.whole.map((one, index) => (one && b.whole[index] ? index : -1)).filter((index) => index >= 0);
    const sums = (one) => one.runs.map((run) => sum(indices.map((index) => run.answers[index][field])));
    return indices.length > 0 ? pairs(sums(a), sums(b)) : [];
}

const finite = (values) => values.filter((value) => Number.isFinite(value));

// Each system's cold requests beside those of the two llama-servers, pair by pair.
function coldRows(cold) {
    const rows = [];
    for (const { length, systems } of cold) {
        for (const baseKey of ['llama', 'llama-slots'].filter((key) => systems.some((one) => one.key === key))) {
            const base = systems.find((one) => one.key === baseKey).samples;
            for (const { key, samples } of systems.filter((one) => !one.key.startsWith('llama'))) {
                const ratio = (field) => bench.spread(finite(samples.map((one, index) => one[field] / base[index][field])));
                const mid = (list, field) => median(finite(list.map((one) => one[field])));
                rows.push({ base: baseKey, length: mid(samples, 'read'), about: length, key, first: ratio('first_ms'), token: ratio('token_ms'), firstCpu: ratio('first_cpu_ms'), tokenCpu: ratio('token_cpu_ms'),
                    first_ms: mid(samples, 'first_ms'), base_first_ms: mid(base, 'first_ms'), token_ms: mid(samples, 'token_ms'), base_token_ms: mid(base, 'token_ms') });
            }
        }
    }
    return rows;
}

// --- goals ----------------------------------------------------------------------------------------------------------

function judge(data, table, cold) {
    const over = (key) => sum(data.scenarios.map((s) => table[s.name][key].read)) / sum(data.scenarios.map((s) => table[s.name][key].least));
    const worst = (key) => data.scenarios.map((s) => [table[s.name][key].ratio, s.name]).sort((a, b) => b[0] - a[0])[0];
    const ratioOf = (field, a, b) => data.scenarios.filter((s) => !field.startsWith('first') || table[s.name][a].parting > 0)
        .map((s) => [median(pairs(table[s.name][a][field], table[s.name][b][field])), s.name]).filter((one) => one[0] > 0).sort((x, y) => x[0] - y[0]);
    const first = ratioOf('first_ms', TUNED, FAST);
    const totalOf = (field) => data.scenarios.map((s) => [bothWhole(table[s.name][TUNED], table[s.name][FAST], field), s.name]).filter((one) => one[0].length > 0)
        .map(([ratios, name]) => [median(ratios), name]).sort((x, y) => x[0] - y[0]);
    const total = totalOf('total_ms');
    const firstCpu = ratioOf('first_cpu_ms', TUNED, FAST);
    const totalCpu = totalOf('total_cpu_ms');
    const inCpu = (ratios) => `; in processor time ${fixed(geomean(ratios.map((one) => one[0])), 2)} times, lowest ${fixed(ratios[0][0], 2)} (${ratios[0][1]})`;
    const exact = ratioOf('seconds', 'cairn-exact', FAST).map((one) => one[0]);
    const memory = data.scenarios.map((s) => [table[s.name][FAST].peak_mib / table[s.name].llama.peak_mib, s.name]).sort((x, y) => y[0] - x[0]);
    const memoryTuned = data.scenarios.map((s) => [table[s.name][FAST].peak_mib / table[s.name][TUNED].peak_mib, s.name]).sort((x, y) => y[0] - x[0]);
    const [worstFast, worstName] = worst(FAST);
    const coldFast = cold.filter((row) => row.key === FAST && row.base === 'llama');
    const coldWorst = coldFast.length ? Math.max(...coldFast.flatMap((row) => finite([row.first.median, row.token.median]))) : NaN;
    const exactTotal = sum(data.scenarios.map((s) => median(table[s.name]['cairn-exact'].seconds))) / sum(data.scenarios.map((s) => median(table[s.name][FAST].seconds)));
    const exactCpu = sum(data.scenarios.map((s) => median(table[s.name]['cairn-exact'].cpu_seconds))) / sum(data.scenarios.map((s) => median(table[s.name][FAST].cpu_seconds)));
    const spoken = (ratios, cpu) => (ratios.length ? `${fixed(geomean(ratios.map((one) => one[0])), 2)} times; lowest ${fixed(ratios[0][0], 2)} (${ratios[0][1]})${inCpu(cpu)}` : 'not measured');
    const beats = (ratios, goal) => ratios.length > 0 && geomean(ratios.map((one) => one[0])) >= goal && ratios[0][0] >= 0.98;
    const word = (reached) => (reached ? 'reached' : 'missed');
    return [
        ['tokens read / least: at most 1.02 over all, 1.05 in each', `fast ${fixed(over(FAST), 3)} over all, worst ${fixed(worstFast, 3)} (${worstName}); exact ${fixed(over('cairn-exact'), 3)}, worst ${fixed(worst('cairn-exact')[0], 3)} ` +
            `(${worst('cairn-exact')[1]}); llama-server ${fixed(over('llama'), 3)}, tuned ${fixed(over(TUNED), 3)}`, word(over(FAST) <= 1.02 && worstFast <= 1.05)],
        ['time to first token of diverging requests: 1.5 times faster than tuned in the geometric mean, nowhere under 0.98', spoken(first, firstCpu), word(beats(first, 1.5))],
        ['total time of requests that neither broke: 1.2 times faster than tuned, nowhere under 0.98', spoken(total, totalCpu), word(beats(total, 1.2))],
        ['cold requests within 1 % of llama-server', coldFast.length ? coldFast.map((row) => `${thousands(row.length)} tokens: prefill ${fixed(row.first.median, 3)}, a token of the answer ${fixed(row.token.median, 3)} (in processor time ${fixed(row.firstCpu.median, 3)}, ${fixed(row.tokenCpu.median, 3)})`).join('; ') : 'not measured',
            coldFast.length ? word(coldWorst <= 1.01) : '-'],
        ['peak memory at most llama-server\'s with the same cache budget', `highest ${fixed(memory[0][0], 2)} times that of llama-server (${memory[0][1]}), ${fixed(memoryTuned[0][0], 2)} times that of the tuned one (${memoryTuned[0][1]})`,
            word(memory[0][0] <= 1)],
        ['exact costs at most 10 % more than fast', `${fixed(exactTotal, 3)} over all; ${fixed(Math.min(...exact), 3)} to ${fixed(Math.max(...exact), 3)}; in processor time ${fixed(exactCpu, 3)} over all`, word(exactTotal <= 1.10)],
    ];
}

// --- the page -------------------------------------------------------------------------------------------------------

function scenarioTable(data, table, head, cell) {
    return markdownTable([head, ...data.systems.map((one) => one.name)],
        data.scenarios.map((s) => [s.name, ...data.systems.map((system) => cell(table[s.name][system.key], s))]));
}

function page(data, table, cold, goals, plots, growth) {
    const systems = data.systems.map((one) => `    ${one.command}`).join('\n');
    const errors = data.systems.map((system) => [system.name, sum(data.scenarios.map((s) => table[s.name][system.key].errors))]).filter((one) => one[1] > 0);
    const left = sum(data.scenarios.map((s) => s.left_out));
    const out = [
        '# Side by side with llama-server', '',
        `Made by \`${data.command}\` in ${data.seconds} s, ${data.machine.date} UTC. Don't edit: run it again.`, '',
        `${bench.machineText(data.machine)} Model: ${data.model}. Both servers use the same libllama and ggml libraries (llama-server is compiled from the server ` +
            'sources of the same bundle), the same threads, context and cache memory, fresh servers for each scenario, one request at a time over HTTP, greedy.', '',
        systems.trimEnd(), '',
        '## Goals', '', markdownTable(['goal', 'measured', ''], goals), '',
        ...(data.note ? [data.note, ''] : []),
        '## Tokens read / least', '',
        '`least` is what a perfect cache would have to read: the prompt without the longest prefix it shares with any prompt before. Read is what each server reports as ' +
            '`timings.prompt_n`. Histories hold written answers, so nothing that a server generated itself comes back.', '',
        scenarioTable(data, table, 'scenario', (f) => fixed(f.ratio, 3)), '', `![tokens read](${plots.ratio})`, '',
        '## Time to first token of diverging requests, median in ms', '',
        'Requests that part from every earlier prompt before its end.', '',
        scenarioTable(data, table, 'scenario', (f) => (f.parting ? fixed(f.first_median_ms, 0) : '-')), '', `![time to first token](${plots.first})`, '',
        '## Total time in s', '', 'Median over the runs; cold systems ran once.', '',
        scenarioTable(data, table, 'scenario', (f) => fixed(median(f.seconds), 2)), '',
        '## Processor time in s', '', 'Of the server, all threads. It changes less than the clock does when other programs want the cores.', '',
        scenarioTable(data, table, 'scenario', (f) => fixed(median(f.cpu_seconds), 2)), '',
        '## Peak memory in MiB', '', scenarioTable(data, table, 'scenario', (f) => fixed(f.peak_mib, 0)), '',
        '## Answers equal to those without a cache', '',
        `Of ${data.options.answer_tokens} greedy tokens each; cairn against cairn without a cache, llama-server against llama-server without one. With random weights the two best tokens are ` +
            'often close, so that the last bits decide: exact must be equal, others may differ.', '',
        scenarioTable(data, table, 'scenario', (f) => `${f.same}/${f.count}`), '',
    ];
    if (errors.length > 0) {
        out.push(`Requests that ended with an error: ${errors.map(([name, count]) => `${name} ${count}`).join(', ')}.`, '');
    }
    if (left > 0) {
        out.push(`${left} recorded requests were longer than the context and were left out.`, '');
    }
    if (cold.length > 0) {
        out.push('## Cold requests, paired', '', 'New prompts, in turn (ABBA), plain completions of 64 tokens; ratio to llama-server in the same round: median, lowest and highest. Below 1 is faster.', '',
            markdownTable(['system', 'against', 'prompt tokens', 'llama-server ms', 'ms', 'prefill ratio', 'ms a token (llama-server)', 'decode ratio', 'in processor time: prefill, decode'], cold.map((row) => [
                data.systems.find((one) => one.key === row.key).name, data.systems.find((one) => one.key === row.base).name, thousands(row.length), fixed(row.base_first_ms, 1), fixed(row.first_ms, 1), bench.spreadText(row.first),
                `${fixed(row.token_ms, 3)} (${fixed(row.base_token_ms, 3)})`, bench.spreadText(row.token), `${fixed(row.firstCpu.median, 3)}, ${fixed(row.tokenCpu.median, 3)}`])), '');
    }
    if ((data.failures || []).length > 0) {
        out.push(`Not measured: ${data.failures.join('; ')}.`, '');
    }
    out.push('## Scenarios', '', ...data.scenarios.map((s) => `- **${s.name}**: ${s.about}; ${s.prompts.length} requests, ${thousands(sum(s.prompts.map((one) => one.tokens)))} prompt tokens, ` +
        `${thousands(sum(s.prompts.map((one) => one.least)))} of them new.`), '');
    if (growth) {
        out.push('## Growth', '', growth, '');
    }
    return `${out.join('\n').replace(/\n{3,}/g, '\n\n').trimEnd()}\n`;
}

/* Write the page, JSON and plots into `dir`. Gives { summary, files }. */
function write(data, dir, name) {
    const table = Object.fromEntries(data.scenarios.map((s) => [s.name, Object.fromEntries(data.systems.map((system) => [system.key, figures(s, system.key)]))]));
    const cold = coldRows(data.cold);
    const goals = judge(data, table, cold);
    const plots = { ratio: `${name}-read.svg`, first: `${name}-first-token.svg` };
    const shown = data.systems.filter((one) => !one.cold);
    const groups = data.scenarios.map((s) => s.name);
    const files = [];
    const put = (file, text) => {
        files.push(path.join(dir, file));
        fs.writeFileSync(path.join(dir, file), text);
    };
    put(plots.ratio, bench.plotBars({ title: 'Tokens read / least', yLabel: 'read / least (cut at 4)', groups, yMax: 4,
        series: shown.map((system) => ({ name: system.name, values: groups.map((group) => table[group][system.key].ratio) })) }));
    put(plots.first, bench.plotBars({ title: 'Time to first token of diverging requests', yLabel: 'ms, median', groups,
        series: shown.map((system) => ({ name: system.name, values: groups.map((group) => table[group][system.key].first_median_ms) })) }));
    const noteFile = path.join(dir, `${name}-note.md`); // what people found out about the figures; kept between runs
    const noted = { ...data, note: fs.existsSync(noteFile) ? fs.readFileSync(noteFile, 'utf8').trim() : '' };
    const growthFile = path.join(dir, 'growth.md');
    put(`${name}.md`, page(noted, table, cold, goals, plots, name === 'peers' && fs.existsSync(growthFile) ? 'See [growth.md](growth.md).' : null));
    put(`${name}.json`, `${JSON.stringify(compact(data))}\n`);
    const summary = [bench.textTable(['scenario', ...shown.map((one) => one.name)], data.scenarios.map((s) => [s.name, ...shown.map((system) => `${fixed(table[s.name][system.key].ratio, 2)} ${fixed(median(table[s.name][system.key].seconds), 1)} s`)])),
        '', ...goals.map(([goal, measured, reached]) => `${reached.padEnd(8)} ${goal}: ${measured}`)].join('\n');
    return { summary, files };
}

// The JSON without the answers' texts: whether they were equal is kept.
function compact(data) {
    const slim = (one, same) => ({ read: one.read, reused: one.reused, first_ms: Number(fixed(one.first_ms, 2)), total_ms: Number(fixed(one.total_ms, 2)), first_cpu_ms: Number(fixed(one.first_cpu_ms, 2)), total_cpu_ms: Number(fixed(one.total_cpu_ms, 2)), same, ...(one.error ? { error: one.error } : {}) });
    return { ...data, scenarios: data.scenarios.map((s) => ({ ...s, runs: Object.fromEntries(Object.entries(s.runs).map(([key, runs]) => [key, runs.map((run) => ({ peak_mib: Math.round(run.peak_mib),
        answers: run.answers.map((one, index) => slim(one, isSame(one, s.runs[key.startsWith('cairn') ? 'cairn-off' : 'llama-cold'][0].answers[index]))) }))])) })) };
}

module.exports = { write };
