// requests - the last requests as bars, and what is to be said about each.
import { h } from 'preact';
import { useState } from 'preact/hooks';
import htm from 'htm';
import { bytes, count, duration, headline, parts, some, tierName, why } from './words.js';

const html = htm.bind(h);

export function Bar({ record, thin = false }) {
    const all = Math.max(1, record.prompt_tokens);
    const shown = parts(record).filter((part) => part.tokens > 0);
    const text = shown.map((part) => `${part.label}: ${some(part.tokens, 'token')}`).join('; ');
    return html`<span class=${`bar${thin ? ' thin' : ''}`} role="img" aria-label=${text} title=${text}>
        ${shown.map((part) => html`<span class=${`c-${part.color}`} data-part=${part.name} data-tokens=${part.tokens} style=${`width:${(100 * part.tokens) / all}%`}></span>`)}
    </span>`;
}

export function Legend() {
    return html`<span class="legend">
        <span><i class="c-slot"></i>reused in the slot</span><span><i class="c-ram"></i>restored from memory</span><span><i class="c-disk"></i>from disk</span>
        <span><i class="c-beyond"></i>read again</span><span><i class="c-least"></i>new</span></span>`;
}

function Sides({ excerpt }) {
    const side = (name, title, text) => html`<div class=${name}><b>${title}</b><pre>${excerpt.before}<mark>${text}</mark></pre></div>`;
    return html`<h3>Where it parts from what was known (token ${count(excerpt.position)})</h3>
        <div class="sides">${side('known', 'What was known goes on', excerpt.known)}${side('given', 'This request goes on', excerpt.given)}</div>`;
}

function Detail({ item }) {
    const r = item.cairn;
    const t = item.timings;
    const { help } = r.reason;
    const rows = [
        ['Prompt', `${some(r.prompt_tokens, 'token')}: ${count(r.reused)} reused, ${count(r.read)} read (any cache must read ${count(r.least)})`],
        ['Served from', `${tierName(r.tier)}${r.reused > 0 && r.tier !== 'none' ? `; the state was ${duration(r.state_age_ms)} old` : ''}`],
        ['Parted at', r.divergence.position < r.prompt_tokens ? `token ${count(r.divergence.position)}, ${r.divergence.role === 'none' ? 'in the opening text' : `message ${r.divergence.message} (${r.divergence.role})`}` : 'nowhere: all of it was known'],
        ['Times', `read ${duration(r.times.read_ms)}, restored ${duration(r.times.restore_ms)}, saved ${duration(r.times.save_ms)}`],
        ['Answer', `${some(t.predicted_n, 'token')} in ${duration(t.predicted_ms)}`],
        ['Checkpoints', `${count(r.states_taken)} taken, ${count(r.states_skipped)} skipped; ${bytes(r.moved_bytes)} moved`],
    ];
    return html`<div class="detail">
        ${r.hint ? html`<p class="hint">${r.hint}</p>` : null}
        ${help ? html`<p>${help}</p>` : null}
        ${r.excerpt ? html`<${Sides} excerpt=${r.excerpt} />` : null}
        <dl>${rows.map(([name, text]) => html`<dt>${name}</dt><dd class="num">${text}</dd>`)}</dl>
        <details><summary>The record as JSON (GET /cairn/requests/${item.id})</summary><pre class="raw" tabindex="0">${JSON.stringify(item, null, 2)}</pre></details>
    </div>`;
}

export function Requests({ list }) {
    const [open, setOpen] = useState(null);
    return html`<section id="requests" aria-labelledby="requests-head">
        <div class="row"><h2 id="requests-head">Last requests</h2><${Legend} /></div>
        ${list.length === 0 ? html`<p class="quiet">No request has ended yet.</p>` : null}
        <ul class="requests">${list.map((item) => html`<li key=${item.id}>
            <button class="request" aria-expanded=${open === item.id ? 'true' : 'false'} onClick=${() => setOpen(open === item.id ? null : item.id)} data-request=${item.id}>
                <span class="quiet num">#${item.id}</span><${Bar} record=${item.cairn} />
                <span class="num small">${duration(item.timings.prompt_ms)}${item.ending === 'done' ? '' : ` · ${item.ending}`}</span>
                <span class="why num">${headline(item.cairn)}. ${why(item.cairn)}</span>
            </button>
            ${open === item.id ? html`<${Detail} item=${item} />` : null}
        </li>`)}</ul>
    </section>`;
}
