// The heads that einmal accepts, read by the llhttp that Node.js carries (9.x, strict).
//
// einmal asks llhttp about complete heads only, and only about those that its own scan has accepted; a refusal by the scan is the
// same with every version (test_http_verdicts.c sees to it). So the verdicts are the same with another llhttp if that one accepts
// the same heads and reads the same fields out of them. Ends with `N passed, N failed`.
'use strict';
const fs = require('fs');
const path = require('path');

const rows = fs.readFileSync(path.join(__dirname, '../unit/http/verdicts.tsv'), 'latin1').trimEnd().split('\n').map((line) => {
    const [kind, verdict, name, text] = line.split('\t');
    const plain = { r: '\r', n: '\n', t: '\t' };
    const bytes = text.replace(/\\(x([0-9a-f]{2})|.)/g, (_, c, hex) => hex ? String.fromCharCode(parseInt(hex, 16)) : plain[c] || c);
    return { kind, words: verdict.split(' '), name, bytes };
});

// The accepted heads of a row: as many as there are words "ok…", found by the framing that the scan saw.
function acceptedHeads(row) {
    const heads = [];
    let rest = row.bytes;
    for (const word of row.words.filter((w) => w.startsWith('ok'))) {
        const skipped = rest.startsWith('\r\n') ? 2 : 0;
        const end = rest.indexOf('\r\n\r\n', skipped) + 4;
        const head = rest.slice(skipped, end);
        heads.push(head);
        rest = rest.slice(end);
        if (/\r\ntransfer-encoding: *chunked/i.test(head) && row.kind !== 'head-response')
            rest = rest.replace(/^[^]*?(^|\n)0+\r\n([^\r\n]+\r\n)*\r\n/, '');
        else
            rest = rest.slice(word === 'ok' ? 0 : Number(word.slice(2)));
    }
    return heads;
}

function fieldsOf(head) {
    return head.split('\r\n').slice(1, -2).flatMap((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon), line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, '')];
    });
}

function disagreement(HTTPParser, kind, head) {
    const parser = new HTTPParser();
    const fields = [];
    let complete = false;
    parser.initialize(kind === 'request' ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {});
    parser[HTTPParser.kOnHeaders | 0] = (list) => { fields.push(...list); };
    parser[HTTPParser.kOnHeadersComplete | 0] = (major, minor, list) => {
        fields.push(...(list || []));
        complete = true;
        return kind === 'head-response' ? 1 : 0;
    };
    const result = parser.execute(Buffer.from(head, 'latin1'));
    if (result instanceof Error)
        return result.code + ' ' + result.reason;
    if (!complete)
        return 'its head is not complete';
    return JSON.stringify(fields) === JSON.stringify(fieldsOf(head)) ? null : 'other fields: ' + JSON.stringify(fields);
}

function main() {
    const version = process.versions.llhttp || '0';
    let binding;
    try {
        binding = process.binding('http_parser');
    } catch (error) {
        binding = null;
    }
    if (!binding || Number(version.split('.')[0]) < 9) {
        console.log('skipped: verdicts with llhttp 9: this Node.js (' + process.version + ', llhttp ' + version + ') has none to ask');
        console.log('0 passed, 0 failed');
        return;
    }
    let passed = 0, failed = 0;
    for (const row of rows)
        for (const head of acceptedHeads(row)) {
            const what = disagreement(binding.HTTPParser, row.kind, head);
            if (what === null) {
                passed++;
            } else {
                failed++;
                console.log('llhttp ' + version + ', ' + row.name + ': ' + what);
            }
        }
    console.log(passed + ' passed, ' + failed + ' failed');
    process.exitCode = failed || passed < 50 ? 1 : 0;
}

main();
