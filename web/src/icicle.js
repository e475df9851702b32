// icicle - the tree of known paths, drawn.
import { h } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import htm from 'htm';
import { headers } from './feed.js';
import { grow, hit, layout, neighbour } from './tree.js';
import { bytes, count, duration, some } from './words.js';

const html = htm.bind(h);
const HEIGHT_MAX = 380;
const LANE_MAX = 26;
const AXIS = 18;
const DISK_MS = 2000;

function colors() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    return { slot: get('slot'), ram: get('ram'), disk: get('disk'), known: get('known'), mark: get('mark'), text: get('quiet'), card: get('card'), focus: get('focus'), on: get('on-slot') };
}

// Steps for about five numbers on the axis.
function tickStep(span) {
    const rough = Math.max(1, span / 5);
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
}

function draw(canvas, picture, height, chosen) {
    const { rects, begin, end } = picture;
    const scale = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round((height + AXIS) * scale);
    const c = canvas.getContext('2d');
    c.scale(scale, scale);
    c.clearRect(0, 0, width, height + AXIS);
    const color = colors();
    const biggest = Math.max(1e-9, ...rects.flatMap((r) => (r.node.states ?? []).map(([, ms]) => ms)));
    c.font = '11px system-ui, sans-serif';
    for (const r of rects) {
        const x = r.x0 * width;
        const y = r.y0 * height;
        const w = (r.x1 - r.x0) * width;
        const tall = (r.y1 - r.y0) * height;
        const gap = tall > 4 ? 1 : 0;
        c.fillStyle = color[r.tier];
        c.fillRect(x, y, Math.max(w - (w > 3 ? 1 : 0), 0.5), Math.max(tall - gap, 0.5));
    }
    for (const r of rects) {
        const tall = (r.y1 - r.y0) * height;
        if (tall < 3) {
            continue;
        }
        for (const [position, ms] of r.node.states ?? []) {
            const x = ((position - begin) / (end - begin)) * width;
            const strength = Math.sqrt(Math.max(0, ms) / biggest);
            const mark = Math.min(tall - 1, Math.max(3, Math.min(tall - 1, 30) * (0.35 + 0.65 * strength)));
            c.fillStyle = color.card;
            c.fillRect(Math.max(0, x - 3.5), r.y0 * height, 4, mark + 1);
            c.fillStyle = color.mark;
            c.fillRect(Math.max(0, x - 2.5), r.y0 * height, 2, mark);
        }
        if (r.node.more && tall > 12 && (r.x1 - r.x0) * width > 60) {
            c.fillStyle = color.text;
            c.fillText(`+ ${count(r.node.more.nodes)} older`, r.x0 * width + 4, r.y1 * height - 4);
        }
    }
    const now = chosen && rects.find((r) => r.node.name === chosen);
    if (now) {
        c.strokeStyle = color.card;
        c.lineWidth = 4;
        const box = [now.x0 * width + 1.5, now.y0 * height + 1.5, Math.max(2, (now.x1 - now.x0) * width - 3.5), Math.max(1, (now.y1 - now.y0) * height - 3.5)];
        c.strokeRect(...box);
        c.strokeStyle = color.focus;
        c.lineWidth = 2;
        c.strokeRect(...box);
    }
    c.fillStyle = color.text;
    const stride = tickStep(end - begin);
    for (let at = Math.ceil(begin / stride) * stride; at <= end; at += stride) {
        const x = ((at - begin) / (end - begin)) * width;
        c.fillRect(Math.min(x, width - 1), height + 2, 1, 4);
        c.textAlign = x > width - 30 ? 'right' : x < 15 ? 'left' : 'center';
        c.fillText(count(at), Math.min(x, width), height + 15);
    }
    c.textAlign = 'left';
}

function about(rect) {
    if (!rect) {
        return 'Each block is a piece of a prompt that was seen. It goes on to the right; other branches are below. Point at a block or use the arrow keys; Enter shows only what follows it, Escape shows all.';
    }
    const { node, tier } = rect;
    const where = { slot: `live in a slot${node.slot !== undefined ? ` (slot ${node.slot} ends here)` : ''}`, ram: 'in memory', disk: 'on disk', known: 'known, but nothing of it is kept' }[tier];
    const list = [`Tokens ${count(node.begin)} to ${count(node.end)}: ${where}.`];
    if (node.rows > 0) {
        list.push(`Rows of ${some(node.rows, 'token')}${node.row_bytes > 0 ? `, ${bytes(node.row_bytes)} ${node.on_disk ? 'in files' : 'in memory'}` : ''}.`);
    }
    if (node.count_states > 0) {
        const values = node.states.map(([position, ms]) => (node.on_disk ? count(position) : `${count(position)} (saves ${duration(ms)})`));
        const shown = values.slice(-6);
        list.push(`${some(node.count_states, 'checkpoint')}, ${bytes(node.state_bytes)}: ${values.length > shown.length ? '... ' : ''}${shown.join(', ')}.`);
    }
    if (node.more) {
        list.push(`${some(node.more.nodes, 'older piece')} below it ${node.more.nodes === 1 ? 'is' : 'are'} not drawn.`);
    }
    list.push(`Last used ${duration(node.idle_ms)} ago.`);
    return list.join(' ');
}

// What the disk holds, asked for while it is looked at. null: not known yet.
function useDisk(wanted) {
    const [tree, setTree] = useState(null);
    useEffect(() => {
        if (!wanted) {
            return undefined;
        }
        const control = new AbortController();
        let timer = 0;
        const ask = async () => {
            try {
                const response = await fetch('/cairn/cache/disk', { headers: headers(), signal: control.signal });
                if (response.ok) {
                    const { tree: found } = await response.json();
                    setTree({ ...found, nodes: found.nodes.map((node) => ({ ...node, on_disk: true })) });
                }
            } catch {
                // the server is away; the header says so
            }
            if (!control.signal.aborted) {
                timer = setTimeout(ask, DISK_MS);
            }
        };
        ask();
        return () => {
            control.abort();
            clearTimeout(timer);
        };
    }, [wanted]);
    return tree;
}

function Places({ onDisk, choose }) {
    const button = (disk, text) => html`<button class=${`plain${onDisk === disk ? ' on' : ''}`} aria-pressed=${onDisk === disk} onClick=${() => choose(disk)}>${text}</button>`;
    return html`<span class="places" role="group" aria-label="What is shown">${button(false, 'slots and memory')}${button(true, 'disk')}</span>`;
}

export function Icicle({ cache, scheme }) {
    const canvas = useRef(null);
    const [onDisk, setOnDisk] = useState(false);
    const disk = useDisk(onDisk);
    const [chosen, setChosen] = useState(null);
    const [top, setTop] = useState(null);
    const [width, setWidth] = useState(0);
    const shown = onDisk ? disk : cache?.tree;
    const tree = useMemo(() => grow(shown?.nodes), [shown]);
    const picture = useMemo(() => layout(tree, top), [tree, top]);
    const height = Math.max(LANE_MAX, Math.min(HEIGHT_MAX, picture.leaves * LANE_MAX));
    const rect = picture.rects.find((r) => r.node.name === chosen) ?? null;

    useEffect(() => {
        const watcher = new ResizeObserver(() => setWidth(canvas.current?.clientWidth ?? 0));
        watcher.observe(canvas.current);
        return () => watcher.disconnect();
    }, []);
    useEffect(() => {
        if (canvas.current && picture.rects.length > 0) {
            draw(canvas.current, picture, height, rect?.node.name);
        }
    }, [picture, height, chosen, width, scheme]);

    const point = (event) => {
        const box = canvas.current.getBoundingClientRect();
        return hit(picture.rects, (event.clientX - box.left) / box.width, (event.clientY - box.top) / height);
    };
    const onKey = (event) => {
        if (event.key.startsWith('Arrow')) {
            event.preventDefault();
            setChosen(neighbour(picture.rects, rect, event.key)?.node.name ?? null);
        } else if (event.key === 'Enter' && rect) {
            event.preventDefault();
            setTop(rect.node.name);
        } else if (event.key === 'Escape') {
            setTop(null);
        }
    };
    const total = shown?.total ?? 0;
    const choose = (next) => {
        setOnDisk(next);
        setTop(null);
        setChosen(null);
    };
    return html`<section class="wide" id="paths" aria-labelledby="paths-head">
        <div class="row"><h2 id="paths-head">Known paths</h2>
            ${cache?.disk?.limit > 0 ? html`<${Places} onDisk=${onDisk} choose=${choose} />` : null}
            <span class="legend">${onDisk ? html`<span><i class="c-disk"></i>on disk</span>` : html`<span><i class="c-slot"></i>in a slot</span><span><i class="c-ram"></i>in memory</span><span><i class="c-known"></i>known only</span>`}<span>ticks: checkpoints, taller when they save more</span></span>
            <span class="end small quiet num">${some(Math.max(0, total - 1), 'piece')}${shown?.cut ? ' and more' : ''}</span>
            ${top ? html`<button onClick=${() => setTop(null)}>Show all</button>` : null}
        </div>
        <div class="tree" hidden=${picture.rects.length === 0}>
            <canvas ref=${canvas} tabindex="0" role="img" aria-label="Tree of known paths; use the arrow keys" aria-describedby="paths-about" style=${`height:${height + AXIS}px`}
                onPointerMove=${(event) => setChosen(point(event)?.node.name ?? null)} onClick=${(event) => setTop(point(event)?.node.name ?? null)} onKeyDown=${onKey}></canvas>
            <p class="about small quiet" id="paths-about" aria-live="polite">${about(rect)}</p>
        </div>
        ${picture.rects.length === 0 ? html`<p class="quiet">${onDisk ? 'Nothing of this model is on disk yet. It is written behind the requests.' : 'Nothing is known yet. Send a message below, or point a client at this server.'}</p>` : null}
    </section>`;
}
