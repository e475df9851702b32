// Files written by the C library are read by another reader, made from docs/format/blob.md alone.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { facesOf, nameOf, pathDigests, readBlob } from './blob_reader.mjs';

const dir = mkdtempSync(path.join(tmpdir(), 'cairn-blobs-'));
after(() => rmSync(dir, { recursive: true }));
execFileSync(process.env.CAIRN_TEST_MAKE_BLOBS, [dir]);
const expected = JSON.parse(readFileSync(path.join(dir, 'expected.json'), 'utf8'));
const key = Buffer.from(expected.key, 'hex');

// "ab/abcd....blob" of each file.
function filesOf(store) {
    return readdirSync(path.join(dir, store)).filter((name) => /^[0-9a-f]{2}$/.test(name))
        .flatMap((folder) => readdirSync(path.join(dir, store, folder)).map((name) => `${folder}/${name}`));
}

for (const store of ['plain', 'sealed']) {
    const storeKey = store === 'sealed' ? key : null;
    const faces = facesOf(Buffer.from(expected.namespace, 'hex'), storeKey);
    const digests = pathDigests(faces.root, expected.tokens);

    test(`${store}: every file is what was written`, async () => {
        const names = filesOf(store);
        assert.equal(names.length, expected.blobs.length);
        for (const name of names) {
            const file = readFileSync(path.join(dir, store, name));
            const { header, marks, runs, payload } = await readBlob(file, storeKey);
            assert.equal(nameOf(file), name);
            const plan = expected.blobs.find((blob) => blob.end === header.end && blob.kind === header.kind && blob.begin === header.begin);
            assert.ok(plan, `nobody wrote ${header.begin} to ${header.end}`);
            assert.equal(header.payload_bytes, plan.payload_bytes);
            assert.equal(header.fingerprint.toString('hex'), expected.fingerprint);
            assert.deepEqual(header.space, faces.space);
            assert.equal(header.provenance, plan.end % 2 === 0 ? 1 : 0);
            assert.equal(header.cut_digest, 0xfedcba9876543210n + BigInt(plan.end));
            assert.equal(header.boundary_kinds, 0x0105);
            assert.equal(header.boundary_role, 3);
            assert.equal(header.message, Math.floor(plan.end / 100));
            assert.ok(Math.abs(header.created_s - Date.now() / 1000) < 600);
            assert.deepEqual(header.path_begin, digests[plan.begin]);
            assert.deepEqual(header.path_end, digests[plan.end]);
            assert.deepEqual(header.path_base, digests[Math.floor((plan.kind === 2 ? plan.begin : plan.end) / 256) * 256]);
            marks.forEach((mark, index) => assert.deepEqual(mark, digests[plan.begin + 1 + index].subarray(0, 8)));
            if (plan.kind === 2) {
                assert.deepEqual(runs, [{ rows_end: plan.begin + 1, cut: plan.begin + 9, digest: 11n },
                    { rows_end: plan.end, cut: plan.end + 3, digest: 0n }].slice(0, plan.end - plan.begin));
            } else {
                assert.equal(runs.length, 0);
                assert.deepEqual(header.path_begin, header.path_end);
            }
            for (let i = 0; i < payload.length; i++) {
                if (payload[i] !== ((i * 31 + plan.end * 7 + (i >> 8)) & 255)) {
                    assert.fail(`payload byte ${i} of ${name}`);
                }
            }
        }
    });

    test(`${store}: a changed byte is seen, wherever it is`, async () => {
        const name = filesOf(store).find((one) => readFileSync(path.join(dir, store, one)).length < 20000);
        const whole = readFileSync(path.join(dir, store, name));
        const { header } = await readBlob(whole, storeKey);
        for (let at = 0; at < whole.length; at += 1 + (at > 300 ? 7 : 0)) {
            if (at >= header.header_bytes && at < 4096) {
                continue; // nothing reads the bytes between
            }
            const changed = Buffer.from(whole);
            changed[at] ^= 1 << (at % 8);
            await assert.rejects(readBlob(changed, storeKey), `byte ${at}`);
        }
        await assert.rejects(readBlob(whole.subarray(0, whole.length - 1), storeKey));
        await assert.rejects(readBlob(Buffer.concat([whole, Buffer.from([0])]), storeKey));
    });
}

test('an encrypted file needs its key, and shows neither the namespace nor what path digests begin with', async () => {
    const wrong = Buffer.from(key);
    wrong[0] ^= 1;
    const secret = Buffer.from(expected.namespace, 'hex');
    for (const store of ['plain', 'sealed']) {
        const { root } = facesOf(secret, store === 'sealed' ? key : null);
        for (const name of filesOf(store)) {
            const file = readFileSync(path.join(dir, store, name));
            assert.equal(file.indexOf(secret), -1);
            assert.equal(file.indexOf(root), -1);
            await assert.rejects(readBlob(file, store === 'sealed' ? wrong : key));
            if (store === 'sealed') {
                await assert.rejects(readBlob(file, null), /encrypted/);
            }
        }
    }
});
