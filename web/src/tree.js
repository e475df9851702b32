// tree - from the server's list of nodes to rectangles.
//
// The list stands in depth-first order with depths. Across: tokens of the path, [begin, end). Down: branches, one lane for each leaf.
import { hierarchy, partition } from 'd3-hierarchy';

// Give every node its children; the root of the namespace is the first of the list. null: nothing is known.
export function grow(list) {
    if (!list || list.length === 0) {
        return null;
    }
    const path = [];
    for (const item of list) {
        const node = { ...item, children: [] };
        path.length = item.depth;
        if (item.depth > 0) {
            path[item.depth - 1]?.children.push(node);
        }
        path[item.depth] = node;
    }
    if (path[0]) {
        nameAll(path[0], '');
    }
    return path[0] ?? null;
}

// Names that outlive the next picture: new branches stand first, so children are counted from the last.
function nameAll(node, name) {
    const waiting = [[node, name]];
    while (waiting.length > 0) {
        const [at, own] = waiting.pop();
        at.name = own;
        at.children.forEach((child, i) => waiting.push([child, `${own}/${child.begin}.${at.children.length - i}`]));
    }
}

// Where the rows of a node's tokens are.
export function tierOf(node, live) {
    if (live.has(node)) {
        return 'slot';
    }
    if (node.on_disk) {
        return 'disk';
    }
    return node.rows > 0 || node.state_bytes > 0 ? 'ram' : 'known';
}

// Nodes whose rows are in a slot: those that a slot ends on, and all above them.
function findLive(root) {
    const live = new Set();
    root.each((item) => {
        if (item.data.slot !== undefined) {
            for (let at = item; at && !live.has(at.data); at = at.parent) {
                live.add(at.data);
            }
        }
    });
    return live;
}

/*
 * Rectangles in unit coordinates: x0..x1 of the tokens shown, y0..y1 of the lanes.
 *   top    the name of the node whose subtree is shown; null: all
 * Gives { rects, leaves, begin, end }, parents first.
 */
export function layout(tree, top = null) {
    if (!tree) {
        return { rects: [], leaves: 0, begin: 0, end: 0 };
    }
    const whole = hierarchy(tree);
    const live = findLive(whole);
    const shown = (top && whole.find((item) => item.data.name === top)) || whole;
    const root = shown.copy().sum((node) => (node.children.length === 0 ? 1 : 0));
    partition().size([1, 1])(root);
    const begin = shown.data.begin;
    let end = begin + 1;
    root.each((item) => {
        end = Math.max(end, item.data.end);
    });
    const rects = [];
    root.eachBefore((item) => {
        const node = item.data;
        if (node.end > node.begin) {
            rects.push({
                node, tier: tierOf(node, live), x0: (node.begin - begin) / (end - begin), x1: (node.end - begin) / (end - begin),
                y0: item.x0, y1: item.x1, parent: item.parent?.data ?? null,
            });
        }
    });
    return { rects, leaves: root.value, begin, end };
}

// The deepest rectangle at a point; null: none.
export function hit(rects, x, y) {
    for (let i = rects.length - 1; i >= 0; i--) {
        const r = rects[i];
        if (x >= r.x0 && x < r.x1 && y >= r.y0 && y < r.y1) {
            return r;
        }
    }
    return null;
}

// The neighbour of a node by arrow key; the same rectangle when there is none.
export function neighbour(rects, from, key) {
    if (!from) {
        return rects[0] ?? null;
    }
    if (key === 'ArrowLeft') {
        return rects.find((r) => r.node === from.parent) ?? from;
    }
    if (key === 'ArrowRight') {
        return rects.find((r) => r.parent === from.node) ?? from;
    }
    const family = rects.filter((r) => r.node.depth === from.node.depth);
    const at = family.findIndex((r) => r.node === from.node);
    return family[at + (key === 'ArrowDown' ? 1 : -1)] ?? from;
}
