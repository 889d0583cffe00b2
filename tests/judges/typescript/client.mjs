// A client on the official TypeScript packages: `node client.mjs MODE URL`, or `node client.mjs MODE COMMAND...`.
import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [mode, target, ...rest] = process.argv.slice(2);
const client = new Client(
    { name: 'typescript', version: '1' },
    {
        capabilities: { elicitation: {} },
        versionNegotiation: { mode: mode === 'auto' || mode === 'legacy' ? mode : { pin: mode } },
    },
);
client.setRequestHandler('elicitation/create', async (request) => ({
    action: 'accept',
    content: { name: request.params.message },
}));
await client.connect(
    target.startsWith('http')
        ? new StreamableHTTPClientTransport(new URL(target))
        : new StdioClientTransport({ command: target, args: rest, env: process.env }),
);
const tools = (await client.listTools()).tools.map((tool) => tool.name);
assert(tools.includes('add') && tools.includes('names'));
const added = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
assert.deepEqual(added.structuredContent, { result: 3 });
assert.equal((await client.callTool({ name: 'fails', arguments: {} })).isError, true);
const placed = await client.callTool({ name: 'placed', arguments: { region: 'Zoë ' } });
assert.equal(placed.content[0].text, 'in Zoë ');
const seen = [];
const stepped = await client.callTool({ name: 'steps', arguments: {} }, { onprogress: (step) => seen.push(step.progress) });
assert.equal(stepped.content[0].text, 'stepped');
assert.deepEqual(seen, [1, 2]);
const named = await client.callTool({ name: 'names', arguments: { n: 2 } });
assert.equal(named.content[0].text, 'Name 0? Name 1?');
assert.equal((await client.readResource({ uri: 'x:a' })).contents[0].text, 'text of a');
const prompt = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } });
assert.equal(prompt.messages[0].content.text, 'Hello, Ada!');
await assert.rejects(client.readResource({ uri: 'x:nope' }));
await client.close();
console.log('all as it should');
