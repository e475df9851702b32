// blob_reader - reads blob files. Written from docs/format/blob.md alone, so that the page is known to be enough.
import { createDecipheriv, createHash, createHmac } from 'node:crypto';
import { xxhash128 } from 'hash-wasm';

const MAGIC = Buffer.from('434149524e0d0a1a', 'hex');
const FIXED = 256;
const PIECE = 4194304;
const TAG = 16;

// XXH3-128, low 64 bits first, then the high ones, both little-endian: the reverse of the usual text.
async function check(bytes) {
    return Buffer.from(await xxhash128(bytes), 'hex').reverse();
}

function need(condition, what) {
    if (!condition) {
        throw new Error(what);
    }
}

// The name that files show, and the root of path digests.
export function facesOf(namespace, key = null) {
    const under = key ?? Buffer.alloc(32);
    const face = (label) => createHmac('sha256', under).update(label).update(namespace).digest().subarray(0, 16);
    return { space: face('blobname'), root: face('pathroot') };
}

// The path digests at 0, 1, ..., tokens.length.
export function pathDigests(root, tokens) {
    const hash = createHash('sha256').update(root);
    const digests = [hash.copy().digest().subarray(0, 16)];
    const word = Buffer.alloc(4);
    for (const token of tokens) {
        word.writeInt32LE(token);
        hash.update(word);
        digests.push(hash.copy().digest().subarray(0, 16));
    }
    return digests;
}

function headerOf(file) {
    const u32 = (at) => file.readUInt32LE(at);
    const u64 = (at) => Number(file.readBigUInt64LE(at));
    const slice = (at, count) => file.subarray(at, at + count);
    return {
        version: u32(8), header_bytes: u32(12), fingerprint: slice(16, 32), space: slice(48, 16), kind: file[64],
        provenance: file[65], flags: file.readUInt16LE(66), begin: u32(68), end: u32(72), piece_bytes: u32(76),
        count_pieces: u32(80), count_marks: u32(84), payload_bytes: u64(88), cut_digest: file.readBigUInt64LE(96),
        count_runs: u32(104), message: u32(108), created_s: u64(112), path_begin: slice(120, 16), path_end: slice(136, 16),
        nonce: slice(152, 12), boundary_kinds: file.readUInt16LE(164), boundary_role: file[166], path_base: slice(168, 16),
    };
}

function tablesOf(file, header) {
    let at = FIXED;
    const take = (count, bytes) => Array.from({ length: count }, () => {
        at += bytes;
        return file.subarray(at - bytes, at);
    });
    const marks = take(header.count_marks, 8);
    const runs = take(header.count_runs, 16).map((run) => ({
        rows_end: run.readUInt32LE(0), cut: run.readUInt32LE(4), digest: run.readBigUInt64LE(8),
    }));
    return { marks, runs, piece_checks: take(header.count_pieces, 16) };
}

// The name of the file that holds this blob.
export function nameOf(file) {
    const fields = [file.subarray(16, 64), file.subarray(64, 66), file.subarray(68, 76), file.subarray(96, 104), file.subarray(120, 152)];
    const digest = createHash('sha256');
    fields.forEach((field) => digest.update(field));
    const hex = digest.digest('hex');
    return `${hex.slice(0, 2)}/${hex}.blob`;
}

function openPiece(stored, index, header, fixed, key) {
    const nonce = Buffer.from(header.nonce);
    nonce.writeUInt32LE((nonce.readUInt32LE(8) + index) >>> 0, 8);
    const number = Buffer.alloc(4);
    number.writeUInt32LE(index);
    const cipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG });
    cipher.setAAD(Buffer.concat([fixed, number]));
    cipher.setAuthTag(stored.subarray(stored.length - TAG));
    return Buffer.concat([cipher.update(stored.subarray(0, stored.length - TAG)), cipher.final()]);
}

// Check all of a file. Gives { header, marks, runs, payload }; throws with the reason.
export async function readBlob(file, key = null) {
    need(file.length >= FIXED, 'shorter than a header');
    need(file.subarray(0, 8).equals(MAGIC), 'magic');
    const header = headerOf(file);
    need(header.version === 1, 'version');
    need(header.kind === 1 || header.kind === 2, 'kind');
    need(header.flags <= 1, 'flags');
    need(header.piece_bytes === PIECE && header.payload_bytes >= 1, 'sizes');
    need(header.count_pieces === Math.ceil(header.payload_bytes / PIECE), 'count of pieces');
    need(header.count_marks === (header.kind === 2 ? header.end - header.begin - 1 : 0), 'count of marks');
    need(header.header_bytes === 256 + 8 * header.count_marks + 16 * (header.count_runs + header.count_pieces + 1), 'header_bytes');
    const sealed = (header.flags & 1) !== 0;
    const data = Math.ceil(header.header_bytes / 4096) * 4096;
    need(file.length === data + header.payload_bytes + (sealed ? TAG * header.count_pieces : 0), 'size of the file');
    const stated = file.subarray(header.header_bytes - 16, header.header_bytes);
    need(stated.equals(await check(file.subarray(0, header.header_bytes - 16))), 'header_check');
    need(file.subarray(167, 168).equals(Buffer.alloc(1)) && file.subarray(184, 256).equals(Buffer.alloc(72)), 'zeros');
    const tables = tablesOf(file, header);
    need(sealed === (key !== null), sealed ? 'encrypted' : 'not encrypted');
    const payload = [];
    let at = data;
    for (let i = 0; i < header.count_pieces; i++) {
        const plain = i + 1 < header.count_pieces ? PIECE : header.payload_bytes - i * PIECE;
        const stored = file.subarray(at, at + plain + (sealed ? TAG : 0));
        at += stored.length;
        need(tables.piece_checks[i].equals(await check(stored)), `piece ${i}`);
        payload.push(sealed ? openPiece(stored, i, header, file.subarray(0, FIXED), key) : stored);
    }
    need(at === file.length, 'bytes after the last piece');
    return { header, marks: tables.marks, runs: tables.runs, payload: Buffer.concat(payload) };
}
