// live - slots at work, tiers against their caps, and the last minutes as curves.
import { h } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import htm from 'htm';
import uPlot from 'uplot';
import { bytes, count, some } from './words.js';

const html = htm.bind(h);
export const SAMPLES_MAX = 600;
const SPAN_MIN_S = 60;
// Steps between the numbers of an axis: of counts, of bytes.
const COUNT_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((n) => n * 10 ** power)).flat();
const BYTE_STEPS = Array.from({ length: 48 }, (_, power) => 2 ** power);

function Slot({ number, work, limit }) {
    if (!work) {
        return html`<div class="pair"><span>Slot ${number}</span><span class="quiet">free</span><span class="bar thin"></span></div>`;
    }
    if (work.others) {
        return html`<div class="pair"><span>Slot ${number}</span><span class="quiet">busy for another key</span><span class="bar thin"></span></div>`;
    }
    const reading = work.answer_tokens === 0;
    const seconds = Math.max(0.001, work.phase_ms / 1000);
    const speed = reading ? (work.done - work.reused) / seconds : work.answer_tokens / seconds;
    const text = reading ? `reading ${count(work.done)} of ${some(work.prompt_tokens, 'token')}` : `writing, ${some(work.answer_tokens, 'token')}`;
    const of = reading ? Math.max(1, work.prompt_tokens) : limit;
    const width = (n) => `width:${Math.min(100, (100 * n) / of)}%`;
    return html`<div class="pair num"><span>Slot ${number} · request ${work.request}</span><span>${text}, ${speed.toFixed(speed < 10 ? 1 : 0)} per second</span>
        <span class="bar thin" role="img" aria-label=${text}><span class="c-slot" style=${width(work.reused)}></span><span class="c-least" style=${width(work.done - work.reused)}></span>
            ${reading ? null : html`<span class="c-ram" style=${width(work.answer_tokens)}></span>`}</span></div>`;
}

export function Slots({ hello, state }) {
    const number = hello?.slots ?? 0;
    const limit = hello?.slot_tokens_max ?? 1;
    const waiting = state?.queue.waiting ?? 0;
    return html`<section id="slots" aria-labelledby="slots-head"><div class="row"><h2 id="slots-head">Slots</h2>
            <span class="end small quiet">${waiting > 0 ? `${some(waiting, 'request')} waiting` : `${some(limit, 'token')} each`}</span></div>
        <div class="slots">${Array.from({ length: number }, (_, i) => html`<${Slot} key=${i} number=${i} work=${state?.slots.find((one) => one.slot === i)} limit=${limit} />`)}</div>
    </section>`;
}

export function Tiers({ state, cache }) {
    const b = state?.bytes;
    const { disk, shared } = cache ?? {};
    if (!b) {
        return html`<section id="tiers"><h2>Memory</h2></section>`;
    }
    const part = (n) => `width:${b.limit > 0 ? (100 * n) / b.limit : 0}%`;
    const other = Math.max(0, b.now - b.rows - b.states);
    return html`<section id="tiers" aria-labelledby="tiers-head"><h2 id="tiers-head">Tiers</h2><div class="tiers">
        <div class="pair num"><span>Memory</span><span>${bytes(b.now)} of ${bytes(b.limit)}</span>
            <span class="bar" role="img" aria-label=${`${bytes(b.states)} checkpoints, ${bytes(b.rows)} rows, ${bytes(other)} index`}>
                <span class="c-slot" style=${part(b.states)}></span><span class="c-ram" style=${part(b.rows)}></span><span class="c-known" style=${part(other)}></span></span></div>
        <p class="legend"><span><i class="c-slot"></i>checkpoints ${bytes(b.states)}</span><span><i class="c-ram"></i>rows ${bytes(b.rows)}</span><span><i class="c-known"></i>index and buffers ${bytes(other)}</span><span>peak ${bytes(b.peak)}</span></p>
        ${disk && disk.limit > 0 ? html`<div class="pair num"><span>Disk</span><span>${bytes(disk.now)} of ${bytes(disk.limit)}</span>
            <span class="bar"><span class="c-disk" style=${`width:${(100 * disk.now) / disk.limit}%`}></span></span></div>
            <p class="legend"><span>${some(disk.blobs, 'file')}</span><span>written today ${bytes(disk.written_today)}${disk.written_limit > 0 ? ` of ${bytes(disk.written_limit)}` : ''}</span>
            ${disk.failures > 0 ? html`<span class="warn">${some(disk.failures, 'failed write')}</span>` : null}</p>` : null}
        ${shared?.on ? html`<div class="pair num"><span>Shared store</span><span>${shared.works ? 'works' : html`<span class="warn">out of reach</span>`}</span></div>
            <p class="legend"><span>had something for ${shared.found} of ${some(shared.asked, 'request')}</span><span>${bytes(shared.fetched_bytes)} fetched</span><span>${bytes(shared.sent_bytes)} sent</span>
            ${shared.failures > 0 ? html`<span class="warn">${some(shared.failures, 'failed call')}</span>` : null}</p>` : null}
    </div></section>`;
}

function css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// One chart: series of { label, color, show }; `data` as uPlot wants it; `least`: what its height shows at least.
function Chart({ title, series, data, format, steps, least, scheme }) {
    const place = useRef(null);
    const chart = useRef(null);
    useEffect(() => {
        const axis = { stroke: css('quiet'), grid: { stroke: css('line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
        const width = () => Math.max(180, place.current.clientWidth);
        chart.current = new uPlot({
            width: width(), height: 120, cursor: { y: false }, legend: { live: false },
            scales: {
                x: { range: (_, low, high) => {
                    const end = high ?? Date.now() / 1000; // null: no data yet
                    return [Math.min(low ?? end, end - SPAN_MIN_S), end];
                } },
                y: { range: (_, low, high) => [0, Math.max(least, (high ?? 0) * 1.1)] },
            },
            axes: [{ ...axis, size: 24, space: 90, values: (_, list) => list.map((at) => new Date(at * 1000).toTimeString().slice(0, 8)) }, { ...axis, size: 62, space: 30, incrs: steps, values: (_, list) => list.map(format) }],
            series: [{}, ...series.map((one) => ({ label: one.label, stroke: css(one.color), fill: `${css(one.color)}22`, width: 1.5, points: { show: false } }))],
        }, data, place.current);
        const watcher = new ResizeObserver(() => chart.current.setSize({ width: width(), height: 120 }));
        watcher.observe(place.current);
        return () => {
            watcher.disconnect();
            chart.current.destroy();
        };
    }, [scheme]);
    useEffect(() => chart.current?.setData(data), [data]);
    return html`<div><h3>${title}</h3><div ref=${place} role="img" aria-label=${title}></div></div>`;
}

export function Series({ samples, scheme }) {
    const times = samples.map((one) => one.time);
    const pick = (name) => samples.map((one) => one[name]);
    return html`<section id="series" aria-labelledby="series-head"><h2 id="series-head">The last ${SAMPLES_MAX / 60} minutes</h2><div class="charts">
        <${Chart} title="Tokens per second" format=${(n) => count(n)} steps=${COUNT_STEPS} least=${10} scheme=${scheme} data=${[times, pick('read'), pick('written')]}
            series=${[{ label: 'read', color: 'least' }, { label: 'written', color: 'ram' }]} />
        <${Chart} title="Memory" format=${(n) => bytes(n)} steps=${BYTE_STEPS} least=${2 ** 20} scheme=${scheme} data=${[times, pick('memory')]} series=${[{ label: 'used', color: 'slot' }]} />
    </div></section>`;
}
