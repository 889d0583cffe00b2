// A server on the official TypeScript packages: `node server.mjs [http]`.
import { createServer } from 'node:http';
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';

function make() {
    const server = new McpServer({ name: 'typescript', version: '1' }, { capabilities: { logging: {} } });
    server.registerTool('add', { inputSchema: z.object({ a: z.number(), b: z.number() }) }, async ({ a, b }) => ({
        content: [{ type: 'text', text: String(a + b) }],
    }));
    server.registerTool('fails', { inputSchema: z.object({}) }, async () => {
        throw new Error('it failed');
    });
    server.registerTool('named', { inputSchema: z.object({}) }, async (_, ctx) => {
        const schema = z.object({ name: z.string() });
        const given = acceptedContent(ctx.mcpReq.inputResponses, 'name', schema);
        if (given === undefined) {
            const name = inputRequired.elicit({ message: 'Name?', requestedSchema: schema });
            return inputRequired({ inputRequests: { name } });
        }
        return { content: [{ type: 'text', text: `named ${given.name}` }] };
    });
    server.registerResource('a', 'x://a', {}, async (uri) => ({ contents: [{ uri: uri.href, text: 'text of a' }] }));
    server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Hello, ${name}!` } }],
    }));
    return server;
}

if (process.argv[2] === 'http') {
    const handler = toNodeHandler(createMcpHandler(make));
    const listening = createServer(handler).listen(0, '127.0.0.1', () => {
        process.stderr.write(`serving on http://127.0.0.1:${listening.address().port}/mcp\n`);
    });
} else {
    serveStdio(make);
}
