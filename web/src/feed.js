// feed - requests to the server with the API key, and its events.

let key = '';
try {
    key = sessionStorage.getItem('cairn-key') ?? '';
} catch {
    // no storage: the key lives as long as the page
}

export const getKey = () => key;
export function setKey(value) {
    key = value;
    try {
        sessionStorage.setItem('cairn-key', value);
    } catch {
        // see above
    }
}

export const headers = () => (key ? { authorization: `Bearer ${key}` } : {});

// Split what comes into events: { event, data }. Gives a function that takes pieces of text.
export function eventParser(take) {
    let rest = '';
    return (piece) => {
        rest += piece;
        for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
            const block = rest.slice(0, end);
            rest = rest.slice(end + 2);
            let event = 'message';
            let data = '';
            for (const line of block.split('\n')) {
                if (line.startsWith('event: ')) {
                    event = line.slice(7);
                } else if (line.startsWith('data: ')) {
                    data += line.slice(6);
                }
            }
            if (data) {
                take({ event, data });
            }
        }
    };
}

// Read a response's events until it ends.
export async function readEvents(response, take) {
    const parse = eventParser(take);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
        const { done, value } = await reader.read();
        if (done) {
            return;
        }
        parse(value);
    }
}

// Follow /cairn/events, and again whenever the connection breaks. Gives a function that stops it.
export function follow(take, tell) {
    let stopped = false;
    let control = null;
    async function run() {
        let wait = 500;
        while (!stopped) {
            control = new AbortController();
            try {
                const response = await fetch('/cairn/events', { headers: headers(), signal: control.signal });
                if (response.status === 401) {
                    tell('key');
                    return;
                }
                if (!response.ok) {
                    throw new Error(`status ${response.status}`);
                }
                tell('on');
                wait = 500;
                await readEvents(response, ({ event, data }) => take(event, JSON.parse(data)));
            } catch {
                // told below
            }
            if (!stopped) {
                tell('off');
                await new Promise((resolve) => setTimeout(resolve, wait));
                wait = Math.min(wait * 2, 8000);
            }
        }
    }
    run();
    return () => {
        stopped = true;
        control?.abort();
    };
}
