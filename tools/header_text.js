// header_text - a public header as data: what it is for, and its items in order, each with its comment and its code.
//
// The headers follow docs/ARCHITECTURE.md: the first comment is about the file; an item is a comment with what stands
// right below it, up to the next comment at the start of a line or the next blank line outside braces.
'use strict';

const SKIPPED = /^\s*(#\s*(include|ifdef|ifndef|if|else|elif|endif|undef)\b.*|extern "C" \{|\})\s*$/;

// The text of one or more comments without their stars; inner indentation stays.
function commentText(comment) {
    return comment.replace(/^\s*\/\*+ ?/, '').replace(/\s*\*\/\s*$/, '').split('\n')
        .map((line) => line.replace(/^\s*\*( |$)/, '').trimEnd()).join('\n').trim();
}

// What an item declares: names of functions, types, constants.
function namesOf(code) {
    const whole = code.replace(/\/\*[^]*?\*\//g, ' ');
    const macros = [...whole.matchAll(/^\s*#\s*define\s+(\w+)/gm)].map((match) => match[1]);
    if (/^#/.test(whole.trim())) {
        return [...new Set(macros)];
    }
    const plain = whole.replace(/CAIRN_(MUST_CHECK|NORETURN)\b|CAIRN_PRINTF\([^)]*\)/g, ' ');
    const typed = /^(?:typedef\s+)?(?:struct|enum)\s+(\w+)\s*\{/.exec(plain.trim());
    if (typed) {
        return [typed[1]];
    }
    const constants = /^enum\s*\{/.test(plain.trim()) ? [...plain.matchAll(/\b(CAIRN_\w+)\s*=/g)].map((match) => match[1]) : [];
    if (constants.length > 0) {
        return constants;
    }
    const functions = [...plain.matchAll(/(\w+)\s*\((?!\*)[^;{]*\)\s*;/g)].map((match) => match[1]);
    return functions.length > 0 ? functions : [...plain.matchAll(/typedef\s+[^;{]*?(\w+);/g)].map((match) => match[1]);
}

// Split the body into { comment, code } at blank lines outside braces and at comments that begin a line there.
function readItems(body) {
    const items = [];
    let lines = [];
    let depth = 0;
    let inComment = false;
    const flush = () => {
        const text = lines.join('\n').trim();
        lines = [];
        const match = /^(\/\*[^]*?\*\/)?\s*([^]*)$/.exec(text);
        const code = match[2].split('\n').filter((line) => !SKIPPED.test(line) || depth > 0).join('\n').trim();
        if (code) {
            items.push({ comment: match[1] ? commentText(match[1]) : '', code });
        }
    };
    for (const line of body.split('\n')) {
        if (depth === 0 && !inComment && (line === '' || (line.startsWith('/*') && lines.some((one) => !/^\s*\/?\*/.test(one))))) {
            flush();
        }
        if (depth === 0 && !inComment && SKIPPED.test(line) && !/\\$/.test(line)) {
            continue;
        }
        lines.push(line);
        const plain = line.replace(/\/\*.*?\*\//g, '').replace(/"(\\.|[^"\\])*"/g, '""');
        if (inComment ? /\*\//.test(line) : /\/\*/.test(plain)) {
            inComment = !inComment;
        }
        if (!inComment) {
            depth += (plain.match(/\{/g) ?? []).length - (plain.match(/\}/g) ?? []).length;
        }
    }
    flush();
    return items.map((item) => ({ ...item, names: namesOf(item.code) }));
}

// { purpose, items } of a header's text.
function readHeader(text) {
    const first = /^\s*\/\*[^]*?\*\//.exec(text);
    if (!first) {
        throw new Error('the header has no opening comment');
    }
    const body = text.slice(first[0].length).replace(/#ifndef (CAIRN_\w+_H)\n#define \1\n/, '');
    return { purpose: commentText(first[0]), items: readItems(body) };
}

// A comment's parts: { text } paragraphs, { code } pictures, { rows: [[name, text]] } lists of arguments and of fields.
function readParts(comment) {
    const parts = [];
    for (const block of comment.split(/\n\s*\n/)) {
        let prose = [];
        const flushProse = () => {
            if (prose.length > 0) {
                parts.push({ text: prose.join(' ') });
            }
            prose = [];
        };
        const all = block.split('\n');
        const isArguments = /^ {2}\w[\w, ]* +\[(in|out|in,out)\]/.test(all[0]);
        if (/^ {2}/.test(all[0]) && !isArguments) {
            parts.push({ code: block });
            continue;
        }
        const field = isArguments ? /^ {2}(\w[\w, ]*?) +(\[(?:in|out|in,out)\] .*)$/ : /^([A-Z][a-z]+) {2,}(\S.*)$/;
        let rows = null;
        for (const line of all) {
            const found = field.exec(line) ?? (isArguments ? null : /^(After|Errors|Cost|Thread|Units|Owner|Caveats|See|Test|Source|Relies) (\S.*)$/.exec(line));
            if (found) {
                flushProse();
                if (!rows) {
                    rows = [];
                    parts.push({ rows });
                }
                rows.push([found[1], found[2]]);
            } else if (rows) {
                rows.at(-1)[1] += ` ${line.trim()}`;
            } else {
                prose.push(line.trim());
            }
        }
        flushProse();
    }
    return parts;
}

module.exports = { readHeader, readParts, namesOf };
