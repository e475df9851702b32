// s3_server - a store in memory that speaks S3's PUT, GET, HEAD and DELETE and checks every signature (AWS Signature Version 4)
// with its own arithmetic: a request that isn't signed with the secret, or whose body isn't what was signed, gets 403.
//
//   node s3_server.mjs PORT ACCESS_KEY SECRET REGION
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import http from 'node:http';

const [port, id, secret, region] = process.argv.slice(2);
const objects = new Map();
const sha256 = (data) => createHash('sha256').update(data).digest('hex');
const hmac = (key, data) => createHmac('sha256', key).update(data).digest();

// Why the request is refused; null: it is signed as it should be.
function refusal(request, body) {
    const match = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/
        .exec(request.headers.authorization ?? '');
    if (!match) {
        return 'no signature';
    }
    const [, key, date, where, service, names, signature] = match;
    const time = request.headers['x-amz-date'];
    const digest = request.headers['x-amz-content-sha256'];
    if (key !== id || where !== region || service !== 's3' || !time?.startsWith(date)) {
        return 'of another key, region, service or day';
    }
    if (digest !== sha256(body)) {
        return 'the body is not what was signed';
    }
    const signed = names.split(';');
    for (const name of ['host', 'x-amz-content-sha256', 'x-amz-date']) {
        if (!signed.includes(name)) {
            return `${name} is not signed`;
        }
    }
    const canonical = [request.method, encodeURI(request.url), '',
        ...signed.map((name) => `${name}:${(request.headers[name] ?? '').trim().replace(/ +/g, ' ')}`), '', names, digest].join('\n');
    const text = ['AWS4-HMAC-SHA256', time, `${date}/${region}/s3/aws4_request`, sha256(canonical)].join('\n');
    const keys = ['aws4_request'].reduce(hmac, hmac(hmac(hmac(`AWS4${secret}`, date), region), 's3'));
    return timingSafeEqual(hmac(keys, text), Buffer.from(signature, 'hex')) ? null : 'the signature differs';
}

function serve(request, body, response) {
    const why = refusal(request, body);
    if (why !== null) {
        response.writeHead(403, { 'content-type': 'text/plain' }).end(why);
    } else if (request.method === 'PUT') {
        objects.set(request.url, body);
        response.writeHead(200).end();
    } else if (request.method === 'DELETE') {
        objects.delete(request.url);
        response.writeHead(204).end();
    } else if (!objects.has(request.url)) {
        response.writeHead(404).end();
    } else {
        response.writeHead(200, { 'content-length': objects.get(request.url).length });
        response.end(request.method === 'GET' ? objects.get(request.url) : undefined);
    }
}

http.createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => serve(request, Buffer.concat(pieces), response));
}).listen(Number(port), '127.0.0.1');
