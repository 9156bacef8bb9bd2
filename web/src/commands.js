// Turns the differences of two configurations into commands of zonecfg. A configuration is the object
// that `zonecfg info -j` prints; docs/zone.schema.json describes it.

/** Properties that the page never sets. */
const FIXED = ["zonename", "zonepath", "brand", "uuid"];

/** Returns true for the schema of a value that one input can show. */
export function isSimple(schema) {
    return schema.type !== "array" && schema.type !== "object";
}

/** Returns the properties of a schema that a form shows: [name, schema]. */
export function shown(schema) {
    return Object.entries(schema.properties).filter(([name]) => !name.endsWith(".template") && !FIXED.includes(name));
}

/** Returns a value in zonecfg's language. Its quotes have no escape, so some texts cannot be written. */
export function quoted(value) {
    const text = String(value);
    if (/["\n\r]/.test(text))
        throw new Error(`${text}: a value cannot have a double quote or more than one line`);
    return /^[A-Za-z0-9_.:/%{}@+-]+$/.test(text) ? text : `"${text}"`;
}

/** Returns the text that a user typed for a property: with its tokens, before their expansion. */
export function typed(object, name) {
    return object[`${name}.template`] ?? object[name];
}

/** Returns the commands that change the simple properties of `before` to those of `after`. */
function settings(schema, before, after) {
    const commands = [];
    for (const [name, property] of shown(schema)) {
        // A property without a field stays as it is.
        if (!isSimple(property) || after[name] === undefined)
            continue;
        const [old, now] = [typed(before, name) ?? property.default ?? "", after[name]];
        if (String(old) === String(now))
            continue;
        commands.push(now === "" ? `clear ${name}` : `set ${name}=${quoted(now)}`);
    }
    return commands;
}

/** Returns the filters that select a resource: all its simple properties. */
function filters(schema, resource) {
    return shown(schema)
        .filter(([name, property]) => isSimple(property) && typed(resource, name) !== undefined)
        .map(([name]) => `${name}=${quoted(typed(resource, name))}`)
        .join(" ");
}

/** Returns the commands that change the configuration `before` to what the form has. `after` has the
 *  simple properties, and for each type of resource an array of {was, now}: the object before, null
 *  for a new one, and the simple properties now, null for one that is removed. */
export function commandsOf(schema, before, after) {
    const commands = settings(schema, before, after.properties);
    for (const [type, edits] of Object.entries(after.resources)) {
        const property = schema.properties[type];
        const isSingle = property.type === "object";
        const item = isSingle ? property : property.items;
        for (const { was, now } of edits) {
            const which = isSingle || !was ? type : `${type} ${filters(item, was)}`.trim();
            if (was && !now) {
                commands.push(`remove -F ${which}`);
                continue;
            }
            const changes = settings(item, was ?? {}, now);
            if (was ? changes.length > 0 : now)
                commands.push(`${was ? "select" : "add"} ${which}`, ...changes, "end");
        }
    }
    return commands;
}
