// words - numbers and records in plain words.

export const count = (n) => Math.round(n).toLocaleString('en-US');
export const some = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function bytes(n) {
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    let at = 0;
    let value = n;
    while (value >= 1024 && at < units.length - 1) {
        value /= 1024;
        at++;
    }
    return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}

export function duration(ms) {
    if (ms < 1) {
        return 'less than 1 ms';
    }
    if (ms < 1000) {
        return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    }
    if (ms < 120e3) {
        return `${(ms / 1000).toFixed(ms < 10e3 ? 1 : 0)} s`;
    }
    return ms < 7200e3 ? `${Math.round(ms / 60e3)} min` : `${Math.round(ms / 3600e3)} h`;
}

const TIERS = { slot: 'the slot (nothing was moved)', ram: 'memory', disk: 'disk', shared: 'the shared store', none: 'nothing' };
export const tierName = (tier) => TIERS[tier] ?? tier;

// The four parts of a prompt, in the order of its tokens. `restored`: put back from memory, disk or a shared store.
export function parts(record) {
    const fromSlot = record.tier === 'slot';
    return [
        { name: 'reused', label: 'reused in the slot', color: 'slot', tokens: fromSlot ? record.reused : 0 },
        { name: 'restored', label: 'restored from memory, disk or the shared store', color: record.tier === 'disk' || record.tier === 'shared' ? 'disk' : 'ram', tokens: fromSlot ? 0 : record.reused },
        { name: 'beyond', label: 'read again', color: 'beyond', tokens: Math.max(0, record.read - record.least) },
        { name: 'least', label: 'new: read by any cache', color: 'least', tokens: Math.min(record.read, record.least) },
    ];
}

// Fewer tokens in common than this are only the template's opening words.
const FAMILIAR_TOKENS = 32;

// One line about what a request reused.
export function headline(record) {
    const { reused, read, prompt_tokens: all } = record;
    if (reused === 0) {
        return `Read all ${some(all, 'token')}`;
    }
    return `Reused ${count(reused)} of ${some(all, 'token')}, read ${count(read)}`;
}

// Why not more, as a sentence.
export function why(record) {
    const { reason } = record;
    const beyond = record.read - record.least;
    if (reason.word === 'none') {
        return beyond > 0 ? 'Resumed at the nearest state, and read what lies between it and the change.' : 'Resumed as far as any cache could.';
    }
    if (record.divergence.position < FAMILIAR_TOKENS) {
        return record.reused === 0 && record.read > FAMILIAR_TOKENS ? 'A new conversation: almost nothing of it was known.' : 'Almost nothing of it was known.';
    }
    if (reason.word === 'never-taken' && record.reused > 0) {
        const where = record.divergence.position < record.prompt_tokens ? 'the change' : 'the end';
        return `Resumed ${some(beyond, 'token')} before ${where}; no state was saved nearer.`;
    }
    const text = `${reason.text[0].toUpperCase()}${reason.text.slice(1)}`;
    const at = reason.position > 0 ? ` (the state after ${some(reason.position, 'token')})` : '';
    return `${text}${at}.`;
}
