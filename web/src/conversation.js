// conversation - messages as a tree: an edit or another answer is a branch, and nothing that was written is lost.
//
//   root -> system -> user -> assistant -> user ...      each node remembers which child is shown

let lastId = 0;

export function newConversation() {
    return { id: 0, role: 'root', text: '', children: [], shown: -1, parent: null };
}

// Add a message after `parent` and show it.
export function add(parent, role, text, more = {}) {
    const node = { id: ++lastId, role, text, children: [], shown: -1, parent, ...more };
    parent.children.push(node);
    parent.shown = parent.children.length - 1;
    return node;
}

// The messages that are shown, from the first to the last.
export function shownPath(root) {
    const path = [];
    for (let at = root.children[root.shown]; at; at = at.children[at.shown]) {
        path.push(at);
    }
    return path;
}

// A message in another form, beside the one that is there.
export function edit(node, text) {
    return add(node.parent, node.role, text);
}

// Show the message beside this one: step -1 or 1.
export function step(node, by) {
    const { parent } = node;
    parent.shown = Math.min(parent.children.length - 1, Math.max(0, parent.shown + by));
}

// Cut what follows off the shown path (it stays as a branch), so that the next message starts a new one.
export function branchAfter(node) {
    node.shown = -1;
}

// The path up to a node, as the messages of a request.
export function messagesTo(node) {
    const list = [];
    for (let at = node; at && at.role !== 'root'; at = at.parent) {
        const message = { role: at.role, content: at.text };
        if (at.reasoning) {
            message.reasoning_content = at.reasoning;
        }
        list.unshift(message);
    }
    return list;
}
