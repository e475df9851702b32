// chat - a small conversation with the model, in which every message can be edited and every answer written again.
import { h } from 'preact';
import { useRef, useState } from 'preact/hooks';
import htm from 'htm';
import { add, branchAfter, edit, messagesTo, newConversation, shownPath, step } from './conversation.js';
import { headers, readEvents } from './feed.js';
import { Bar } from './requests.js';
import { headline, why } from './words.js';

const html = htm.bind(h);

const EXAMPLE_SYSTEM = 'You help a small team to look after a mountain hut. Answer in a few sentences.';
const EXAMPLE = `Here are the notes of the hut book. ${[
    'Monday: two guests came down from the pass late in the evening, their boots were wet and they asked for the drying room. The stove was cold and took an hour. We should keep dry wood beside it.',
    'Tuesday: the water was brown after the rain. We let the tank settle overnight and it was clear in the morning. The filter was changed last in spring.',
    'Wednesday: a school class of nineteen stayed for lunch. Soup for twelve was ready, so we stretched it with potatoes. Nobody had told us about them.',
    'Thursday: the radio has no connection after dark. With the antenna on the south wall it works, but the cable is too short to leave it there.',
    'Friday: the supply helicopter could not land in the fog. Flour is enough until Tuesday, coffee is not. We wrote to the valley by the evening walker.',
    'Saturday: full house, thirty two beds, four on the floor. The rule of lights out at ten was kept by most. One window in room three does not close.',
    'Sunday: all left by nine. We cleaned, counted blankets (two are missing) and found a walking stick, which is now behind the door.',
].join(' ')} What should be done first?`;

function Message({ node, busy, on }) {
    const [text, setText] = useState(null);
    const at = node.parent.children.indexOf(node);
    const many = node.parent.children.length;
    const name = { system: 'System', user: 'You', assistant: 'Model' }[node.role];
    const save = () => {
        on.edit(node, text);
        setText(null);
    };
    return html`<div class=${`message ${node.role}`} data-role=${node.role}>
        <div class="who"><b>${name}</b>
            ${many > 1 ? html`<span><button class="plain" aria-label="Earlier version" disabled=${at === 0 || busy} onClick=${() => on.step(node, -1)}>‹</button>
                <span class="num">${at + 1} of ${many}</span><button class="plain" aria-label="Later version" disabled=${at === many - 1 || busy} onClick=${() => on.step(node, 1)}>›</button></span>` : null}
            ${text === null && node.role !== 'assistant' ? html`<button class="plain" disabled=${busy} onClick=${() => setText(node.text)}>Edit</button>` : null}
            ${node.role === 'assistant' ? html`<button class="plain" disabled=${busy} onClick=${() => on.again(node)}>Regenerate</button>
                ${node.children.length > 0 ? html`<button class="plain" disabled=${busy} onClick=${() => on.branch(node)}>Branch here</button>` : null}` : null}
        </div>
        ${text !== null ? html`<textarea aria-label=${`Edit: ${name}`} value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
            <div class="row"><button class="main" onClick=${save}>Send the edited message</button><button onClick=${() => setText(null)}>Cancel</button></div>`
        : html`${node.reasoning ? html`<details open=${node.text === ''}><summary>Reasoning</summary><div class="text">${node.reasoning}</div></details>` : null}
            <div class="text" tabindex=${node.text.length > 600 ? '0' : undefined}>${node.text}${node.open ? '…' : ''}</div>`}
        ${node.problem ? html`<p class="warn" role="alert">${node.problem}</p>` : null}
        ${node.record ? html`<div class="served"><${Bar} record=${node.record} thin=${true} /><span class="quiet num">${headline(node.record)}. ${why(node.record)}${node.record.hint ? ` ${node.record.hint}` : ''}</span></div>` : null}
    </div>`;
}

export function Chat({ model }) {
    const root = useRef(null);
    root.current ??= newConversation();
    const control = useRef(null);
    const [, redraw] = useState(0);
    const [busy, setBusy] = useState(false);
    const [draft, setDraft] = useState('');
    const [length, setLength] = useState(64);
    const [thinking, setThinking] = useState(false);
    const show = () => redraw((n) => n + 1);
    const path = shownPath(root.current);

    // Ask for an answer to the path that ends in `last`.
    async function answer(last) {
        const node = add(last, 'assistant', '', { open: true, reasoning: '' });
        setBusy(true);
        show();
        control.current = new AbortController();
        try {
            const response = await fetch('/v1/chat/completions', {
                method: 'POST', headers: { 'content-type': 'application/json', ...headers() }, signal: control.current.signal,
                body: JSON.stringify({ messages: messagesTo(last), stream: true, max_tokens: Math.max(1, Number(length) || 64), chat_template_kwargs: { enable_thinking: thinking }, cairn: { explain: true } }),
            });
            if (!response.ok) {
                const body = await response.json().catch(() => null);
                throw new Error(body?.error?.message ?? `The server answered with status ${response.status}.`);
            }
            await readEvents(response, ({ data }) => {
                if (data === '[DONE]') {
                    return;
                }
                const part = JSON.parse(data);
                const delta = part.choices?.[0]?.delta ?? {};
                node.text += delta.content ?? '';
                node.reasoning += delta.reasoning_content ?? '';
                node.record = part.cairn ?? node.record;
                show();
            });
        } catch (error) {
            node.problem = error.name === 'AbortError' ? 'Stopped. What was read is kept.' : error.message;
        }
        node.open = false;
        setBusy(false);
        show();
    }
    const send = () => {
        const text = draft.trim();
        if (text === '' || busy) {
            return;
        }
        setDraft('');
        answer(add(path.at(-1) ?? root.current, 'user', text));
    };
    // The text first; the message after a system text is sent again with it.
    const on = {
        edit: (node, text) => {
            const fresh = edit(node, text);
            if (node.role === 'user') {
                answer(fresh);
                return;
            }
            const user = node.children[node.shown];
            show();
            if (user) {
                answer(add(fresh, 'user', user.text));
            }
        },
        again: (node) => answer(node.parent),
        branch: (node) => {
            branchAfter(node);
            show();
            document.getElementById('draft').focus();
        },
        step: (node, by) => {
            step(node, by);
            show();
        },
    };
    const example = () => {
        add(root.current, 'system', EXAMPLE_SYSTEM);
        setDraft(EXAMPLE);
        document.getElementById('draft').focus();
        show();
    };
    return html`<section id="chat" aria-labelledby="chat-head">
        <div class="row"><h2 id="chat-head">Try it</h2><span class="end small quiet">${model}</span></div>
        ${path.length === 0 ? html`<p class="quiet">Write a message, then edit it or ask for another answer. The bar under each answer shows how much of the prompt was read.</p>
            <p><button onClick=${example}>Fill in an example</button></p>` : null}
        <div class="messages" aria-live="off">${path.map((node) => html`<${Message} key=${node.id} node=${node} busy=${busy} on=${on} />`)}</div>
        <label for="draft">Message</label>
        <textarea id="draft" value=${draft} onInput=${(event) => setDraft(event.target.value)}
            onKeyDown=${(event) => {
                if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
                    event.preventDefault();
                    send();
                }
            }}></textarea>
        <div class="row"><button class="main" id="send" disabled=${busy || draft.trim() === ''} onClick=${send}>Send</button>
            ${busy ? html`<button onClick=${() => control.current?.abort()}>Stop</button>` : null}
            <span class="end"><label><input type="checkbox" checked=${thinking} onChange=${(event) => setThinking(event.target.checked)} /> Reasoning</label>
                <label for="length">Most tokens </label><input id="length" type="number" min="1" max="100000" style="width:6rem" value=${length} onInput=${(event) => setLength(event.target.value)} /></span></div>
        ${path.length > 0 && !busy ? html`<p><button class="plain" onClick=${() => {
            root.current = newConversation();
            show();
        }}>New conversation</button></p>` : null}
    </section>`;
}
