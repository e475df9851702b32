// main - the page: follows the server's events and shows them.
import { h, render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import htm from 'htm';
import { Chat } from './chat.js';
import { follow, getKey, setKey } from './feed.js';
import { Icicle } from './icicle.js';
import { SAMPLES_MAX, Series, Slots, Tiers } from './live.js';
import { Requests } from './requests.js';
import { count } from './words.js';

const html = htm.bind(h);
const REQUESTS_MAX = 64;

// Redraw what is painted by hand when the system changes between dark and light.
function useScheme() {
    const query = window.matchMedia('(prefers-color-scheme: dark)');
    const [dark, setDark] = useState(query.matches);
    useEffect(() => {
        const on = (event) => setDark(event.matches);
        query.addEventListener('change', on);
        return () => query.removeEventListener('change', on);
    }, []);
    return dark ? 'dark' : 'light';
}

// Tokens a second from what the slots did since the last sample, and from the records of requests that ended meanwhile.
function sampler() {
    let before = new Map();
    let read = 0;
    let written = 0;
    const ended = (item) => {
        const last = before.get(item.id) ?? { done: item.cairn.reused, answer_tokens: 0 };
        read += Math.max(0, item.cairn.prompt_tokens - last.done);
        written += Math.max(0, item.timings.predicted_n - last.answer_tokens);
    };
    const sample = (state) => {
        const now = new Map();
        for (const slot of state?.slots ?? []) {
            if (slot.others) {
                continue;
            }
            const last = before.get(slot.request) ?? { done: slot.reused, answer_tokens: 0 };
            read += Math.max(0, slot.done - last.done);
            written += Math.max(0, slot.answer_tokens - last.answer_tokens);
            now.set(slot.request, slot);
        }
        before = now;
        const one = { time: Date.now() / 1000, read, written, memory: state?.bytes.now ?? 0 };
        read = 0;
        written = 0;
        return one;
    };
    return { ended, sample };
}

function useFeed(keyCount) {
    const [link, setLink] = useState('off');
    const [hello, setHello] = useState(null);
    const [state, setState] = useState(null);
    const [cache, setCache] = useState(null);
    const [requests, setRequests] = useState([]);
    const [samples, setSamples] = useState([]);
    const newest = useRef(null);
    const meter = useRef(null);
    meter.current ??= sampler();
    useEffect(() => {
        let first = true;
        setRequests([]);
        return follow((event, data) => {
            if (event === 'hello') {
                first = true;
                setHello(data);
            } else if (event === 'state') {
                newest.current = data;
                setState(data);
            } else if (event === 'cache') {
                setCache(data);
            } else if (event === 'requests') {
                if (!first) {
                    data.requests.forEach(meter.current.ended);
                }
                first = false;
                setRequests((list) => {
                    const ids = new Set(data.requests.map((one) => one.id));
                    return [...data.requests, ...list.filter((one) => !ids.has(one.id))].slice(0, REQUESTS_MAX);
                });
            }
        }, setLink);
    }, [keyCount]);
    useEffect(() => {
        const timer = setInterval(() => {
            if (newest.current) {
                const one = meter.current.sample(newest.current);
                setSamples((list) => [...list.slice(1 - SAMPLES_MAX), one]);
            }
        }, 1000);
        return () => clearInterval(timer);
    }, []);
    return { link, hello, state, cache, requests, samples };
}

function Key({ onKey, asked }) {
    const [open, setOpen] = useState(false);
    const [text, setText] = useState(getKey());
    if (!asked && !open) {
        return html`<button class="plain" onClick=${() => setOpen(true)}>API key</button>`;
    }
    return html`<form class="key" onSubmit=${(event) => {
        event.preventDefault();
        setKey(text.trim());
        setOpen(false);
        onKey();
    }}><label for="key">API key</label><input id="key" type="password" autocomplete="off" value=${text} onInput=${(event) => setText(event.target.value)} /><button class="main">Use it</button></form>`;
}

function Page() {
    const [keyCount, setKeyCount] = useState(0);
    const scheme = useScheme();
    const { link, hello, state, cache, requests, samples } = useFeed(keyCount);
    const locked = link === 'key';
    const saved = state?.tokens && state.tokens.prompt > 0 ? 100 * (1 - state.tokens.read / state.tokens.prompt) : null;
    return html`<a class="skip" href="#chat">To the conversation</a>
        <header><h1>cairn</h1><span>${hello?.model ?? ''}</span>
            <span class="small quiet" role="status"><span class=${`dot${link === 'on' ? '' : ' off'}`}></span>${{ on: 'connected', off: 'not connected; trying again', key: 'this server asks for an API key' }[link]}</span>
            ${saved !== null ? html`<span class="small quiet num">${saved.toFixed(0)}% of ${count(state.tokens.prompt)} prompt tokens reused</span>` : null}
            <span class="end">${hello?.keyed || locked ? html`<${Key} asked=${locked} onKey=${() => setKeyCount((n) => n + 1)} />` : null}<span class="small quiet">${hello ? `version ${hello.version}` : ''}</span></span>
        </header>
        <main>
            ${locked ? html`<section class="wide"><p>Give an API key above to see its requests and to use the model. Each key sees only its own requests and paths.</p></section>` : html`
            <${Icicle} cache=${cache} scheme=${scheme} />
            <div class="column"><${Chat} model=${hello?.model ?? ''} /><${Slots} hello=${hello} state=${state} /><${Tiers} state=${state} cache=${cache} /></div>
            <div class="column"><${Requests} list=${requests} /><${Series} samples=${samples} scheme=${scheme} /></div>`}
        </main>`;
}

const place = document.getElementById('page');
place.textContent = '';
render(html`<${Page} />`, place);
